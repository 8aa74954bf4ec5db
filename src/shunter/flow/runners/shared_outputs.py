"""Outputs that several workers of a run write together, and the process that runs it publishes.

The same for one process and for engines; on Spark tasks take the place of workers. Such a sink
offers `is_shared`, `resumed` and `share` (`sinks/file_sink.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Self

from shunter.flow.graph.stages import StageKind
from shunter.flow.runtime.plan import FlowPlan, WorkerPlan
from shunter.flow.sinks.file_sink import FileSink, StagedOutput, new_run
from shunter.flow.sinks.task_files import parts_in, run_in


class SharedOutputs:
    """Those of one try of a run; `saved` are the snapshots of workers that it goes on from.

    `run` is what workers have to be told. Inside of the `with` the targets are taken.
    """

    def __init__(self, plan: FlowPlan, saved: Mapping[str, Any] | None) -> None:
        self._workers: defaultdict[str, list[str]] = defaultdict(list)
        self._sinks: dict[str, FileSink] = {}
        for worker in plan.workers:
            if (sink := shared_sink(worker)) is not None:
                self._sinks[worker.stages[-1].name] = sink
                self._workers[worker.stages[-1].name].append(worker.id)
        ids = [each for workers in self._workers.values() for each in workers]
        self._saved = {} if saved is None else {each: saved[each]["sink"] for each in ids}
        self.run = next(map(run_in, self._saved.values()), None) or new_run()
        self._outputs: dict[str, StagedOutput] = {}

    def __enter__(self) -> Self:
        try:
            for name, sink in self._sinks.items():
                kept = self._parts(name, self._saved) if self._saved else []
                self._outputs[name] = sink.resumed(self.run, kept, is_new=not self._saved)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what is staged and was not published to a next try."""
        for output in self._outputs.values():
            output.let_go()
        self._outputs.clear()

    def publish(self, positions: Mapping[str, Any]) -> None:
        """Show all that workers have written; `positions` are their sinks' last checkpoints."""
        for name, output in self._outputs.items():
            output.publish(self._parts(name, positions))

    def _parts(self, name: str, positions: Mapping[str, Any]) -> list[Any]:
        return [part for worker in self._workers[name] for part in parts_in(positions[worker])]


def shared_sink(worker: WorkerPlan) -> FileSink | None:
    """Return the sink that a worker has together with others, if it has one."""
    last = worker.stages[-1]
    is_file = last.kind is StageKind.SINK and isinstance(last.what, FileSink)
    return last.what if is_file and worker.count > 1 and last.what.is_shared else None
