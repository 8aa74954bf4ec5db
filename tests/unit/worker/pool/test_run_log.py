"""What a run has printed, as its worker sees it while it goes on and when it has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from shunter.model.journal import LiveLog
from shunter.worker.pool.run_log import RunLog


@pytest.fixture
def fd() -> Iterator[int]:
    made = RunLog.create()
    yield made
    os.close(made)


def test_a_look_at_the_log_leaves_it_there(fd: int) -> None:
    log = RunLog(fd, limit=100)
    os.write(fd, b"one\ntwo\n")

    assert log.peek(100) == LiveLog(0, "one\ntwo\n")
    assert log.take() == "one\ntwo\n"
    assert log.peek(100) == LiveLog(0, "")


def test_of_a_long_log_the_last_whole_lines_are_seen(fd: int) -> None:
    os.write(fd, b"first\n" + b"x" * 50 + b"\nlast\n")

    assert RunLog(fd, limit=100).peek(20) == LiveLog(57, "last\n")


def test_of_a_line_that_does_not_end_the_last_is_seen(fd: int) -> None:
    os.write(fd, b"\r10%" * 50)

    assert RunLog(fd, limit=100).peek(8) == LiveLog(192, "\r10%\r10%")
