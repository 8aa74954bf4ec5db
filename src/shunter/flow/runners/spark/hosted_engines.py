"""Engines that live in Spark's executors: for flows with a latency of milliseconds on its cluster.

They are the tasks of one barrier stage, which Spark starts all together or not at all; a task's
number is its engine's node. One that dies takes the stage with it, and all are placed anew: Spark
itself does not try again, for only the deployer knows the checkpoint to go on from. Engines have
the flow from the driver, and run no other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import structlog
import zmq

from shunter.errors import FlowError
from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.loader import load_sent
from shunter.flow.runners.engines import messages
from shunter.flow.runners.engines.deployer import EngineConnection
from shunter.flow.runners.engines.engine import Engine
from shunter.flow.runners.engines.network import (
    is_loopback,
    own_addresses,
    preferred_address,
)
from shunter.flow.runners.port import LOOPBACK
from shunter.flow.runners.spark.session.faults import marked_faults, plain_faults
from shunter.flow.runners.spark.session.kinds import is_local
from shunter.flow.runners.spark.session.run_watch import RunWatch
from shunter.flow.runners.spark.session.slots import settled_slots, slots_of
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.shipping.shipped_code import (
    ShippedCode,
    pin_package,
    send_package,
    shipped,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_NOTICE_BYTES = 1024 * 1024
"""How large a notice of where engines are may be."""

START_SECONDS = 60.0
STOP_SECONDS, KILL_SECONDS = 3.0, 1.0
STARTS = 3

SLOTS_SECONDS, SLOTS_BACK_SECONDS = 4.0, 20.0
"""How long nothing more comes before the slots are taken for all: at first, and after a death."""

DESERTED_SECONDS = 60.0
"""How long an engine waits for a deployer that says nothing before it ends by itself."""

FAIL_FAST = {
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
}


class Placed(msgspec.Struct, frozen=True):
    """What the engines tell the driver: where they listen, and the hosts that they are on."""

    token: str
    endpoints: list[str]
    hosts: list[str]


@contextlib.contextmanager
def engines_on_spark(
    flow: FlowGraph, hosts: str, count: int, *, network: str = LOOPBACK
) -> Iterator[SparkEngines]:
    """Place so many engines on the Spark whose master is `hosts`, for one flow."""
    session = spark_session(hosts, options=FAIL_FAST)
    if not is_local(session):
        send_package(session)
    with SparkEngines(session, flow, count, network=network) as started:
        yield started


class SparkEngines:
    """So many engines on executors, brought back all together when one dies."""

    def __init__(
        self, session: SparkSession, flow: FlowGraph, count: int, *, network: str = LOOPBACK
    ) -> None:
        self._session, self._count = session, count
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._notices = self._context.socket(zmq.PULL)
        self._notices.setsockopt(zmq.MAXMSGSIZE, MAX_NOTICE_BYTES)
        conf = session.sparkContext.getConf()
        host = str(conf.get("spark.driver.host"))
        port = self._notices.bind_to_random_port(
            f"tcp://{conf.get('spark.driver.bindAddress', host)}"
        )
        sent = shipped((flow.origin, flow.code), _modules(flow), what=f"flow {flow.name!r}")
        self._task = EngineTask(sent, count, network, f"tcp://{host}:{port}", os.getcwd())
        self._stage: _Stage | None = None
        self._endpoints: list[str] = []

    def __enter__(self) -> Self:
        try:
            self._check_slots(SLOTS_SECONDS)
            self._place()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end(STOP_SECONDS)
        self._notices.close()
        self._context.term()

    def kill(self) -> None:
        """End the engines without waiting for what they do."""
        self._end(KILL_SECONDS)

    @property
    def endpoints(self) -> list[str]:
        return list(self._endpoints)

    def is_alive(self, node: int) -> bool:
        """True if an engine is there; where one is not, none is."""
        return self._stage is not None and self._stage.is_alive()

    def restart(self, node: int) -> None:
        """Place all engines anew, on what Spark has got by then."""
        for attempt in range(1, STARTS + 1):
            self._end(STOP_SECONDS)
            self._check_slots(SLOTS_BACK_SECONDS)
            try:
                self._place()
                return
            except FlowError:
                if attempt == STARTS:
                    raise

    def _check_slots(self, settled: float) -> None:
        """Raise where Spark can't run all engines at once, so that it need not wait for ever."""
        settled = 0.0 if is_local(self._session) else settled
        found = settled_slots(
            lambda: slots_of(self._session),
            wanted=self._count,
            settled=settled,
            within=START_SECONDS,
        )
        if found < self._count:
            master = self._session.sparkContext.master
            raise FlowError(
                f"{self._count} engines are wanted, and Spark at {master} has slots for {found} "
                f"tasks; say --engines {max(1, found)}, or let it have more cores"
            )

    def _place(self) -> None:
        token = secrets.token_hex(16)
        self._stage = _Stage(self._session, replace(self._task, token=token), self._count)
        self._stage.start()
        placed = self._awaited(self._stage, token)
        _check_network(placed)
        self._endpoints = placed.endpoints

    def _awaited(self, stage: _Stage, token: str) -> Placed:
        deadline = time.monotonic() + START_SECONDS
        while True:
            is_over = not stage.is_alive()
            while self._notices.poll(0 if is_over else 50):
                with contextlib.suppress(msgspec.DecodeError):
                    placed = msgspec.msgpack.decode(self._notices.recv(), type=Placed)
                    if secrets.compare_digest(placed.token, token):
                        return placed
            if is_over:
                raise stage.error or FlowError("the engines on Spark ended before they began")
            if time.monotonic() > deadline:
                raise FlowError(
                    f"{self._count} engines did not start on Spark within {START_SECONDS:g} s; see "
                    "whether other jobs take up its slots, and whether executors can reach "
                    f"{self._task.driver}"
                )

    def _end(self, patience: float) -> None:
        """Let engines go; what does not is cancelled, and Spark kills it."""
        stage, self._stage = self._stage, None
        if stage is None:
            return
        for node, address in enumerate(self._endpoints):
            engine = EngineConnection(self._context, address, node)
            engine.post(messages.ShutDown())
            engine.close()
        self._endpoints = []
        stage.end(patience)


