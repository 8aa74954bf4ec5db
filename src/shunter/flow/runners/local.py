"""The runner for tests and small data: all workers in this process, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.checks import check_no_frames
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.assembly import Assembly, Snapshots, inbox_of
from shunter.flow.runners.checkpoint_stores import checkpoint_store
from shunter.flow.runners.port import (
    EVERY_SECONDS,
    CheckpointKept,
    OnKept,
    OnProgress,
    RunOptions,
    RunReport,
    ShouldStop,
    Stopped,
)
from shunter.flow.runners.shared_outputs import SharedOutputs
from shunter.flow.runtime.bad_events import failing_run
from shunter.flow.runtime.checkpoint import Checkpoint, CheckpointStore, check_fits
from shunter.flow.runtime.inbox import LIMIT
from shunter.flow.runtime.plan import planned
from shunter.flow.runtime.report import LiveReport

IDLE_SECONDS = 0.001
LOOK_SECONDS = 0.5


class LocalRun:
    """A flow in this process. `nodes` has it routed as if it ran on so many engines."""

    def __init__(
        self,
        flow: FlowGraph,
        *,
        nodes: int = 1,
        limit: int = LIMIT,
        saved: Snapshots | None = None,
        on_checkpoint: Callable[[str, int, Any], None] = lambda _, __, ___: None,
    ) -> None:
        check_no_frames(flow)
        self.plan = planned(flow, nodes)
        inboxes = {
            worker.id: inbox
            for worker in self.plan.workers
            if (inbox := inbox_of(worker, self.plan, limit=limit)) is not None
        }
        self._outputs = SharedOutputs(self.plan, saved).__enter__()
        try:
            self._assembly = Assembly(
                flow,
                self.plan,
                self.plan.workers,
                lambda _, receiver: inboxes[receiver],
                inboxes=inboxes,
                saved=saved,
                on_checkpoint=on_checkpoint,
                output_run=self._outputs.run,
            )
        except BaseException:
            self._outputs.__exit__()
            raise
        self.workers = self._assembly.workers
        self.report = LiveReport(flow, self.workers)

    def step(self) -> bool:
        return self._assembly.step()

    @property
    def is_done(self) -> bool:
        return self._assembly.is_done

    def checkpoint(self, number: int) -> None:
        """Have all sources send a checkpoint."""
        for worker in self.workers:
            worker.ask_for_checkpoint(number)

    @failing_run()
    def run(self, look: Callable[[], None] = lambda: None) -> LiveReport:
        """Run to the end; `look` is called again and again meanwhile."""
        try:
            while not self.is_done:
                if not self.step():
                    time.sleep(IDLE_SECONDS)
                look()
        except BaseException:
            self._assembly.abandon()
            self._outputs.__exit__()
            raise
        self._assembly.close()
        shares = self._assembly.shares
        self._outputs.publish({worker: share.checkpoint() for worker, share in shares.items()})
        return self.report


class KeptRun:
    """A run in this process that keeps checkpoints, and begins at the last one there is."""

    def __init__(
        self,
        flow: FlowGraph,
        checkpoints: CheckpointStore,
        *,
        nodes: int = 1,
        every: float = 5.0,
        on_kept: OnKept = lambda _: None,
    ) -> None:
        self._on_kept = on_kept
        self._checkpoints, self._nodes, self._every = checkpoints, nodes, every
        self._fingerprint = flow.fingerprint()
        kept = checkpoints.latest()
        if kept is not None:
            check_fits(kept, self._fingerprint, nodes)
        self._number = 0 if kept is None else kept.number
        self._snapshots: dict[str, msgspec.Raw] = {}
        self._is_asked = False
        self._kept_at = self._asked_at = time.monotonic()
        self.local = LocalRun(
            flow,
            nodes=nodes,
            saved=None if kept is None else kept.snapshots,
            on_checkpoint=lambda worker, _, snapshot: self._note(worker, snapshot),
        )

    @failing_run()
    def run(self, look: Callable[[], None] = lambda: None) -> LiveReport:
        """Run to the end, and forget the checkpoints once all is published."""

        def keep_and_look() -> None:
            self._keep()
            look()

        report = self.local.run(keep_and_look)
        self._checkpoints.clear()
        return report

    def _keep(self) -> None:
        """Ask for a checkpoint when one is due, and write it when all workers have come to it."""
        if self.local.is_done:
            self._write(self._number + 1, is_end=True)
        elif self._is_asked:
            workers = self.local.workers
            if all(worker.is_done or worker.id in self._snapshots for worker in workers):
                self._write(self._number)
        elif time.monotonic() - self._kept_at >= self._every:
            self._number, self._is_asked = self._number + 1, True
            self._asked_at = time.monotonic()
            self._snapshots.clear()
            self.local.checkpoint(self._number)

    def _write(self, number: int, *, is_end: bool = False) -> None:
        for worker in self.local.workers:
            if worker.is_done and (is_end or worker.id not in self._snapshots):
                self._note(worker.id, worker.snapshot())
        kept = Checkpoint(number, self._fingerprint, self._nodes, dict(self._snapshots), is_end)
        self._checkpoints.keep(kept)
        self._is_asked, self._kept_at = False, time.monotonic()
        if not is_end:
            self._on_kept(CheckpointKept(number, self._kept_at - self._asked_at))

    def _note(self, worker: str, snapshot: Any) -> None:
        """Encode it at once: the states in it go on changing."""
        try:
            self._snapshots[worker] = msgspec.Raw(msgspec.msgpack.encode(snapshot))
        except (TypeError, ValueError, OverflowError) as error:
            raise FlowError(f"a state can't be kept in a checkpoint: {error}") from error


class LocalRunner:
    """Runs flows in this process."""

    def run(
        self,
        flow: FlowGraph,
        options: RunOptions,
        on_progress: OnProgress,
        should_stop: ShouldStop,
    ) -> RunReport:
        looked = time.monotonic()

        def look(report: LiveReport) -> None:
            nonlocal looked
            if should_stop():
                raise Stopped
            if (now := time.monotonic()) - looked >= LOOK_SECONDS:
                looked = now
                on_progress(report.stages)

        nodes = options.nodes or 1
        done = run(
            flow,
            nodes=nodes,
            checkpoints=checkpoint_store(options.checkpoints, flow.name),
            every=options.every or EVERY_SECONDS,
            look=look,
            on_kept=options.on_kept,
        )
        return RunReport(done.stages, nodes)


def run(
    flow: FlowGraph,
    *,
    nodes: int = 1,
    checkpoints: CheckpointStore | None = None,
    every: float = 5.0,
    look: Callable[[LiveReport], None] = lambda _: None,
    on_kept: OnKept = lambda _: None,
) -> LiveReport:
    """Run a flow to its end in this process; `look` gets the report again and again.

    With `checkpoints` it goes on from the last one, keeps one at that interval, in seconds, and
    tells `on_kept` of each.
    """
    if checkpoints is None:
        plain = LocalRun(flow, nodes=nodes)
        return plain.run(lambda: look(plain.report))
    kept = KeptRun(flow, checkpoints, nodes=nodes, every=every, on_kept=on_kept)
    return kept.run(lambda: look(kept.local.report))
