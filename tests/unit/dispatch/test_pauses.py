"""What is held back: types, workers and versions, on every dispatcher over a store."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.dispatch.pauses import forget_drained, heed_pauses, pause, pauses, resume
from shunter.errors import PauseRefused
from shunter.model.job import Status
from shunter.model.key import Key, Role
from shunter.model.pause import MAX_PAUSES, Pause, PauseTarget, key_fault, record_of
from shunter.model.report import Report
from shunter.model.worker import WorkerKind
from shunter.testing.finish import finish
from unit.dispatch.conftest import Scene, a_worker

TYPE, WORKER, VERSION = PauseTarget


def hold(scene: Scene, target: PauseTarget, name: str) -> None:
    finish(pause(scene.dispatcher, target, name))
    scene.turns()


def let_go(scene: Scene, target: PauseTarget, name: str) -> None:
    finish(resume(scene.dispatcher, target, name))
    scene.turns()


def test_no_job_of_a_paused_type_starts_and_others_do(scene: Scene) -> None:
    scene.worker("w-1", "t", "u", slots=3)
    scene.submit("before")
    hold(scene, TYPE, "t")

    scene.submit("held")
    scene.submit("other", type="u")
    scene.dispatcher.expect_waiting()
    scene.turns()
    scene.report("w-1", Report("before", 1, result=b"\x01"))

    assert scene.runs() == [("w-1", "before"), ("w-1", "other")]
    assert scene.job("held").status is Status.QUEUED
    let_go(scene, TYPE, "t")
    assert scene.runs()[2:] == [("w-1", "held")]


def test_every_dispatcher_goes_by_a_pause_once_it_has_read_it(scene: Scene) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-2", "t", at=other)
    hold(scene, TYPE, "t")

    finish(heed_pauses(other))
    scene.submit("j-1", at=other)

    assert scene.runs() == []
    let_go(scene, TYPE, "t")
    finish(heed_pauses(other))
    scene.turns(other)
    assert scene.runs() == [("w-2", "j-1")]


def test_a_claimed_job_goes_back_to_the_queue_when_its_type_is_paused(scene: Scene) -> None:
    slow = scene.another_dispatcher("d-2", cooldown=1.0)
    slow.introduce(scene.arrival("w-1", at=slow))
    finish(slow.turn())
    slow.submit([], lambda _: None)
    scene.submit("j-1")
    slow.expect_waiting()
    finish(slow.turn())
    assert scene.job("j-1").status is Status.DISPATCHING

    finish(pause(slow, TYPE, "t"))
    scene.clock.advance(1.5)
    finish(slow.turn())

    assert scene.job("j-1").status is Status.QUEUED
    assert scene.runs() == []


@pytest.mark.parametrize("kind", [WorkerKind.FULL, WorkerKind.PLAIN, WorkerKind.HTTP])
def test_a_drained_worker_gets_nothing_new_however_it_is_connected(
    scene: Scene, kind: WorkerKind
) -> None:
    if kind is WorkerKind.HTTP:
        worker = replace(a_worker("w-1", kind=kind, now=scene.clock()), revision=1)
        finish(scene.store.swap_workers([worker]))
        scene.survey()
    else:
        scene.worker("w-1", kind=kind)
        finish(scene.store.put_workers([a_worker("w-1", kind=kind)]))
    hold(scene, WORKER, "w-1")

    scene.submit("j-1")
    assert scene.runs() == []
    scene.worker("w-2")
    assert scene.runs() == [("w-2", "j-1")]
    scene.submit("j-2")
    let_go(scene, WORKER, "w-1")
    assert scene.runs()[1:] == [("w-1", "j-2")]


def test_all_workers_of_a_version_are_drained_also_those_that_come_later(scene: Scene) -> None:
    for name, version in (("old-1", "1.2"), ("new-1", "1.3")):
        arrival = scene.arrival(name)
        scene.dispatcher.introduce(
            replace(arrival, worker=replace(arrival.worker, version=version))
        )
    scene.turns()
    hold(scene, VERSION, "1.2")
    late = scene.arrival("old-2", slots=9)
    scene.dispatcher.introduce(replace(late, worker=replace(late.worker, version="1.2")))
    scene.turns()

    scene.submit("j-1", "j-2")

    assert scene.runs() == [("new-1", "j-1")]
    assert scene.job("j-1").version == "1.3"
    let_go(scene, VERSION, "1.2")
    assert scene.runs()[1:] == [("old-2", "j-2")]


def test_a_pause_is_written_once_and_a_slip_is_refused(scene: Scene) -> None:
    scene.worker("w-1")
    hold(scene, TYPE, "t")
    first = finish(pauses(scene.store))
    scene.clock.advance(5)
    hold(scene, TYPE, "t")

    assert finish(pauses(scene.store)) == first
    for target, name, said in (
        (TYPE, "no spaces", "that is no name"),
        (WORKER, "w-9", "no worker has this id; `shunter workers` lists them"),
        (VERSION, "1.2", "no worker has it; versions here: none"),
    ):
        with pytest.raises(PauseRefused, match=said):
            finish(pause(scene.dispatcher, target, name))
    with pytest.raises(PauseRefused, match="not held back; what is: type:t"):
        finish(resume(scene.dispatcher, TYPE, "u"))


def test_pauses_are_bounded(scene: Scene) -> None:
    made = [record_of(Pause(target=TYPE, name=f"t{n}")) for n in range(MAX_PAUSES)]
    finish(scene.store.swap_records(made))

    with pytest.raises(PauseRefused, match="pauses are there; end some"):
        finish(pause(scene.dispatcher, TYPE, "one-more"))
    finish(pause(scene.dispatcher, TYPE, "t0"))


def test_the_pause_of_a_worker_goes_with_its_record(scene: Scene) -> None:
    scene.worker("w-1")
    hold(scene, WORKER, "w-1")
    hold(scene, TYPE, "t")
    finish(forget_drained(scene.dispatcher))
    assert len(finish(pauses(scene.store))) == 2

    finish(scene.store.remove_workers(finish(scene.store.workers())))
    finish(forget_drained(scene.dispatcher))

    assert [it.id for it in finish(pauses(scene.store))] == ["type:t"]


def test_nobody_without_a_key_is_asked_for_one() -> None:
    assert key_fault(None) == ""


def test_a_key_of_a_namespace_holds_nothing_back_for_all() -> None:
    key = Key(name="boss", role=Role.OPERATOR, public="", token_hash="", udp_key="")

    assert key_fault(key) == ""
    assert "use an operator's key without a namespace" in key_fault(replace(key, namespace="a"))
