"""The runner for tests and small data: all workers in this process, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from shunter.flow.assembly import Assembly, Snapshots, inbox_of
from shunter.flow.graph import Flow
from shunter.flow.inbox import LIMIT
from shunter.flow.plan import planned
from shunter.flow.report import Report

IDLE_SECONDS = 0.001


class LocalRun:
    """A flow in this process. `nodes` has it routed as if it ran on so many engines."""

    def __init__(
        self,
        flow: Flow,
        *,
        nodes: int = 1,
        limit: int = LIMIT,
        saved: Snapshots | None = None,
        on_checkpoint: Callable[[str, int, Any], None] = lambda _, __, ___: None,
    ) -> None:
        self.plan = planned(flow, nodes)
        inboxes = {
            worker.id: inbox
            for worker in self.plan.workers
            if (inbox := inbox_of(worker, self.plan, limit=limit)) is not None
        }
        self._assembly = Assembly(
            flow,
            self.plan,
            self.plan.workers,
            lambda _, receiver: inboxes[receiver],
            inboxes=inboxes,
            saved=saved,
            on_checkpoint=on_checkpoint,
        )
        self.workers = self._assembly.workers
        self.report = Report(flow, self.workers)

    def step(self) -> bool:
        return self._assembly.step()

    def checkpoint(self, number: int) -> None:
        """Have all sources send a checkpoint."""
        for worker in self.workers:
            worker.ask_for_checkpoint(number)

    def run(self, look: Callable[[], None] = lambda: None) -> Report:
        """Run to the end; `look` is called again and again meanwhile."""
        try:
            while not self._assembly.is_done:
                if not self.step():
                    time.sleep(IDLE_SECONDS)
                look()
        except BaseException:
            self._assembly.abandon()
            raise
        self._assembly.close()
        return self.report


def run(flow: Flow, *, nodes: int = 1) -> Report:
    """Run a flow to its end in this process."""
    return LocalRun(flow, nodes=nodes).run()
