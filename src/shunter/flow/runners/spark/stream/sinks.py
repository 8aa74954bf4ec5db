"""Feeds the sinks of a flow, micro-batch by micro-batch, where the stream was started."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.assembly import Assembly
from shunter.flow.runners.local import IDLE_SECONDS
from shunter.flow.runners.spark.batch.chains import Chain
from shunter.flow.runners.spark.batch.envelopes import (
    CurrentEpoch,
    EnvelopeInbox,
    EnvelopeRow,
    StageTally,
    States,
    Tallies,
)
from shunter.flow.runners.spark.stream.ledger import Commit
from shunter.flow.runners.spark.stream.tasks import MicroBatch
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.plan import FlowPlan
from shunter.flow.runtime.stage_worker import StageWorker
from shunter.flow.sinks.port import Sink
from shunter.flow.sinks.sink_argument import as_sink


class Shown:
    """A sink whose output is to be seen batch by batch, if it offers that."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def part(self, index: int, count: int) -> Shown:
        part = getattr(self._sink, "part", None)
        return Shown(copy(self._sink) if part is None else part(index, count))

    def open(self, saved: Any | None) -> None:
        opened = getattr(self._sink, "open_shown", self._sink.open)
        opened(saved)

    def publish(self) -> None:
        shown = getattr(self._sink, "publish", None)
        if shown is not None:
            shown()


class StreamSinkFeed:
    """All workers of one sink, open at the last commit. `check` raises where the run must stop."""

    def __init__(
        self, flow: FlowGraph, chain: Chain, last: Commit | None, check: Callable[[], None]
    ) -> None:
        self.name, self._check = chain.stages[0].name, check
        self._codec, self._clock = EventCodec(flow.types), CurrentEpoch()
        self._indexes = {worker.id: worker.index for worker in chain.workers}
        self._positions: dict[str, Any] = {}
        self.tallies: Tallies = {}
        self.states: States = {}
        stage = chain.stages[0]
        shown = replace(stage, what=Shown(as_sink(stage.what)))
        workers = tuple(replace(each, stages=(shown,)) for each in chain.workers)
        inboxes: Any = {w.id: EnvelopeInbox((), self._codec, self._clock) for w in workers}
        self._assembly = Assembly(
            flow,
            FlowPlan(1, workers),
            workers,
            _nowhere,
            inboxes=inboxes,
            saved=None if last is None else {each.id: _saved(each.id, last) for each in workers},
            on_checkpoint=self._note,
        )

    def take(self, rows: Mapping[int, list[EnvelopeRow]], batch: MicroBatch) -> dict[str, Any]:
        """Have a batch taken and made safe; return where each worker stands then."""
        self.tallies, self.states, self._positions = {}, {}, {}
        for worker in self._assembly.workers:
            mine = rows.get(self._indexes[worker.id], [])
            inbox = EnvelopeInbox(mine, self._codec, self._clock, last=batch.ending)
            worker.inbox = inbox
            tally = worker.tallies[self.name]
            before = tally.taken
            self._finish(worker)
            self.tallies |= inbox.tallies
            self.states |= inbox.states
            self.tallies[worker.id] = {self.name: StageTally(tally.taken - before)}
        return self._positions

    def publish(self) -> None:
        """Have sinks show what is committed; may be done again."""
        for sink in self._assembly.sinks:
            sink.publish()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._assembly.close()

    def abandon(self) -> None:
        self._assembly.abandon()

    def _finish(self, worker: StageWorker) -> None:
        while worker.id not in self._positions:
            if not worker.step():
                self._check()
                time.sleep(IDLE_SECONDS)
            if worker.is_done:
                self._note(worker.id, 0, worker.snapshot())

    def _note(self, worker: str, _: int, snapshot: dict[str, Any]) -> None:
        self._positions[worker] = snapshot["sink"]


def _saved(worker: str, last: Commit) -> dict[str, Any]:
    return {
        "sink": last.position(worker),
        "states": [],
        "numbers": {},
        "inbox": None,
        "instructions": 0,
        "has_ended": False,
    }


def _nowhere(*_: object) -> Any:
    raise AssertionError("sinks send nothing on")
