"""However much is queued, a dispatcher has only so much of it in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from shunter.dispatch.dispatcher import Dispatcher
from shunter.model.job import Job
from shunter.store.port import CLAIM_BYTES
from shunter.testing.finish import finish

SIZE = CLAIM_BYTES // 4
LARGE = msgspec.msgpack.encode(bytes(SIZE))


class _Sizes:
    """A store that writes down how much each commit brought."""

    def __init__(self, scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claimed: list[int] = []
        commit = scene.store.commit

        async def counted(batch: Any) -> Any:
            committed = await commit(batch)
            jobs: Sequence[Job] = [job for part in committed.claimed for job in part]
            self.claimed.append(sum(len(job.payload or b"") for job in jobs))
            return committed

        monkeypatch.setattr(scene.store, "commit", counted)


def names(count: int) -> list[str]:
    return [f"j-{number:02}" for number in range(count)]


def test_a_worker_with_many_slots_gets_large_jobs_over_several_turns(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.submit(*names(40), payload=LARGE)
    sizes = _Sizes(scene, monkeypatch)

    scene.worker("w-1", slots=40)

    assert [job_id for _, job_id in scene.runs()] == names(40)
    assert max(sizes.claimed) < CLAIM_BYTES + len(LARGE)
    assert sum(size > 0 for size in sizes.claimed) == 10


def test_workers_of_several_types_share_what_one_turn_may_claim(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("a", "b"):
        scene.submit(*(f"{kind}-{name}" for name in names(8)), type=kind, payload=LARGE)
        scene.dispatcher.introduce(scene.arrival(f"w-{kind}", kind, slots=8))
    sizes = _Sizes(scene, monkeypatch)

    scene.turns()

    assert len(scene.runs()) == 16
    assert max(sizes.claimed) < CLAIM_BYTES + 2 * len(LARGE)


def test_while_a_gateway_is_clogged_no_job_is_started(scene: Any) -> None:
    dispatcher: Dispatcher = scene.dispatcher
    scene.worker("w-1", slots=3)
    dispatcher.clog("zmq", True)
    scene.turns()

    scene.submit(*names(2))
    assert scene.runs() == []
    assert not dispatcher.has_work, "it waits without turning"

    dispatcher.clog("zmq", False)
    scene.turns()
    assert [job_id for _, job_id in scene.runs()] == names(2)


def test_what_is_claimed_and_waits_for_its_cooldown_counts_too(scene: Any) -> None:
    slow = scene.another_dispatcher("d-2", cooldown=1.0)
    scene.submit(*names(20), payload=LARGE)
    scene.worker("w-1", slots=20, at=slow)

    for _ in range(5):
        finish(slow.turn())

    assert len(slow.state.claimed) == CLAIM_BYTES // SIZE
