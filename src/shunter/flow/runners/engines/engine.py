"""The engine: a process with a node number that runs its part of a flow.

Deployers talk to its management interface. One flow at a time is deployed; a deployer that
says nothing for a while is taken for dead, and its flow is removed.
"""

from __future__ import annotations

import math
import os
import queue
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import structlog
import zmq

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.loader import forget_modules, load
from shunter.flow.runners.engines import messages
from shunter.flow.runners.engines.deployment import Deployment
from shunter.flow.runners.engines.messages import EngineAnswer, EngineEvent
from shunter.flow.runners.engines.network import is_private, is_taken
from shunter.flow.runtime.bad_events import users_traceback
from shunter.flow.runtime.plan import planned
from shunter.model.key import CurvePair
from shunter.net.connections import HANDSHAKE_MILLISECONDS, MAX_CONNECTIONS, Connections
from shunter.net.curve import IsKnown, ThreadGate, listen_with
from shunter.net.unsent_bytes import UnsentBytes

ABANDONED_SECONDS = 15.0
"""How long a deployer may say nothing before its flow is removed."""

POLL_MILLISECONDS = 10

REVOKED = "the key of these engines was revoked; give them a new one"

REQUESTS_AHEAD = 4
"""How many requests of one connection ZeroMQ reads before they are answered."""

log = structlog.get_logger()


class EngineKeys(NamedTuple):
    """The key that engines and their deployer share, and whether one still counts."""

    pair: CurvePair
    is_known: IsKnown


