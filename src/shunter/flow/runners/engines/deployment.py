"""One flow on one engine: its workers, their sockets, and the thread that steps them.

Workers are deployed stage by stage, downstream first, for each must know where its receivers are.
Then they are started. All of this happens in the engine's own thread but `run`; commands to a
running deployment are left in a queue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import zmq

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.assembly import Assembly, Snapshots, inbox_of
from shunter.flow.runners.engines.network import (
    InboxAddress,
    Way,
    own_addresses,
    preferred_address,
    sweep_inboxes,
    way_to,
)
from shunter.flow.runners.engines.sockets import Complain, Context, InboxSocket, PeerSocket
from shunter.flow.runtime.bad_events import users_traceback
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.inbox import LIMIT, Inbox
from shunter.flow.runtime.plan import EdgePlan, FlowPlan, WorkerPlan
from shunter.flow.runtime.report import LiveReport, StageReport
from shunter.flow.runtime.sender import StageOutbox
from shunter.model.key import CurvePair
from shunter.net.connections import GLANCE_SECONDS

IDLE_MILLISECONDS = 1
LONGEST_IDLE_MILLISECONDS = 20
STOP_SECONDS = 5.0

Tell = Callable[[str, Any], None]
"""Called with what has happened (kept, ended, done, failed, published), and what is to be said."""


class Deployment:
    """The part of a plan that lives on one node."""

    def __init__(
        self,
        context: Context,
        flow: FlowGraph,
        plan: FlowPlan,
        node: int,
        *,
        network: str,
        saved: Snapshots | None,
        tell: Tell,
        complain: Complain,
        token: bytes,
        curve: CurvePair | None = None,
        limit: int = LIMIT,
        output_run: str = "",
    ) -> None:
        self._curve = curve
        self._output_run, self._token = output_run, token
        self.flow, self.plan, self.node = flow, plan, node
        self._context, self._saved, self._limit = context, saved, limit
        self._tell, self._complain = tell, complain
        self._hosts = own_addresses()
        self._host = preferred_address(network, self._hosts)
        sweep_inboxes(self._host)
        self._codec = EventCodec(flow.types)
        self._inboxes: dict[str, Inbox] = {}
        self._ports: dict[int, Inbox] = {}
        self._listening: list[InboxSocket] = []
        self._peers: dict[InboxAddress, PeerSocket] = {}
        self._addresses: dict[str, InboxAddress] = {}
        self._workers: list[WorkerPlan] = []
        self._assembly: Assembly | None = None
        self._commands: deque[Callable[[], None]] = deque()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"flow-{flow.name}", daemon=True)

    # ---- deploying

    def deploy(
        self, worker_ids: Iterable[str], receivers: Mapping[str, InboxAddress]
    ) -> dict[str, InboxAddress]:
        """Set up the workers of a stage; return where their inboxes are."""
        self._addresses.update(receivers)
        found: dict[str, InboxAddress] = {}
        for worker_id in worker_ids:
            worker = self.plan.worker(worker_id)
            self._workers.append(worker)
            inbox = inbox_of(worker, self.plan, limit=self._limit)
            if inbox is not None:
                listening = InboxSocket(
                    self._context,
                    inbox,
                    self._codec,
                    self._host,
                    token=self._token,
                    curve=self._curve,
                    instructions=self.flow.instructions,
                    complain=self._complain,
                )
                self._listening.append(listening)
                self._inboxes[worker_id] = self._ports[listening.port] = inbox
                found[worker_id] = InboxAddress(self._host, listening.port, self.node)
        return found

    def start(self) -> None:
        self._assembly = Assembly(
            self.flow,
            self.plan,
            self._workers,
            self._outbox,
            inboxes=self._inboxes,
            saved=self._saved,
            on_checkpoint=self._keep,
            output_run=self._output_run,
        )
        self._thread.start()

    def ways(self) -> dict[str, str]:
        """For each inbox elsewhere or here, the way that is taken to it."""
        return {
            worker_id: str(self._way(address)) for worker_id, address in self._addresses.items()
        }

    def _outbox(self, edge: EdgePlan, receiver: str) -> StageOutbox:
        address = self._addresses[receiver]
        way = self._way(address)
        if way is Way.QUEUE:
            return self._ports[address.port]
        if address not in self._peers:
            self._peers[address] = PeerSocket(
                self._context, address, way, self._token, curve=self._curve
            )
        owner = edge.sender.rpartition("/")[0]
        mark = 0 if self._saved is None else self._saved[owner]["numbers"][edge.sender] - 1
        return self._peers[address].link(edge.sender, self._limit, self._codec, mark=mark)

    def _way(self, address: InboxAddress) -> Way:
        return way_to(address, here=self._ports, hosts=self._hosts)

    # ---- commands, from another thread

    def checkpoint(self, number: int) -> None:
        self._commands.append(lambda: self._ask_for_checkpoint(number))

    def quiesce(self) -> None:
        """Let sources give no more; what is under way goes on."""
        self._commands.append(self._be_quiet)

    def publish(self) -> None:
        """The flow has come to its end everywhere: let sinks publish."""
        self._commands.append(self._publish)

    def remove(self) -> bool:
        """Stop at once, and give up all sockets; tell whether the user's functions let it."""
        self._is_stopping = True
        if self._thread.ident is None:
            self._close_sockets()
            return True
        self._thread.join(STOP_SECONDS)
        return not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def standing(self) -> list[StageReport]:
        if self._assembly is None:
            return []
        return LiveReport(self.flow, self._assembly.workers).stages

    # ---- the thread

    def _run(self) -> None:
        assert self._assembly is not None
        try:
            self._step_until_stopped(self._assembly)
        except FlowError as error:
            self._tell("failed", str(error))
        except Exception as error:
            self._tell("failed", f"{type(error).__name__}: {error}\n{users_traceback(error)}")
            self._complain(f"the flow {self.flow.name!r} failed: {error!r}")
        finally:
            self._assembly.abandon()
            self._close_sockets()

    def _keep(self, worker: str, number: int, snapshot: Any) -> None:
        """Encode a snapshot at once: the states in it go on changing."""
        try:
            kept = msgspec.Raw(msgspec.msgpack.encode(snapshot))
        except (TypeError, ValueError, OverflowError) as error:
            raise FlowError(f"a state can't be kept in a checkpoint: {error}") from error
        self._tell("kept", (worker, number, kept))

    def _step_until_stopped(self, assembly: Assembly) -> None:
        poller = zmq.Poller()
        for socket in self._sockets():
            poller.register(socket, zmq.POLLIN)
        idle = IDLE_MILLISECONDS
        ended: set[str] = set()
        is_told = False
        ticked = glanced = time.monotonic()
        while not self._is_stopping:
            while self._commands:
                self._commands.popleft()()
            now = time.monotonic()
            moved = self._exchange(now)
            if now - glanced > GLANCE_SECONDS:
                glanced = now
                for listening in self._listening:
                    listening.look(now=now)
            if now - ticked > 0.2:
                ticked = now
                for peer in self._peers.values():
                    peer.tick(now=now)
            if not assembly.is_done:
                moved = assembly.step() or moved
            elif not is_told and all(peer.is_settled for peer in self._peers.values()):
                is_told = True
                self._tell("done", {w.id: w.snapshot() for w in assembly.workers})
            for worker in assembly.workers:
                if worker.is_done and worker.id not in ended:
                    ended.add(worker.id)
                    self._tell("ended", {worker.id: worker.snapshot()})
            for listening in self._listening:
                listening.grant()
            if moved:
                idle = IDLE_MILLISECONDS
            else:
                poller.poll(idle)
                has_source = any(worker.is_source for worker in self._workers)
                longest = 2 if has_source and not is_told else LONGEST_IDLE_MILLISECONDS
                idle = min(idle + 1, longest)

    def _exchange(self, now: float) -> bool:
        moved = False
        for listening in self._listening:
            moved = listening.receive() or moved
        for peer in self._peers.values():
            moved = peer.receive(now=now) or moved
        return moved

    def _ask_for_checkpoint(self, number: int) -> None:
        assert self._assembly is not None
        for worker in self._assembly.workers:
            worker.ask_for_checkpoint(number)

    def _be_quiet(self) -> None:
        assert self._assembly is not None
        for worker in self._assembly.workers:
            worker.be_quiet()

    def _publish(self) -> None:
        assert self._assembly is not None
        self._assembly.close()
        self._tell("published", None)

    def _close_sockets(self) -> None:
        for listening in self._listening:
            listening.close()
        for peer in self._peers.values():
            peer.close()

    def _sockets(self) -> list[zmq.Socket[bytes]]:
        return [
            *(listening.socket for listening in self._listening),
            *(peer.socket for peer in self._peers.values()),
        ]
