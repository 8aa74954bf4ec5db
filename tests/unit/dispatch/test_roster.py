"""Who gets the next job."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shunter.dispatch.roster import GroupKey, Opening, Roster
from shunter.model.worker import Handler


def handlers(*types: str) -> tuple[Handler, ...]:
    return tuple(Handler(name) for name in types)


def test_a_job_goes_to_the_worker_with_the_most_room_that_does_its_type() -> None:
    roster = Roster()
    roster.enlist("small", handlers("a"), 1)
    roster.enlist("large", handlers("a", "b"), 3)
    roster.enlist("other", handlers("c"), 9)

    assert [roster.place("a", f"j{n}") for n in range(5)] == [
        "large",
        "large",
        "small",
        "large",
        None,
    ]


def test_among_equals_the_one_that_waited_longest_goes_first() -> None:
    roster = Roster()
    for name in ("first", "second", "third"):
        roster.enlist(name, handlers("a"), 1)

    assert [roster.place("a", f"j{n}") for n in range(3)] == ["first", "second", "third"]


def test_a_closed_seat_gets_nothing_and_keeps_what_it_holds() -> None:
    roster = Roster()
    roster.enlist("w", handlers("a"), 2)
    roster.place("a", "j1")

    roster.adjust("w", is_open=False)

    assert roster.place("a", "j2") is None
    assert set(roster.held("w")) == {"j1"}


def test_a_worker_that_comes_again_still_holds_what_it_held() -> None:
    roster = Roster()
    roster.enlist("w", handlers("a"), 1)
    roster.place("a", "j1")

    roster.enlist("w", handlers("a", "b"), 1)

    assert roster.place("b", "j2") is None


def test_places_set_aside_are_not_given_twice_and_come_back() -> None:
    roster = Roster()
    roster.enlist("small", handlers("a"), 1)
    roster.enlist("large", handlers("a"), 3)

    reserved = roster.reserve(frozenset("a"), 9)
    assert reserved == ["large", "large", "small", "large"]
    assert roster.place("a", "j1") is None

    roster.release(reserved)
    assert roster.place("a", "j1") == "large"


class RosterMachine(RuleBasedStateMachine):
    """The roster against the obvious model: a list that is searched each time."""

    def __init__(self) -> None:
        super().__init__()
        self.roster = Roster()
        self.model: dict[str, tuple[frozenset[str], int, bool, set[str]]] = {}
        self.jobs = 0

    @rule(
        name=st.sampled_from("uvw"),
        types=st.sets(st.sampled_from("abc"), min_size=1),
        window=st.integers(0, 4),
    )
    def enlist(self, name: str, types: set[str], window: int) -> None:
        held = self.model[name][3] if name in self.model else set()
        self.roster.enlist(name, handlers(*sorted(types)), window)
        self.model[name] = (frozenset(types), window, True, held)

    @rule(name=st.sampled_from("uvw"))
    def remove(self, name: str) -> None:
        self.roster.remove(name)
        self.model.pop(name, None)

    @rule(name=st.sampled_from("uvw"), window=st.integers(0, 4), is_open=st.booleans())
    def adjust(self, name: str, window: int, is_open: bool) -> None:
        self.roster.adjust(name, window=window, is_open=is_open)
        if name in self.model:
            types, _, _, held = self.model[name]
            self.model[name] = (types, window, is_open, held)

    @rule(job_type=st.sampled_from("abc"))
    def place(self, job_type: str) -> None:
        self.jobs += 1
        room = {name: self.free(name) for name in self.model if job_type in self.model[name][0]}
        most = max(room.values(), default=0)
        placed = self.roster.place(job_type, f"j{self.jobs}")
        if most == 0:
            assert placed is None
        else:
            assert placed is not None
            assert room[placed] == most
            self.model[placed][3].add(f"j{self.jobs}")

    @rule(name=st.sampled_from("uvw"), which=st.integers(0, 3))
    def drop(self, name: str, which: int) -> None:
        held = sorted(self.model[name][3]) if name in self.model else []
        if which < len(held):
            self.roster.drop(name, held[which])
            self.model[name][3].discard(held[which])

    @invariant()
    def openings_are_the_sums_of_room(self) -> None:
        sums: dict[frozenset[str], int] = {}
        for name, (types, *_) in self.model.items():
            sums[types] = sums.get(types, 0) + self.free(name)
        expected = {Opening(types, free) for types, free in sums.items() if free}
        assert set(self.roster.openings()) == expected

    def free(self, name: str) -> int:
        _, window, is_open, held = self.model[name]
        return max(0, window - len(held)) if is_open else 0


TestRosterAgainstItsModel = RosterMachine.TestCase
TestRosterAgainstItsModel.settings = settings(max_examples=60, stateful_step_count=40)


@given(st.integers(1, 300))
def test_placing_and_dropping_again_and_again_keeps_the_heap_small(rounds: int) -> None:
    roster = Roster()
    roster.enlist("w", handlers("a"), 2)
    for number in range(rounds):
        assert roster.place("a", f"j{number}") == "w"
        roster.drop("w", f"j{number}")

    assert len(roster._groups[GroupKey(frozenset("a"), False)]._heap) <= 64 + 16
