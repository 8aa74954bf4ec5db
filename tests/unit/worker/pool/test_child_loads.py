"""Which child gets a job, and how much room there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shunter.worker.pool.child_loads import RESERVED_SECONDS, ChildLoads

MOST = {"many": 4, "some": 2, "alone": 1}


def loads(*children: str, most: dict[str, int] | None = None) -> ChildLoads[str]:
    mine: ChildLoads[str] = ChildLoads(MOST if most is None else most)
    for child in children:
        mine.opened(child)
    return mine


def give(mine: ChildLoads[str], kind: str, *keys: int, now: float = 0.0) -> list[tuple[int, str]]:
    for key in keys:
        mine.wait(key, kind)
    return mine.place(now=now)


def test_jobs_are_spread_over_children_as_far_as_their_type_allows() -> None:
    mine = loads("a", "b")

    placed = give(mine, "many", *range(1, 11))

    assert [child for _, child in placed] == ["a", "b"] * 4
    assert mine.waiting() == [9, 10]
    mine.ended(1)
    assert mine.place(now=0.0) == [(9, "a")]


def test_the_least_sociable_job_in_a_child_says_how_many_may_be_there() -> None:
    mine = loads("a")
    give(mine, "some", 1)

    assert give(mine, "many", 2, 3) == [(2, "a")]
    mine.ended(1)
    assert mine.place(now=0.0) == [(3, "a")]
    assert mine.room("many") == 2
    assert mine.room("some") == 0


def test_a_job_that_wants_to_be_alone_is() -> None:
    mine = loads("a", "b")

    assert give(mine, "alone", 1, 2, 3) == [(1, "a"), (2, "b")]
    assert give(mine, "many", 4) == []
    mine.ended(1)

    assert mine.place(now=0.0) == [(4, "a")], "the other type has a child already"
    mine.ended(2)
    assert mine.place(now=0.0) == [(3, "b")]


def test_a_type_that_fits_nowhere_has_a_child_kept_free_for_it() -> None:
    mine = loads("a", "b")
    give(mine, "many", 1, 2, 3)

    assert give(mine, "alone", 4) == []
    assert mine.is_blocked
    assert mine.room() == 2, "the other child's"
    assert give(mine, "many", 5, 6) == [(5, "a"), (6, "a")], "none goes to the one that is kept"

    mine.ended(2)
    assert mine.place(now=1.0) == [(4, "b")]
    assert not mine.is_blocked


def test_a_child_is_not_kept_for_ever_for_a_type_that_went_elsewhere() -> None:
    mine = loads("a")
    give(mine, "many", 1)
    give(mine, "alone", 2)
    assert mine.withdraw([2]) == [2]

    assert not mine.is_blocked
    assert give(mine, "many", 3, now=RESERVED_SECONDS / 2) == []
    assert mine.place(now=RESERVED_SECONDS) == [(3, "a")]


def test_a_type_that_is_being_served_waits_its_turn() -> None:
    mine = loads("a", "b")
    give(mine, "alone", 1)
    give(mine, "many", 2)

    assert give(mine, "alone", 3) == []
    assert not mine.is_blocked
    assert give(mine, "many", 4) == [(4, "b")]


def test_an_empty_child_has_room_for_what_any_type_allows() -> None:
    assert loads("a", "b").room() == 2
    assert loads("a", "b", most={"many": 4, "some": 3}).room() == 6
    assert loads("a", "b").room("many") == 8
    assert loads().room() == 0


def test_a_child_that_is_shut_keeps_what_it_has_and_gets_nothing() -> None:
    mine = loads("a", "b")
    give(mine, "many", 1)
    mine.shut("a")

    assert give(mine, "many", 2, 3) == [(2, "b"), (3, "b")]
    assert mine.keys_in("a") == [1]
    assert mine.room() == 2


def test_a_child_that_closes_gives_out_what_was_in_it() -> None:
    mine = loads("a")
    give(mine, "many", 1, 2)

    assert mine.closed("a") == [1, 2]
    assert mine.assigned == {}
    mine.ended(1)
    mine.wait(2, "many", is_first=True)
    assert mine.waiting() == [2]


@given(
    st.lists(
        st.tuples(st.sampled_from(["give", "end", "open", "close"]), st.sampled_from(list(MOST))),
        max_size=60,
    )
)
def test_no_child_ever_has_more_than_the_types_in_it_allow(steps: list[tuple[str, str]]) -> None:
    mine = loads("a", "b")
    kinds: dict[int, str] = {}
    for number, (step, kind) in enumerate(steps, start=1):
        match step:
            case "give":
                kinds[number] = kind
                give(mine, kind, number, now=float(number))
            case "end" if mine.assigned:
                mine.ended(next(iter(mine.assigned)))
                mine.place(now=float(number))
            case "open":
                mine.opened(f"c{number}")
                mine.place(now=float(number))
            case "close":
                for key in mine.closed("b"):
                    mine.wait(key, kinds[key], is_first=True)
                mine.place(now=float(number))
        for child in set(mine.assigned.values()):
            keys = mine.keys_in(child)
            assert len(keys) <= min(MOST[kinds[key]] for key in keys)
