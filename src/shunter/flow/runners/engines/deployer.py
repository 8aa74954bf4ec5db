"""Runs a flow on engines: deploys it, keeps checkpoints, and begins again when an engine is lost.

It talks to the management interface of each engine. Stages are deployed downstream first, and
the addresses of their inboxes are handed to the stages before them.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec
import zmq

from shunter.errors import FlowError, FlowFailed
from shunter.flow.graph.checks import check_no_frames
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.loader import absolute
from shunter.flow.runners.engines import messages
from shunter.flow.runners.engines.messages import EngineAnswer, EngineEvent
from shunter.flow.runners.engines.network import InboxAddress
from shunter.flow.runners.port import LOOPBACK, CheckpointKept, OnKept, Stopped
from shunter.flow.runners.shared_outputs import SharedOutputs
from shunter.flow.runtime.bad_events import failing_run
from shunter.flow.runtime.checkpoint import Checkpoint, CheckpointStore, check_fits
from shunter.flow.runtime.inbox import LIMIT
from shunter.flow.runtime.plan import planned
from shunter.flow.runtime.report import StageReport
from shunter.model.key import CurvePair
from shunter.net.curve import connect_with

ANSWER_SECONDS = 10.0
SILENT_SECONDS = 5.0
"""How long an engine may say nothing before it is taken for lost."""

STATUS_SECONDS = 0.5
POLL_MILLISECONDS = 50
MOST_RESTARTS = 100

StageProgressed = Callable[[list[StageReport]], None]


class Keeper(Protocol):
    """Whoever has started the engines."""

    def is_alive(self, node: int) -> bool:
        """True if the process of an engine is there."""

    def restart(self, node: int) -> None:
        """Bring an engine back; others may be brought elsewhere with it."""

    @property
    def endpoints(self) -> list[str]:
        """Where engines listen now, by node."""


class EngineLost(Exception):
    """An engine does not answer any more."""

    def __init__(self, node: int, address: str) -> None:
        super().__init__(f"the engine of node {node} at {address} does not answer")
        self.node, self.address = node, address


class EngineConnection:
    """One engine, as its deployer sees it."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        node: int,
        is_alive: Callable[[], bool] = lambda: True,
        curve: CurvePair | None = None,
    ) -> None:
        self.address, self.node, self._is_alive = address, node, is_alive
        self.heard = time.monotonic()
        self.happened: list[EngineEvent] = []
        self.answers: dict[int, EngineAnswer] = {}
        self._numbers = 0
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 200)
        self.socket.setsockopt(zmq.ROUTING_ID, b"d" + secrets.token_bytes(8))
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.MAXMSGSIZE, messages.MAX_BYTES)
        if curve is not None:
            connect_with(self.socket, curve)
        self.socket.connect(address)

    def post(self, request: messages.AnyRequest) -> int:
        """Send a request; return the number of its answer."""
        self._numbers += 1
        numbered = msgspec.structs.replace(request, id=self._numbers)
        self.socket.send(messages.encoded(numbered))
        return self._numbers

    def ask(self, request: messages.AnyRequest, *, within: float = ANSWER_SECONDS) -> Any:
        """Send a request and wait for its answer; raises what the engine objected to."""
        number = self.post(request)
        deadline = time.monotonic() + within
        while number not in self.answers:
            if time.monotonic() > deadline:
                raise EngineLost(self.node, self.address)
            self.check()
            if self.socket.poll(POLL_MILLISECONDS):
                self.receive()
        answer = self.answers.pop(number)
        if answer.error is not None:
            raise FlowError(f"node {self.node} at {self.address}: {answer.error}")
        return answer.data

    def receive(self) -> None:
        """Sort what has come into answers and news."""
        while self.socket.poll(0):
            message = messages.reply(self.socket.recv())
            self.heard = time.monotonic()
            if isinstance(message, EngineAnswer):
                self.answers[message.id] = message
            else:
                self.happened.append(message)

    def check(self) -> None:
        """Raise where the engine's process is known to have ended."""
        if not self._is_alive():
            raise EngineLost(self.node, self.address)

    def close(self) -> None:
        self.socket.close()