class _Stage(threading.Thread):
    """One barrier stage, which lasts as long as its engines."""

    def __init__(self, session: SparkSession, task: EngineTask, count: int) -> None:
        super().__init__(name="engines on Spark", daemon=True)
        self._session, self._task, self._count = session, task, count
        self._watch = RunWatch(session, f"shunter-engines-{uuid.uuid4().hex}")
        self.error: FlowError | None = None

    def run(self) -> None:
        context = self._session.sparkContext
        try:
            with self._watch, plain_faults():
                rows = context.parallelize(range(self._count), self._count)
                rows.barrier().mapPartitions(self._task).collect()
        except FlowError as error:
            self.error = error

    def end(self, patience: float) -> None:
        """Wait for the end, then bring it about."""
        self.join(patience)
        if self.is_alive():
            self._watch.cancel()
            self.join(START_SECONDS)


@dataclass(frozen=True)
class EngineTask:
    """Called by Spark on an executor, where it is an engine until the end of the run.

    `driver` is told where all engines are, with the `token` that shows who tells it. Relative
    paths mean `folder`, on hosts that have it.
    """

    shipped: ShippedCode
    nodes: int
    network: str
    driver: str
    folder: str
    token: str = ""

    def __call__(self, _: Iterable[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        quiet = structlog.make_filtering_bound_logger(logging.WARNING)
        structlog.configure(wrapper_class=quiet)
        context: Any = BarrierTaskContext.get()
        with marked_faults("an engine on Spark"):
            host = preferred_address(self.network, own_addresses())
            engine = Engine(
                context.partitionId(),
                self.nodes,
                f"tcp://{host}:*",
                is_insecure=True,
                load=self._load,
                deserted_after=DESERTED_SECONDS,
            )
            endpoints = context.allGather(engine.endpoint)
            if engine.node == 0:
                hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
                self._tell(Placed(self.token, endpoints, hosts))
            pin_package()
            is_there = Path(self.folder).is_dir()
            with contextlib.chdir(self.folder) if is_there else contextlib.nullcontext():
                engine.serve()
        return iter(())

    def _load(self, _: str) -> FlowGraph:
        """Load the flow that was sent here, whatever a deployer names."""
        for module in self.shipped.modules:
            sys.modules.pop(module.name, None)
        origin, code = self.shipped.opened()
        flow = load_sent(*origin)
        flow.code = code
        return flow

    def _tell(self, placed: Placed) -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as teller:
            teller.setsockopt(zmq.LINGER, int(START_SECONDS * 1000))
            teller.connect(self.driver)
            teller.send(msgspec.msgpack.encode(placed))


def _modules(flow: FlowGraph) -> list[str]:
    module, _ = flow.origin
    if module == "__main__":
        raise FlowError(
            f"flow {flow.name!r} is in a script, and engines load it from a module; type: shunter "
            "flow run FILE --on engines --hosts MASTER"
        )
    return [module, *users_modules(flow)]


def _check_network(placed: Placed) -> None:
    """Raise where engines of several hosts listen where only their own host hears them."""
    others = set(placed.hosts) - {*own_addresses(), "localhost", socket.gethostname()}
    if others and any(map(is_loopback, placed.endpoints)):
        raise FlowError(
            f"engines are on {', '.join(sorted(others))} and listen on loopback, where nobody else "
            "reaches them; name the network of these hosts, as --network 10.1.0.0/16"
        )
