"""Whatever happens between a worker and its dispatchers, it never has more than its window."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from long_runs import examples
from unit.worker.credit_world import HEARTBEAT, World

PLACES = st.integers(0, 2)
MANY = 10**6
PLENTY = 48


class CreditsMachine(RuleBasedStateMachine):
    """Anything may happen, in any order."""

    @initialize(
        stores=st.sampled_from(["a", "aa", "ab", "aab", "aaa", "abc"]),
        limit=st.integers(1, 5) | st.just(PLENTY),
        is_calm=st.booleans(),
        seed=st.integers(0, 2),
    )
    def begin(self, stores: str, limit: int, is_calm: bool, seed: int) -> None:
        self.world = World(stores, limit, seed=seed)
        self.ceiling = limit
        if is_calm:
            self.world.flow()

    def place(self, number: int) -> int:
        return number % len(self.world.stations)

    @rule(seconds=st.sampled_from([0.1, 0.3, 1.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule(place=PLACES, number=st.integers(1, 5))
    def a_dispatcher_reads(self, place: int, number: int) -> None:
        place = self.place(place)
        for _ in range(min(number, len(self.world.lines[place].out))):
            self.world.read(place)

    @rule(index=st.integers(0, 5))
    def a_dispatcher_reads_what_was_sent_on_an_old_connection(self, index: int) -> None:
        if index < len(self.world.old_lines) and self.world.old_lines[index][1].out:
            self.world.read_old(index)

    @rule(place=PLACES, number=st.integers(1, 8))
    def the_worker_reads(self, place: int, number: int) -> None:
        place = self.place(place)
        for _ in range(min(number, len(self.world.lines[place].back))):
            self.world.hear(place)

    @rule(place=PLACES)
    def a_turn_begins_or_ends(self, place: int) -> None:
        place = self.place(place)
        if self.world.stations[place].pending is None:
            self.world.begin_turn(place)
        else:
            self.world.stations[place].perform()

    @rule(place=PLACES, number=st.integers(0, 8))
    def a_dispatcher_reads_and_takes_a_turn(self, place: int, number: int) -> None:
        self.a_dispatcher_reads(place, number)
        self.a_turn_begins_or_ends(place)
        self.a_turn_begins_or_ends(place)

    @rule(place=PLACES, number=st.sampled_from([0, 1, MANY]))
    def a_dispatcher_has_this_much_work(self, place: int, number: int) -> None:
        self.world.stations[self.place(place)].backlog = number

    @rule(which=st.integers(0, 5), is_done=st.booleans())
    def a_job_leaves(self, which: int, is_done: bool) -> None:
        jobs = list(self.world.at_work)
        if which < len(jobs):
            (self.world.end if is_done else self.world.give_back)(jobs[which])

    @rule(place=PLACES)
    def a_dispatcher_is_restarted(self, place: int) -> None:
        self.world.restart(self.place(place))

    @rule(place=PLACES)
    def the_worker_opens_a_new_connection(self, place: int) -> None:
        self.world.open(self.place(place))

    @rule()
    def all_is_well_for_a_moment(self) -> None:
        self.world.flow()

    @rule(limit=st.integers(0, 6) | st.just(PLENTY))
    def the_window_changes(self, limit: int) -> None:
        self.world.limit = limit

    @invariant()
    def no_more_jobs_may_be_here_than_the_window_allows(self) -> None:
        if not hasattr(self, "world"):
            return
        may_come = self.world.may_come()
        # What was there, or promised, when the window shrank may still come, but no more.
        promised = self.world.credits.promised
        self.ceiling = max(self.world.limit, min(self.ceiling, promised))
        assert may_come <= self.ceiling
        assert len(self.world.at_work) <= self.ceiling

    def teardown(self) -> None:
        """After all that, every store's work gets done, and that of anybody who alone has some."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.limit = max(1, world.limit)
        for station in world.stations:
            station.given, station.backlog = 0, MANY
        world.run(12.0, job_seconds=0.3)
        served = {station.store for station in world.stations if station.given}
        assert served == {station.store for station in world.stations}
        for busy in world.stations:
            for station in world.stations:
                station.given, station.backlog = 0, MANY if station is busy else 0
            world.run((len(world.stations) + 1) * HEARTBEAT, job_seconds=0.3)
            assert busy.given


TestCredits = CreditsMachine.TestCase
TestCredits.settings = settings(
    max_examples=examples(200),
    stateful_step_count=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
