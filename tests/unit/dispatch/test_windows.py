"""A dispatcher keeps to the number that a worker told it, for the jobs that it gave itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from shunter.dispatch.arrivals import HeartbeatReceived, WorkerRegistered
from shunter.dispatch.roster import Roster
from shunter.dispatch.state import Member
from shunter.model.job import Job
from shunter.model.report import Held, Report
from shunter.model.worker import Handler, Worker, WorkerKind
from unit.dispatch.conftest import Recorder, Scene


def worker(name: str = "w-1") -> Worker:
    return Worker(
        id=name,
        kind=WorkerKind.FULL,
        hostname="",
        port=0,
        handlers=(Handler("t"),),
        max_jobs=2,
        registered=0.0,
        last_pinged=0.0,
    )


class Order(Recorder):
    """Writes down what is sent in the order in which it is."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        self.sent += [job.id for job in jobs]

    def send_note(self, worker_id: str, text: str) -> None: ...

    def send_pong(self, worker_id: str, beat: int) -> None:
        self.sent.append(f"PONG {beat}")

    def send_taken(self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False) -> None:
        self.sent.append("TAKEN")


def test_a_job_from_another_dispatcher_takes_nothing_from_our_part_of_the_window(
    scene: Scene,
) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=other)
    scene.submit("theirs", at=other)
    scene.worker("w-1", held=[Held("theirs", 1)])

    scene.submit("ours", "too much")

    assert scene.runs() == [("w-1", "theirs"), ("w-1", "ours")]
    assert set(scene.dispatcher.state.roster.held("w-1")) == {"theirs", "ours"}


def test_a_job_from_another_dispatcher_that_a_beat_shows_takes_nothing_either(
    scene: Scene,
) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=other)
    scene.worker("w-1")
    scene.submit("theirs", at=other)
    for _ in range(2):
        scene.beat("w-1", Held("theirs", 1))
        scene.clock.advance(1.0)

    scene.submit("ours")

    assert "ours" in scene.dispatcher.state.running
    assert "theirs" in scene.dispatcher.state.running


def test_our_own_job_counts_though_we_learn_of_it_anew(scene: Scene) -> None:
    scene.worker("w-1")
    scene.submit("ours")
    scene.dispatcher.leave("w-1")

    scene.worker("w-1", held=[Held("ours", 1)])
    scene.submit("more")

    assert scene.runs() == [("w-1", "ours")]


@pytest.mark.parametrize("kind", [WorkerKind.PLAIN, WorkerKind.HTTP])
def test_workers_that_do_not_divide_their_window_have_all_jobs_counted(
    scene: Scene, kind: WorkerKind
) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=other)
    scene.submit("theirs", at=other)
    state = scene.dispatcher.state
    state.members["w-1"] = Member(replace(worker(), kind=kind), scene.said, 0.0)
    state.roster.enlist("w-1", (Handler("t"),), 1)

    state.adopt(scene.job("theirs"), now=scene.clock())

    assert state.roster.freest("t") is None


def test_the_answer_to_a_beat_goes_before_the_jobs_that_follow_from_it(scene: Scene) -> None:
    link = Order()
    scene.dispatcher.introduce(WorkerRegistered(worker(), link, frozenset(), 1, 1))
    scene.turns()
    scene.submit("a", "b", "c")
    scene.dispatcher.report("w-1", [Report("a", 1, result=b"\xc0")], batch=5)
    scene.dispatcher.beat(HeartbeatReceived("w-1", frozenset(), 2, 2))

    scene.turns()

    assert link.sent == ["PONG 1", "a", "PONG 2", "TAKEN", "b", "c"]


def test_a_beat_read_before_ready_is_not_decided_on_after_it(scene: Scene) -> None:
    link = Order()
    scene.dispatcher.introduce(WorkerRegistered(worker(), link, frozenset(), 2, 1))
    scene.turns()

    scene.dispatcher.beat(HeartbeatReceived("w-1", frozenset(), 2, 2))
    scene.dispatcher.introduce(WorkerRegistered(worker(), link, frozenset(), 0, 3))
    scene.turns()
    scene.submit("a")

    assert link.sent == ["PONG 1", "PONG 3"]


def test_a_beat_read_after_ready_is_decided_on_after_it(scene: Scene) -> None:
    link = Order()
    scene.dispatcher.introduce(WorkerRegistered(worker(), link, frozenset(), 2, 1))
    scene.dispatcher.beat(HeartbeatReceived("w-1", frozenset(), 0, 2))
    scene.turns()
    scene.submit("a")

    assert link.sent == ["PONG 1", "PONG 2"]


def test_a_foreign_job_that_becomes_our_own_counts_again() -> None:
    roster = Roster()
    roster.enlist("w", (Handler("t"),), 1)
    roster.hold("w", "j", is_foreign=True)
    assert roster.freest("t") is not None

    roster.enlist("w", (Handler("t"),), 1)
    assert roster.freest("t") is not None, "also where the worker came again"
    roster.hold("w", "j")

    assert roster.freest("t") is None
    roster.drop("w", "j")
    assert roster.freest("t") is not None