class Engine:
    """Serves until it is told to shut down. `node` of `nodes` is what deployers are told.

    `load` finds the flow that a deployer names. Where nobody has said anything for
    `deserted_after` seconds, it ends by itself.
    """

    def __init__(
        self,
        node: int,
        nodes: int,
        listen: str,
        *,
        is_insecure: bool = False,
        keys: EngineKeys | None = None,
        load: Callable[[str], FlowGraph] = load,
        deserted_after: float = math.inf,
    ) -> None:
        if not is_insecure and keys is None and not is_private(listen):
            raise FlowError(
                f"an engine at {listen} would run flow files for whoever reaches it, other users "
                "of this host included; listen at ipc://PATH, give all engines and their deployer "
                "one key (auth.key_file), or say --insecure where only friends do"
            )
        if not 0 <= node < nodes:
            raise FlowError(
                f"an engine can't be node {node} of {nodes}; with {nodes} engines the numbers are "
                f"0 to {nodes - 1}"
            )
        if is_taken(listen):
            raise FlowError(
                f"another engine listens at {listen}; stop it, or name another place with --listen"
            )
        self.node, self.nodes = node, nodes
        self._load, self._deserted_after = load, deserted_after
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._keys = keys
        self._gate = None if keys is None else ThreadGate(self._context, keys.is_known)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 500)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, REQUESTS_AHEAD)
        self._socket.setsockopt(zmq.MAXMSGSIZE, messages.MAX_BYTES)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._socket.copy_threshold = 0  # else small answers would not be tracked
        self._unsent = UnsentBytes()
        self._connections = Connections(
            self._context, self._socket, most=MAX_CONNECTIONS, message_bytes=messages.MAX_BYTES
        )
        if keys is not None:
            listen_with(self._socket, keys.pair)
        try:
            self._socket.bind(listen)
        except zmq.ZMQError as error:
            self._connections.close()
            self._socket.close()
            raise FlowError(f"the engine can't listen at {listen}: {error}") from error
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._run_id = ""
        self._deployer = b""
        self._heard = self._looked = time.monotonic()
        self._deployment: Deployment | None = None
        self._news: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self._complained: set[str] = set()
        self._own_modules = frozenset(sys.modules)
        self._is_ending = False

    def serve(self) -> None:
        """Answer requests until one of them ends it."""
        try:
            while not self._is_ending:
                if self._socket.poll(POLL_MILLISECONDS):
                    self._receive()
                self._pass_on_news()
                self._watch_connections()
                if self._deployment and time.monotonic() - self._heard > ABANDONED_SECONDS:
                    log.warning("deployer is gone, its flow is removed", run=self._run_id)
                    self._remove()
                if self._deployment and self._is_revoked:
                    log.warning("the key of these engines was revoked, the flow is removed")
                    self._news.put((self._run_id, "failed", REVOKED))
                    self._pass_on_news()
                    self._remove()
                if time.monotonic() - self._heard > self._deserted_after:
                    log.warning("nobody is there, the engine ends")
                    self.stop()
        finally:
            self._remove()
            self._connections.close()
            self._socket.close()
            if self._gate is not None:
                self._gate.close()
            self._context.term()

    def stop(self) -> None:
        self._is_ending = True

    @property
    def _is_revoked(self) -> bool:
        return self._keys is not None and not self._keys.is_known(self._keys.pair.public)

    def _receive(self) -> None:
        """Answer a request: one frame, maybe behind an empty one."""
        first = self._socket.recv(copy=False)
        self._connections.heard(first.bytes, first)
        message, count = b"", 0
        while self._socket.getsockopt(zmq.RCVMORE):
            message, count = self._socket.recv(), count + 1
        if count <= 2:
            self._answer(first.bytes, message)
        else:
            self._connections.cut_off_sender(first)

    def _watch_connections(self) -> None:
        now = time.monotonic()
        if self._connections.is_look_due(since=now - self._looked):
            self._looked = now
            self._connections.look(messages_ahead=REQUESTS_AHEAD)

    def _answer(self, peer: bytes, message: bytes) -> None:
        number = 0
        try:
            request = messages.request(message)
            number = request.id  # whoever asks hears a refusal as the answer to this
            if self._is_revoked:
                raise FlowError(REVOKED)
            if isinstance(request, messages.Prepare):
                self._deployer = peer
            if peer == self._deployer:
                self._heard = time.monotonic()
            answer = EngineAnswer(number, _DOINGS[type(request)](self, request))
        except FlowError as error:
            self._complain(f"a request was refused: {error}")
            answer = EngineAnswer(number, error=str(error))
        except Exception as error:
            log.exception("request failed")
            reason = f"{type(error).__name__}: {error}\n{users_traceback(error)}"
            answer = EngineAnswer(number, error=reason)
        self._send_answer(peer, messages.encoded(answer))

    def _send_answer(self, peer: bytes, answer: bytes) -> None:
        """Send an answer, unless too many before it were not read."""
        if not self._unsent.has_room(peer, len(answer)):
            return
        self._socket.send(peer, zmq.SNDMORE)
        if size := self._unsent.due(peer, len(answer)):
            self._unsent.add(self._socket.send(answer, copy=False, track=True), peer, size)
        else:
            self._socket.send(answer)

    # ---- what it is asked to do

    def _hello(self, _: messages.EngineHello) -> Any:
        return {"node": self.node, "nodes": self.nodes, "pid": os.getpid(), "run": self._run_id}

    def _prepare(self, it: messages.Prepare) -> None:
        if (it.node, it.nodes) != (self.node, self.nodes):
            raise FlowError(
                f"this engine is node {self.node} of {self.nodes} and was taken for node {it.node} "
                f"of {it.nodes}; start the engines with the same --nodes"
            )
        self._remove()
        forget_modules(but=self._own_modules)
        flow = self._load(it.flow)
        if flow.fingerprint() != it.fingerprint:
            raise FlowError(
                f"node {self.node} has another version of flow {flow.name!r} at {it.flow}; bring "
                "the same file to all engines"
            )
        saved = None if it.saved is None else msgspec.msgpack.decode(it.saved)
        self._run_id = it.run
        self._deployment = Deployment(
            self._context,
            flow,
            planned(flow, it.nodes),
            self.node,
            network=it.network,
            saved=saved,
            limit=it.limit,
            output_run=it.output_run,
            token=it.token,
            curve=None if self._keys is None else self._keys.pair,
            tell=lambda what, data: self._news.put((it.run, what, data)),
            complain=self._complain,
        )
        log.info("flow prepared", flow=flow.name, run=it.run, from_checkpoint=saved is not None)

    def _deploy(self, it: messages.Deploy) -> Any:
        return self._deployed(it.run).deploy(it.workers, it.receivers)

    def _start(self, it: messages.Start) -> Any:
        deployment = self._deployed(it.run)
        deployment.start()
        return deployment.ways()

    def _checkpoint(self, it: messages.TakeCheckpoint) -> None:
        self._deployed(it.run).checkpoint(it.number)

    def _quiesce(self, it: messages.Quiesce) -> None:
        self._deployed(it.run).quiesce()

    def _publish(self, it: messages.Publish) -> None:
        self._deployed(it.run).publish()

    def _removed(self, it: messages.Remove) -> None:
        self._deployed(it.run)
        self._remove()

    def _status(self, it: messages.EngineStatus) -> Any:
        deployment = self._deployment
        return {
            "node": self.node,
            "run": self._run_id,
            "is_running": deployment is not None and deployment.is_running,
            "stages": [] if deployment is None else msgspec.to_builtins(deployment.standing()),
        }

    def _shut_down(self, _: messages.ShutDown) -> None:
        self._is_ending = True

    def _deployed(self, run: str) -> Deployment:
        if self._deployment is None or run != self._run_id:
            raise FlowError(
                f"run {run!r} is not on node {self.node}, which has "
                f"{self._run_id or 'nothing'}; deploy it first"
            )
        return self._deployment

    def _remove(self) -> None:
        deployment, self._deployment, self._run_id = self._deployment, None, ""
        if deployment is not None and not deployment.remove():
            log.error("a function of the flow does not return; the engine ends, to stop it")
            os._exit(1)

    # ---- what it tells

    def _pass_on_news(self) -> None:
        while not self._news.empty():
            run, what, data = self._news.get()
            if run == self._run_id:
                try:
                    message = messages.encoded(EngineEvent(run, what, msgspec.msgpack.encode(data)))
                except (TypeError, ValueError, FlowError) as error:
                    reason = f"a state can't be kept in a checkpoint: {error}"
                    failed = EngineEvent(run, "failed", msgspec.msgpack.encode(reason))
                    message = messages.encoded(failed)
                self._socket.send_multipart([self._deployer, message])

    def _complain(self, reason: str) -> None:
        if reason not in self._complained and len(self._complained) < 1000:
            self._complained.add(reason)
            log.warning(reason, node=self.node)


_DOINGS: dict[type, Callable[[Engine, Any], Any]] = {
    messages.EngineHello: Engine._hello,
    messages.Prepare: Engine._prepare,
    messages.Deploy: Engine._deploy,
    messages.Start: Engine._start,
    messages.TakeCheckpoint: Engine._checkpoint,
    messages.Quiesce: Engine._quiesce,
    messages.Publish: Engine._publish,
    messages.Remove: Engine._removed,
    messages.EngineStatus: Engine._status,
    messages.ShutDown: Engine._shut_down,
}