def check_nodes(found: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the engines' addresses in the order of their node numbers.

    `found` has for each address its node number and of how many. Raises a FlowError that names
    missing and doubled numbers: events of their keys would be missed.
    """
    count = len(found)
    numbers = Counter(node for node, _ in found.values())
    missing = [node for node in range(count) if node not in numbers]
    doubled = [node for node, times in numbers.items() if times > 1]
    others = sorted({nodes for _, nodes in found.values()} - {count})
    faults = [
        *([f"nobody is node {', '.join(map(str, missing))}"] if missing else []),
        *([f"several are node {', '.join(map(str, doubled))}"] if doubled else []),
        *([f"some are of {', '.join(map(str, others))} nodes"] if others else []),
    ]
    if faults:
        raise FlowError(
            f"{count} engines must be nodes 0 to {count - 1} of {count}, each once, but "
            f"{' and '.join(faults)}; start them with --node I --nodes {count}"
        )
    return sorted(found, key=lambda address: found[address][0])


class FlowRun:
    """One run of a flow on engines.

    `spec` is how engines load the flow. `keeper` knows when an engine has ended and brings it
    back; without one it is waited for. `progress` is called now and then.
    """

    def __init__(
        self,
        flow: FlowGraph,
        spec: str,
        engines: Sequence[str],
        *,
        network: str = LOOPBACK,
        checkpoints: CheckpointStore | None = None,
        every: float = 5.0,
        limit: int = LIMIT,
        keeper: Keeper | None = None,
        progress: StageProgressed = lambda _: None,
        on_kept: OnKept = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        lost_seconds: float = 60.0,
        curve: CurvePair | None = None,
    ) -> None:
        self._curve = curve
        check_no_frames(flow)
        spec = absolute(spec)
        self._flow, self._spec, self._network, self._limit = flow, spec, network, limit
        self._checkpoints, self._every = checkpoints, every
        self._keeper, self._progress, self._should_stop = keeper, progress, should_stop
        self._lost_seconds, self._on_kept = lost_seconds, on_kept
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._addresses = list(engines)
        self._engines: list[EngineConnection] = []
        self._name = secrets.token_hex(4)
        self._token = secrets.token_bytes(16)
        self._run = ""
        self.fingerprint = flow.fingerprint()
        self.plan = planned(flow, len(self._addresses))
        self.restarts = 0
        self.ways: dict[str, dict[str, str]] = {}
        self.stages: list[StageReport] = []

    def run(self) -> list[StageReport]:
        """Run to the end; return what each stage has done since it was last begun."""
        loss: EngineLost | None = None
        try:
            self._meet()
            while True:
                try:
                    if loss is not None:
                        self._recover(loss)
                    self._run_once()
                    return self.stages
                except EngineLost as lost:
                    loss = lost
                    self.restarts += 1
                    if self.restarts > MOST_RESTARTS:
                        raise FlowFailed(f"{lost}, for the {self.restarts}th time") from lost
        except BaseException:
            self._give_up()
            raise
        finally:
            for engine in self._engines:
                engine.close()
            self._context.term()

    # ---- engines

    def _meet(self) -> None:
        """Find out who is who, and refuse a set of nodes that is not whole."""
        found = {}
        for at, address in enumerate(self._addresses):
            engine = EngineConnection(self._context, address, at, curve=self._curve)
            try:
                said = engine.ask(messages.EngineHello(), within=3.0)
            except EngineLost:
                raise FlowError(
                    f"no engine answers at {address}; start one with 'shunter engine --node "
                    f"{at} --nodes {len(self._addresses)} --listen {address}'"
                ) from None
            finally:
                engine.close()
            found[address] = (said["node"], said["nodes"])
        self._addresses = check_nodes(found)
        self._connect()

    def _connect(self) -> None:
        for engine in self._engines:
            engine.close()
        self._engines = [
            EngineConnection(
                self._context, address, node, partial(self._is_alive, node), self._curve
            )
            for node, address in enumerate(self._addresses)
        ]

    def _recover(self, lost: EngineLost) -> None:
        """Have the engine back, or wait until it is."""
        self.stages = []
        if self._keeper is not None:
            for node in range(len(self._addresses)):
                if node == lost.node or not self._keeper.is_alive(node):
                    self._keeper.restart(node)
            self._addresses = self._keeper.endpoints
        self._connect()
        deadline = time.monotonic() + self._lost_seconds
        for engine in self._engines:
            while True:
                try:
                    engine.ask(messages.EngineHello(), within=1.0)
                    break
                except EngineLost:
                    if not self._is_alive(engine.node):
                        raise
                    if time.monotonic() > deadline:
                        raise FlowError(
                            f"{lost}, and did not come back within {self._lost_seconds:g} s; start "
                            "it again and run the flow again: it goes on from its checkpoint"
                        ) from lost
                    if self._should_stop():
                        raise Stopped from lost

    def _is_alive(self, node: int) -> bool:
        return self._keeper is None or self._keeper.is_alive(node)

    def _give_up(self) -> None:
        for engine in self._engines:
            engine.post(messages.Remove(run=self._run))

    # ---- one try

    def _run_once(self) -> None:
        kept = self._latest()
        self._run = f"{self._name}-{self.restarts}"
        with SharedOutputs(self.plan, None if kept is None else kept.snapshots) as outputs:
            self._prepare(kept, outputs.run)
            self._deploy()
            for engine in self._engines:
                self.ways[str(engine.node)] = engine.ask(messages.Start(run=self._run))
            ended = self._watch(0 if kept is None else kept.number)
            self._publish(ended, outputs)

    def _latest(self) -> Checkpoint | None:
        kept = None if self._checkpoints is None else self._checkpoints.latest()
        if kept is not None:
            check_fits(kept, self.fingerprint, len(self._addresses))
        return kept

    def _prepare(self, kept: Checkpoint | None, output_run: str) -> None:
        for engine in self._engines:
            saved = None
            if kept is not None:
                here = {worker.id for worker in self.plan.on_node(engine.node)}
                own = {name: kept.snapshots[name] for name in here}
                saved = msgspec.msgpack.encode(own)
            engine.ask(
                messages.Prepare(
                    run=self._run,
                    token=self._token,
                    flow=self._spec,
                    fingerprint=self.fingerprint,
                    node=engine.node,
                    nodes=len(self._engines),
                    network=self._network,
                    limit=self._limit,
                    output_run=output_run,
                    saved=saved,
                ),
                within=60.0,
            )

    def _deploy(self) -> None:
        """Deploy stage by stage, each with the addresses of those behind it."""
        addresses: dict[str, InboxAddress] = {}
        stages: defaultdict[str, list[Any]] = defaultdict(list)
        for worker in self.plan.workers:
            stages[worker.stages[0].name].append(worker)
        for workers in stages.values():
            for engine in self._engines:
                here = [worker for worker in workers if worker.node == engine.node]
                behind = {name for w in here for edge in w.outputs for name in edge.receivers}
                if here:
                    found = engine.ask(
                        messages.Deploy(
                            run=self._run,
                            workers=[worker.id for worker in here],
                            receivers={name: addresses[name] for name in behind},
                        )
                    )
                    addresses |= msgspec.convert(found, dict[str, InboxAddress])

    def _watch(self, last: int) -> dict[str, Any]:
        """See it through to the end; return the last state of every worker."""
        ended: dict[str, Any] = {}
        keeping: dict[str, Any] = {}
        number, is_keeping = last, False
        kept_at = keeping_since = time.monotonic()
        asked_at = 0.0
        poller = zmq.Poller()
        for engine in self._engines:
            poller.register(engine.socket, zmq.POLLIN)
        done: set[int] = set()
        while len(done) < len(self._engines):
            poller.poll(POLL_MILLISECONDS)
            now = time.monotonic()
            for engine in self._engines:
                engine.receive()
                for what, data in self._news(engine):
                    if what == "done":
                        done.add(engine.node)
                    if what in ("ended", "done"):
                        ended |= data
                    elif what == "kept" and data[1] == number and is_keeping:
                        keeping[data[0]] = data[2]
            if is_keeping and self._is_complete(keeping, ended):
                self._keep(number, {**ended, **keeping})
                is_keeping, kept_at = False, now
                self._on_kept(CheckpointKept(number, time.monotonic() - keeping_since))
            if not is_keeping and self._is_due(now - kept_at):
                number, keeping, is_keeping, keeping_since = number + 1, {}, True, now
                for engine in self._engines:
                    engine.post(messages.TakeCheckpoint(run=self._run, number=number))
            if now - asked_at >= STATUS_SECONDS:
                asked_at = now
                self._look(now)
            if self._should_stop():
                raise Stopped
        if self._checkpoints is not None:
            self._keep(number + 1, ended, is_end=True)
        return ended

    def _is_due(self, since: float) -> bool:
        return self._checkpoints is not None and since >= self._every

    def _is_complete(self, keeping: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
        return all(worker.id in keeping or worker.id in ended for worker in self.plan.workers)

    @failing_run()
    def _keep(self, number: int, snapshots: dict[str, Any], *, is_end: bool = False) -> None:
        assert self._checkpoints is not None
        nodes = len(self._engines)
        self._checkpoints.keep(Checkpoint(number, self.fingerprint, nodes, snapshots, is_end))

    @failing_run()
    def _publish(self, ended: Mapping[str, Any], outputs: SharedOutputs) -> None:
        """Let all sinks show what they have got, and show what several workers have written."""
        self._look(time.monotonic(), wait=True)
        for engine in self._engines:
            engine.ask(messages.Publish(run=self._run))
        for engine in self._engines:
            deadline = time.monotonic() + ANSWER_SECONDS
            while not any(what == "published" for what, _ in self._news(engine)):
                if time.monotonic() > deadline:
                    raise EngineLost(engine.node, engine.address)
                engine.check()
                engine.socket.poll(POLL_MILLISECONDS)
                engine.receive()
        outputs.publish({worker: snapshot["sink"] for worker, snapshot in ended.items()})
        for engine in self._engines:
            engine.ask(messages.Remove(run=self._run))
        if self._checkpoints is not None:
            self._checkpoints.clear()

    def _news(self, engine: EngineConnection) -> list[tuple[str, Any]]:
        """Take what an engine has told about this try; raises where it failed."""
        happened, engine.happened = engine.happened, []
        news = [
            (each.what, msgspec.msgpack.decode(each.data) if each.data else None)
            for each in happened
            if each.run == self._run
        ]
        for what, data in news:
            if what == "failed":
                raise FlowFailed(f"node {engine.node}: {data}")
        return news

    def _look(self, now: float, *, wait: bool = False) -> None:
        """Ask how far all are, and whether they are there at all."""
        found: list[list[StageReport]] = []
        for engine in self._engines:
            if wait:
                said = engine.ask(messages.EngineStatus(run=self._run))
                found.append(msgspec.convert(said["stages"], list[StageReport]))
                continue
            engine.check()
            if now - engine.heard > SILENT_SECONDS:
                raise EngineLost(engine.node, engine.address)
            found.extend(self._reports(engine))
            engine.post(messages.EngineStatus(run=self._run))
        if len(found) == len(self._engines):
            self.stages = added_up(found)
            self._progress(self.stages)

    def _reports(self, engine: EngineConnection) -> Iterator[list[StageReport]]:
        """Read the answers to what was asked last; raises where the engine is another's now."""
        answers = [each.data for each in engine.answers.values() if isinstance(each.data, dict)]
        engine.answers.clear()
        for said in answers:
            if said["run"] not in ("", self._run):
                raise FlowError(
                    f"another run has taken over node {engine.node} at {engine.address}; let one "
                    "end before the other, or give each its own engines"
                )
            if said["stages"]:
                yield msgspec.convert(said["stages"], list[StageReport])


def added_up(reports: Sequence[Sequence[StageReport]]) -> list[StageReport]:
    """The reports of all nodes as one."""
    return [
        StageReport(
            of_stage[0].name,
            of_stage[0].kind,
            taken=sum(each.taken for each in of_stage),
            given=sum(each.given for each in of_stage),
            failed=sum(each.failed for each in of_stage),
            last_error=next((each.last_error for each in of_stage if each.last_error), ""),
            waiting=sum(each.waiting for each in of_stage),
            capacity=sum(each.capacity for each in of_stage),
        )
        for of_stage in zip(*reports, strict=True)
    ]
