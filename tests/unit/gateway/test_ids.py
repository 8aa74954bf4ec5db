"""Ids are all different, whichever thread makes them, and sort by time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from shunter.gateway.ids import NUMBERS_AT_ONCE, Ids

MANY = 5 * NUMBERS_AT_ONCE


def test_threads_never_make_the_same_id() -> None:
    ids = Ids()

    with ThreadPoolExecutor(4) as threads:
        made = [new for some in threads.map(lambda _: _made(ids), range(4)) for new in some]

    assert len(set(made)) == 4 * MANY


def test_later_ids_sort_behind_earlier_ones_by_their_first_ten_letters() -> None:
    beginnings = [new[:10] for new in _made(Ids())]

    assert beginnings == sorted(beginnings)


def _made(ids: Ids) -> list[str]:
    return [ids.new() for _ in range(MANY)]
