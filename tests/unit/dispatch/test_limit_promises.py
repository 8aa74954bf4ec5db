"""What limits promise, with the numbers in which it is promised, on a virtual clock."""

from __future__ import annotations

from long_runs import IS_LONG
from shunter.model.job_limits import JobLimits, Rate
from shunter.model.report import Report
from unit.dispatch.conftest import Scene
from unit.dispatch.test_limits import limited, sent, submit

MANY = 100_000 if IS_LONG else 2_000
WORKERS = ("w-1", "w-2", "w-3")


class Runs:
    """What workers have been sent and not reported yet, and since when."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self._seen = scene, 0
        self.begun: dict[tuple[str, str], float] = {}

    def look(self) -> list[str]:
        """Note what was sent since the last look; return its ids."""
        runs = self.scene.runs()[self._seen :]
        self._seen += len(runs)
        self.begun |= {run: self.scene.clock() for run in runs}
        return [job_id for _, job_id in runs]

    def end(self, *, older_than: float) -> None:
        """Report what has run for so long."""
        now = self.scene.clock()
        for (worker_id, job_id), since in list(self.begun.items()):
            if now - since >= older_than:
                attempt = self.scene.job(job_id).attempt
                del self.begun[worker_id, job_id]
                self.scene.report(worker_id, Report(job_id, attempt, result=b"\xc0"))


def test_sixty_a_minute_on_three_workers_are_sixty_in_each_of_ten_minutes(scene: Scene) -> None:
    for name in WORKERS:
        limited(scene, JobLimits(rate=Rate(60, per=60, by="tenant")), name, slots=2)
    submit(scene, *(f"a{number}" for number in range(620)))
    runs, workers = Runs(scene), set[str]()
    starts = [len(runs.look())]
    for _ in range(10):
        for _ in range(240):
            scene.clock.advance(0.25)
            runs.end(older_than=1.5)
            scene.dispatcher.look_for_tokens()
            scene.turns()
            workers |= {worker_id for worker_id, _ in runs.begun}
            starts[-1] += len(runs.look())
        starts.append(0)

    assert [count for count in starts[:10] if not 59 <= count <= 61] == []
    assert workers == {*WORKERS}


def test_a_tenant_s_first_job_begins_within_one_job_s_length_of_another_s_many(
    scene: Scene,
) -> None:
    for name in WORKERS:
        limited(scene, JobLimits(fair="tenant"), name, slots=2)
    for start in range(0, MANY, 1000):
        submit(scene, *(f"a{number}" for number in range(start, start + 1000)))
    runs = Runs(scene)
    runs.look()
    for _ in range(20):
        scene.clock.advance(0.5)
        runs.end(older_than=10.0)
        runs.look()
    submit(scene, "b", tenant="b")
    submitted = scene.clock()

    while "b" not in sent(scene):
        scene.clock.advance(0.5)
        runs.end(older_than=10.0)
        runs.look()
        assert scene.clock() - submitted <= 10.0, "longer than a job takes"
    assert len(sent(scene)) < 40
