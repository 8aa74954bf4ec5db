"""Runs a flow as a stream on Spark: micro-batch by micro-batch, each counted exactly once.

Spark keeps which part of the sources belongs to which batch. After a batch, states of workers and
sinks are made safe, and a commit in the ledger has it count; then sinks show it. A batch that is
in the ledger is passed over when Spark gives it again.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import StageKind
from shunter.flow.location import Location
from shunter.flow.runners.port import MAX_EVENTS, BatchDone, OnKept, Stopped
from shunter.flow.runners.spark.batch.chains import pinned
from shunter.flow.runners.spark.batch.envelopes import StageTally, States, Tallies
from shunter.flow.runners.spark.batch.run import reports_of
from shunter.flow.runners.spark.session.connect import needs_classic
from shunter.flow.runners.spark.session.faults import plain_faults
from shunter.flow.runners.spark.session.job_names import job_name, named_jobs
from shunter.flow.runners.spark.session.kinds import is_local
from shunter.flow.runners.spark.session.memory_watch import MemoryWatch
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.session.tagged_jobs import tagged_jobs
from shunter.flow.runners.spark.shipping.shipped_code import send_package
from shunter.flow.runners.spark.stream.checkpoint import checkpoint_identity, compared
from shunter.flow.runners.spark.stream.differences import carried, differing
from shunter.flow.runners.spark.stream.fitness import check_streamable
from shunter.flow.runners.spark.stream.identity import (
    identity_of,
    keep_identity,
    pins_of,
)
from shunter.flow.runners.spark.stream.ledger import Commit, Counts, Ledger, written
from shunter.flow.runners.spark.stream.packed_reader import Offset
from shunter.flow.runners.spark.stream.plan import StreamPlan
from shunter.flow.runners.spark.stream.sinks import StreamSinkFeed
from shunter.flow.runners.spark.stream.spark_log import VOID, SparkLog
from shunter.flow.runners.spark.stream.states import LiveFiles, StateFile, StateFiles, Written
from shunter.flow.runners.spark.stream.task_files import StreamFilesFeed, is_written_by_tasks
from shunter.flow.runners.spark.stream.tasks import MicroBatch
from shunter.flow.runtime.bad_events import failing_run
from shunter.flow.runtime.report import SourceLag, StageReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

SPARK = "spark"
SPARKS_SCHEMES = {"s3": "s3a"}
"""What Spark calls a store that has another name with us."""

LOOK_SECONDS = 0.2
OWNER_SECONDS = 1.0
ASK_SECONDS = 10.0
"""How often it is looked whether another driver has taken over: on a disk, and at a store."""

LAG_SECONDS = 1.0
"""How often Spark is asked how far its own sources are behind."""

Progress = Callable[[Sequence[StageReport]], None]


def stream_on_spark(
    flow: FlowGraph,
    session: SparkSession | None = None,
    *,
    checkpoints: str | Path,
    master: str | None = None,
    nodes: int | None = None,
    every: float | None = None,
    max_events: int = MAX_EVENTS,
    progress: Progress = lambda _: None,
    on_kept: OnKept = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[StageReport]:
    """Run a flow as a stream until its sources end, and return what each stage has done.

    `checkpoints` is a folder that all executors see, or a URL; a later run with it goes on from
    there, also with another number of nodes or a flow that has changed, as far as states fit.
    `every` is how many seconds lie between two batches at least, and a batch has `max_events` of
    each worker of a source at most. `nodes` is as for a batch run. Raises Stopped where it should
    stop; the batch that was under way does not count then.
    """
    folder = Location.of(checkpoints)
    if max_events < 1:
        raise FlowError(f"max_events is {max_events}; let a batch have 1 event or more")
    flow.check()
    check_streamable(flow)
    if (kept := checkpoint_identity(folder)) is not None:
        compared(flow, kept, nodes or kept.nodes)[1].check(folder)
    session = session or spark_session(master)
    needs_classic(session, "a stream")
    if not is_local(session):
        send_package(session)
    nodes = nodes or nodes_of(session)
    if kept is None:
        keep_identity(identity_of(flow, nodes), folder)
    run = StreamRun(flow, session, nodes, folder, progress, should_stop, on_kept)
    return run.run(every=every, max_events=max_events)


class StreamRun:
    """One driver of a stream, from its last commit on."""

    def __init__(
        self,
        flow: FlowGraph,
        session: SparkSession,
        nodes: int,
        folder: Location,
        progress: Progress,
        should_stop: Callable[[], bool],
        on_kept: OnKept,
    ) -> None:
        self._on_kept = on_kept
        self._flow, self._session, self._folder = flow, session, folder
        self._nodes = nodes
        self._progress, self._should_stop = progress, should_stop
        self._name = f"shunter-{uuid.uuid4().hex}"
        self._states = StateFiles(str(folder))
        self._ledger = Ledger(folder, _token())
        self._is_stopping, self._is_over = threading.Event(), threading.Event()
        self._fault: BaseException | None = None
        self._last: Commit | None = None
        self._sinks: list[StreamSinkFeed | StreamFilesFeed] = []
        self._plan: StreamPlan
        self._log: SparkLog | None = None
        self._log_head: list[str] = []
        self._offsets: dict[str, str] = {}
        self._live = LiveFiles({})
        self._safe: list[StateFile] = []
        self._lags: dict[str, SourceLag] = {}
        self._telling = threading.Lock()

    def run(self, *, every: float | None, max_events: int) -> list[StageReport]:
        """Go on where the last driver has ended, until the sources end."""
        with ExitStack() as stack:
            here = self._folder.path if self._folder.is_local else Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-stream-"))
            )  # fmt: skip
            self._take_over(here)
            if self._last is None or not self._last.is_closed:
                try:
                    self._open()
                    if self._last is None or not self._last.is_end:
                        self._stream(every, max_events)
                    self._close()
                except BaseException:
                    for sink in self._sinks:
                        sink.abandon()
                    raise
        return self._reports()

    def _take_over(self, here: Path) -> None:
        """Become the owner, and have the last commit fit the flow; `here` is on this host."""
        kept = checkpoint_identity(self._folder)
        assert kept is not None, "written before"
        now, differences = compared(self._flow, kept, self._nodes)
        differences.check(self._folder)
        with pinned(self._flow, pins_of(self._flow, kept)):
            self._plan = StreamPlan(self._flow, self._session, self._nodes, here)
        self._states.make()
        self._ledger.take_over(now)
        if (last := self._ledger.last()) is not None:
            kept = self._ledger.identity() or kept
            differences = differing(kept, now)
            differences.check(self._folder)
            self._last = carried(last, kept, now)
            self._safe = [head for heads in last.states.values() for head in heads]
            if said := differences.notice():
                logger.warning("%s: the flow has changed: %s", self._folder, said)
        if self._plan.readers is not None:
            self._log = SparkLog(here / SPARK, self._plan.readers)
            self._restore_log(self._log)

    def _restore_log(self, log: SparkLog) -> None:
        if self._last is None:
            shutil.rmtree(log.folder, ignore_errors=True)
        else:
            noted = (self._last.batch, self._last.log_head, self._last.offsets)
            if not log.fits(*noted):
                log.restore(*noted)

    # ---- the query

    def _stream(self, every: float | None, max_events: int) -> None:
        with plain_faults():
            writer = (
                self._plan.stream(max_events, self._name)
                .writeStream.queryName(self._query_name())
                .option("checkpointLocation", self._log_location)
                .foreachBatch(self._guarded)
            )
            query = writer.trigger(processingTime=f"{every or 0} seconds").start()
        try:
            with _silent_callbacks():
                self._watch(query)
        except BaseException:
            self._plan.kill_readers()
            raise
        finally:
            self._is_stopping.set()
            with suppress(Exception), _silent_callbacks():  # what has failed is asked for below
                query.stop()
        if self._fault is not None:
            raise self._fault
        with plain_faults():
            if (error := query.exception()) is not None and not self._is_over.is_set():
                self._ledger.check_owner()
                raise error
        if not self._is_over.is_set():
            raise Stopped  # by somebody else, who has the session too

    @property
    def _log_location(self) -> str:
        """Where Spark keeps its log: at the checkpoint itself, if it reads sources of its own."""
        if self._log is not None:
            return str(self._log.folder)
        scheme, _, rest = str(self._folder / SPARK).rpartition("://")
        return f"{SPARKS_SCHEMES.get(scheme, scheme)}://{rest}" if scheme else rest

    def _query_name(self) -> str:
        """Return what people see: the flow's name, unless a stream of that name runs."""
        running = {query.name for query in self._session.streams.active}
        return self._name if self._flow.name in running else self._flow.name

    def _watch(self, query: StreamingQuery) -> None:
        """Wait until the query has ended; end it where it should stop, or is no longer ours."""
        looked = asked = time.monotonic()
        jobs = tagged_jobs(self._session, self._name)
        memory = MemoryWatch(jobs)
        while not self._is_over.wait(LOOK_SECONDS) and query.isActive:
            if self._should_stop():
                raise Stopped
            if self._plan.readers is None and time.monotonic() - asked > LAG_SECONDS:
                self._hear_lags(query)
                asked = time.monotonic()
            if (fault := memory.fault(time.monotonic())) is not None:
                self._is_stopping.set()
                jobs.cancel()
                raise fault
            if time.monotonic() - looked > (
                OWNER_SECONDS if self._folder.is_local else ASK_SECONDS
            ):
                self._ledger.check_owner()
                looked = time.monotonic()

    def _hear_lags(self, query: StreamingQuery) -> None:
        """Tell how far sources of Spark's own are behind, whenever that has changed.

        Spark says it when a batch is over, and now and then while there is nothing to read.
        """
        if (progress := query.lastProgress) is None:
            return
        before, self._lags = self._lags, self._plan.lags(progress.json)
        if self._lags != before:
            self._tell()

    def _tell(self) -> None:
        """Tell what stages have done; batches and the watch over them are two threads."""
        with self._telling:
            self._progress(self._reports())

    def _guarded(self, raw: DataFrame, number: int) -> None:
        """Do a batch; keep what goes wrong, for Spark would hand on only its text."""
        context = self._session.sparkContext
        context.addJobTag(self._name)
        named = named_jobs(self._session, job_name(self._flow, batch=number))
        try:
            if self._last is None or number > self._last.batch:
                with plain_faults(), named:
                    self._do(raw, self._batch(number))
        except BaseException as error:
            if not self._is_stopping.is_set():
                self._fault = error
            raise
        finally:
            context.removeJobTag(self._name)

    # ---- one batch

    def _batch(self, number: int) -> MicroBatch:
        expected = 0 if self._last is None else self._last.batch + 1
        if number != expected:
            raise FlowError(
                f"{self._folder}: Spark goes on with batch {number}, and the last commit wants "
                f"batch {expected}; some of the folder is gone: name a new one with --checkpoints"
            )
        head, offsets = ([], {}) if self._log is None else self._log.offsets(number)
        self._log_head, self._offsets = head, offsets
        read = [msgspec.json.decode(line, type=Offset) for line in offsets.values() if line != VOID]
        return MicroBatch(
            number=number,
            # Spark has noted where sources stand, so it is known whether all end with this batch.
            is_last=bool(offsets) and len(read) == len(offsets) and all(
                offset.has_ended for offset in read
            ),
            checkpoint=str(self._folder),
            states={} if self._last is None else self._last.states,
        )  # fmt: skip

    @failing_run()
    def _do(self, raw: DataFrame, batch: MicroBatch) -> None:
        began, read = time.monotonic(), self._read
        self._plan.files = {
            sink.name: sink.files() for sink in self._sinks if isinstance(sink, StreamFilesFeed)
        }
        rows = self._plan.rows_for_sinks(raw, batch)
        positions: dict[str, object] = {}
        tallies: Tallies = {}
        told: States = {}
        for sink in self._sinks:
            positions |= sink.take(rows.get(sink.name, {}), batch)
            tallies |= sink.tallies
            told |= sink.states
        written_states = {worker: Written.of(text) for worker, text in told.items()}
        heads = {
            worker: [StateFile(each.head, each.stages)] for worker, each in written_states.items()
        }
        commit = Commit(
            batch=batch.number,
            sinks=written(positions),
            states={} if batch.is_last else {**batch.states, **heads},
            counts=_added({} if self._last is None else self._last.counts, tallies),
            offsets=self._offsets,
            log_head=self._log_head,
            is_end=batch.is_last,
        )
        self._commit(commit, written_states.values())
        self._publish()
        took = time.monotonic() - began
        self._on_kept(BatchDone(batch.number, took, self._read - read))
        self._tell()
        if batch.is_last:
            self._is_over.set()

    def _commit(self, commit: Commit, states: Iterable[Written]) -> None:
        with self._ledger.owned():
            self._ledger.keep(commit)
        self._last = commit
        gone = self._live.names if commit.is_end else set()
        for each in states:
            gone |= set(self._live.note(each))
        self._states.drop(gone)

    def _publish(self) -> None:
        with self._ledger.owned():
            for sink in self._sinks:
                sink.publish()

    # ---- the sinks

    def _open(self) -> None:
        """Open sinks at the last commit; what came after it, and was never counted, is dropped."""
        heads = {} if self._last is None else self._last.states
        self._live = LiveFiles({each: self._states.names(of) for each, of in heads.items()})
        # Until the first commit of this driver another one may go on with the flow as it was.
        self._states.sweep(self._live.names | self._states.names(self._safe))
        for chain in self._plan.sinks:
            if is_written_by_tasks(chain.stages[0]):
                self._sinks.append(StreamFilesFeed(self._flow.types, chain, self._last))
            else:
                self._sinks.append(StreamSinkFeed(self._flow, chain, self._last, self._check))
        if self._last is not None:
            self._publish()

    def _close(self) -> None:
        assert self._last is not None
        with self._ledger.owned():
            for sink in self._sinks:
                sink.close()
            self._last = msgspec.structs.replace(self._last, is_closed=True)
            self._ledger.keep(self._last)

    def _check(self) -> None:
        if self._is_stopping.is_set():
            raise Stopped

    @property
    def _read(self) -> int:
        """How many events sources have given, in all batches that count."""
        counts = {} if self._last is None else self._last.counts
        return sum(
            counts[stage.name].given
            for stage in self._flow.stages
            if stage.kind is StageKind.SOURCE and stage.name in counts
        )

    def _reports(self) -> list[StageReport]:
        reports = reports_of(self._flow, {} if self._last is None else {"all": self._last.counts})
        return [replace(it, source_lag=self._lags.get(it.name)) for it in reports]


def _added(counts: Counts, tallies: Tallies) -> Counts:
    """Add what a batch has done to what was done before it."""
    total = dict(counts)
    for stages in tallies.values():
        for name, more in stages.items():
            total[name] = total.get(name, StageTally()).plus(more)
    return total


@contextmanager
def _silent_callbacks() -> Iterator[None]:
    """Keep Py4J from logging what goes wrong in a batch; it is raised anyway."""
    logger = logging.getLogger("py4j.clientserver")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _token() -> str:
    """Name this driver as nobody else is named."""
    return f"process {os.getpid()} on {socket.gethostname()}, {uuid.uuid4().hex[:8]}"
