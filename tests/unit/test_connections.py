"""Who is cut off for what it leaves unread, and how many connections there may be."""

from __future__ import annotations

import subprocess
import sys

import pytest
import zmq

from shunter.net.connections import (
    GROWTH_BYTES,
    INEXPLICABLE_BYTES,
    LOOK_SECONDS,
    SMALL_BYTES,
    Connections,
    excess,
)
from shunter.net.descriptors import FEWEST_CONNECTIONS, SPARE_DESCRIPTORS, connections_each

MEGABYTE = 1024 * 1024
MOST, TOGETHER = 34 * MEGABYTE, 256 * MEGABYTE


def cut(unread: dict[int, int], growth: int = 0) -> list[int]:
    return excess(unread, growth, most=MOST, together=TOGETHER)


def test_a_message_that_may_still_end_is_waited_for() -> None:
    assert cut({1: MOST, 2: MOST}, growth=2 * MOST) == []


def test_who_has_brought_more_than_a_message_is_cut_off_alone() -> None:
    assert cut({1: MOST + 1, 2: MOST}, growth=2 * MOST) == [1]


def test_of_many_the_largest_go_until_the_rest_fits() -> None:
    unread = {number: (20 + number) * MEGABYTE for number in range(12)}
    left = {name: size for name, size in unread.items() if name not in cut(unread)}

    assert sum(left.values()) <= TOGETHER
    assert sum(left.values()) + 31 * MEGABYTE > TOGETHER, "no more go than must"
    assert max(left) < min(set(unread) - set(left))


def test_tiny_frames_are_known_by_how_the_process_grows() -> None:
    sizes = {1: 2 * MEGABYTE, 2: 3 * MEGABYTE}
    usual = 2 * sum(sizes.values()) + INEXPLICABLE_BYTES

    assert cut(sizes, growth=usual) == []
    assert cut(sizes, growth=usual + 1) == [2]
    assert cut({1: SMALL_BYTES - 1}, growth=10 * usual) == [], "it grows for another reason"


def test_a_look_is_due_after_a_while_and_at_once_where_the_process_grows() -> None:
    sizes = iter([0, GROWTH_BYTES - 1, GROWTH_BYTES])
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        connections = Connections(
            context, socket, most=8, message_bytes=1, process_bytes=lambda: next(sizes)
        )

        assert connections.is_look_due(since=LOOK_SECONDS)
        assert not connections.is_look_due(since=LOOK_SECONDS / 2)
        assert connections.is_look_due(since=0.0)
        connections.close()


@pytest.mark.parametrize(
    ("descriptors", "each"),
    [(256, FEWEST_CONNECTIONS), (1024, (1024 - SPARE_DESCRIPTORS) // 4), (65_536, 4096)],
)
def test_descriptors_are_shared_out_and_some_stay_free(descriptors: int, each: int) -> None:
    assert connections_each(descriptors, most=4096) == each
    assert 3 * each < descriptors


AFTER_LARGE_BLOCKS = """
from shunter.net.connections import resident_bytes, return_large_blocks
return_large_blocks()
before = resident_bytes()
del (first := bytearray(8 << 20))[:]
del first
blocks = [bytearray(4 << 20) for _ in range(10)]
del blocks[:-1]
print(resident_bytes() - before)
"""


def test_large_blocks_that_were_freed_take_no_memory() -> None:
    run = subprocess.run(
        [sys.executable, "-c", AFTER_LARGE_BLOCKS], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 12 * MEGABYTE


OF_A_FORKED_PROCESS = """
import os
from shunter.net.connections import resident_bytes
before, (end, other) = resident_bytes(), os.pipe()
if not os.fork():
    ballast = bytes(1) * (64 << 20)
    os.write(other, str(resident_bytes() - before).encode())
    os._exit(0)
os.wait()
print(os.read(end, 100).decode(), resident_bytes() - before)
"""


def test_a_forked_process_tells_its_own_memory() -> None:
    run = subprocess.run(
        [sys.executable, "-c", OF_A_FORKED_PROCESS], capture_output=True, text=True, check=True
    )
    of_child, of_parent = map(int, run.stdout.split())
    assert of_child > 30 * MEGABYTE
    assert of_parent < 10 * MEGABYTE
