"""The workers' side of the ZeroMQ gateway: both levels of the dialogue on one ROUTER.

Receives, feeds the cores (`PlainWorkers`, the dispatcher), performs what they return.
Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog

from shunter.dispatch.arrivals import HeartbeatReceived, UnattributedResult, WorkerRegistered
from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import Forbidden, ProtocolError
from shunter.gateway.key_list import KeyList
from shunter.gateway.zmq.confirmations import Confirmations
from shunter.gateway.zmq.journal_gateway import JournalGateway
from shunter.gateway.zmq.large_messages import LargeMessages
from shunter.model.job import DEFAULT_TYPE, ErrorKind, Failure, Job
from shunter.model.key import Action
from shunter.model.report import Held, Report
from shunter.model.run_secrets import Of, RunSecrets
from shunter.model.worker import MAX_WORKERS, PLAIN_PREFIX, Handler, Worker, WorkerKind
from shunter.net.environment import REAL, Environment
from shunter.net.parted import PART_KINDS, Body
from shunter.net.transport import LoopSocket
from shunter.refusal_log import RefusalLog, peer_name
from shunter.wire import frames
from shunter.wire.batches import batches
from shunter.wire.frames import Full, Plain, bytes_of, document_of, full
from shunter.wire.introduction import fault_in
from shunter.wire.messages import (
    Advances,
    Assignment,
    Assignments,
    Beat,
    Farewell,
    Hello,
    Keeps,
    Kind,
    Message,
    Pong,
    Recall,
    Refusal,
    RefusalCode,
    Reports,
    Returned,
    Taken,
    decode,
    request_of,
)
from shunter.wire.pingpong import (
    JobForgotten,
    JoinedQueue,
    LeftQueue,
    PlainWorkers,
    ResultArrived,
    SendPong,
    UnexpectedResultArrived,
)

PLAIN_HANDLERS = (Handler(DEFAULT_TYPE),)

OF_CLIENTS = frozenset(
    {
        Kind.SUBMIT,
        Kind.CANCEL,
        Kind.FETCH,
        Kind.LIST,
        Kind.RUNS,
        Kind.WORKERS,
        Kind.STATUS,
        Kind.PAUSE,
        Kind.PAUSES,
    }
)

FORGOTTEN_AFTER_SECONDS = 60.0
"""A worker that was silent for so long has to say READY again."""


class Backend:
    """All workers that are connected by ZeroMQ. It is the WorkerLink of each of them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        refusals: RefusalLog,
        *,
        worker_expire_seconds: float,
        max_result_bytes: int,
        store: str,
        keys: KeyList,
        run_secrets: RunSecrets,
        environment: Environment = REAL,
    ) -> None:
        self._store = store
        self._keys = keys
        self._run_secrets = run_secrets
        self._max_result_bytes = max_result_bytes
        self._dispatcher = dispatcher
        self._refusals = refusals
        self._plain = PlainWorkers(expire_after=worker_expire_seconds)
        self._identities: dict[str, bytes] = {}
        self._workers: dict[bytes, str] = {}
        self._heard_at: dict[str, float] = {}  # workers of the full level
        self._joined: set[str] = set()  # plain workers that the dispatcher knows
        self._log = structlog.get_logger("shunter.gateway")
        self._large = LargeMessages(
            dispatcher,
            lambda identity, message: self.socket.send([identity, *message]),
            self._workers.get,
            self._take_reports,
            max_bytes=2 * max_result_bytes + 1024 * 1024,
            environment=environment,
        )
        self._confirmations = Confirmations(self._confirm)
        self.journals = JournalGateway(dispatcher, run_secrets, self._tell)
        self._answers: dict[Kind, Callable[[str, Body], None]] = {
            Kind.PING: self._beat,
            Kind.RESULTS: self._reports,
            Kind.RETURN: self._returned,
            Kind.PROGRESS: self._advances,
            Kind.RESIGN: self._resign,
            Kind.KEEP: lambda worker, body: self.journals.keep(worker, decode(body, Keeps)),
            Kind.RECALL: lambda worker, body: self.journals.recall(worker, decode(body, Recall)),
        }
        self.socket: LoopSocket

    # ---- receiving

    def receive(self, batch: list[list[bytes]]) -> None:
        for identity, *message in batch:
            try:
                self._check_key(identity)
                match frames.read(message):
                    case Plain(body):
                        self._receive_plain(identity, body)
                    case Full(kind, body):
                        self._receive_full(identity, kind, body)
            except ProtocolError as error:
                self._refusals.note(peer_name(identity), "frames", str(error))
                if identity in self._workers:
                    self.socket.send([identity, *full(Kind.ERROR, Refusal(0, str(error)))])
            except Forbidden as error:
                self._refusals.note(peer_name(identity), "key", str(error))
                refusal = Refusal(0, str(error), RefusalCode.FORBIDDEN)
                self.socket.send([identity, *full(Kind.ERROR, refusal)])

    def _check_key(self, identity: bytes) -> None:
        """Raise Forbidden if the worker's key permits nothing here."""
        if (reason := self._keys.refusal(identity, Action.WORK)) is not None:
            raise Forbidden(reason)

    def _check_types(self, identity: bytes, types: Iterable[str]) -> None:
        """Raise Forbidden if a worker's key may not serve these types."""
        key = self._keys.of(identity)
        for job_type in types:
            if key is not None and not key.serves(job_type):
                allowed = ", ".join(key.types)
                raise Forbidden(
                    f"key {key.name!r} may not serve {job_type!r}, only {allowed}; start the "
                    "worker with those types, or make a key for this one"
                )

    def _check_owner(self, identity: bytes, worker_id: str) -> None:
        """Raise Forbidden if a worker has an id that may be another key's."""
        key = self._keys.of(identity)
        if key is not None and not key.owns_worker(worker_id):
            raise Forbidden(
                f"worker_id: found {worker_id[:64]!r}; with key {key.name!r} it begins with "
                f"'{key.name}:'"
            )

    def tick(self) -> None:
        """Let time pass for plain workers."""
        now = self._dispatcher.now()
        self._perform(self._plain.tick(now=now))
        self._large.tick()

    def forget_gone(self) -> None:
        """Drop the addresses of workers that have been silent for long."""
        since = self._dispatcher.now() - FORGOTTEN_AFTER_SECONDS
        for worker_id in [w for w, heard_at in self._heard_at.items() if heard_at < since]:
            del self._heard_at[worker_id]
            identity = self._identities.pop(worker_id)
            self._workers.pop(identity, None)
            self._large.left(worker_id, identity)

    def plain_worker_ids(self) -> Iterator[str]:
        return (_plain_id(identity) for identity in self._plain.present())

    def _receive_plain(self, identity: bytes, body: bytes) -> None:
        if self._keys.is_on:
            self._check_types(identity, [DEFAULT_TYPE])
            if identity[:1] != b"\0":  # a name of its own could be another's
                raise Forbidden("with keys, plain workers leave their identity to ZeroMQ; set none")
        if identity in self._workers and body not in (frames.READY, frames.PING):
            raise ProtocolError("a plain result from a worker of the full level; send RESULTS")
        now = self._dispatcher.now()
        self._perform(self._plain.received(identity, body, now=now))

    def _receive_full(self, identity: bytes, kind: Kind, body: Body) -> None:
        if kind is Kind.READY:
            self._introduce(identity, decode(body, Hello))
            return
        worker_id = self._workers.get(identity)
        if worker_id is None and kind in OF_CLIENTS:
            reason = (
                f"{kind} is for clients to send, and workers connect here (zmq.backend); connect "
                "to the dispatcher's zmq.frontend, port 5560 unless it is set"
            )
            self._refusals.note(peer_name(identity), "port", reason)
            refusal = Refusal(request_of(bytes(body)), reason)
            self.socket.send([identity, *full(Kind.ERROR, refusal)])
            return
        if worker_id is None:
            reason = "this dispatcher does not know you; say READY"
            unknown = Refusal(0, reason, RefusalCode.UNKNOWN_WORKER)
            self.socket.send([identity, *full(Kind.ERROR, unknown)])
            return
        self._heard_at[worker_id] = self._dispatcher.now()
        if kind in PART_KINDS:
            self._large.take(identity, kind, body)
            return
        answer = self._answers.get(kind)
        if answer is None:
            raise ProtocolError(f"{kind} is not for a worker to send")
        answer(worker_id, body)

    def _introduce(self, identity: bytes, hello: Hello) -> None:
        if reason := fault_in(hello) or self._lack_of_room(identity, hello.worker_id):
            self._refusals.note(peer_name(identity), "hello", reason)
            self.socket.send([identity, *full(Kind.ERROR, Refusal(0, reason))])
            return
        self._check_types(identity, (it.type for it in hello.handlers))
        self._check_owner(identity, hello.worker_id)
        now = self._dispatcher.now()
        previous = self._identities.get(hello.worker_id)
        if previous is not None:
            self._workers.pop(previous, None)
            if previous != identity:
                self._large.left(hello.worker_id, previous)
        self._large.joined(identity, takes_parts=hello.parts)
        self._identities[hello.worker_id] = identity
        self._workers[identity] = hello.worker_id
        self._heard_at[hello.worker_id] = now
        worker = Worker(
            id=hello.worker_id,
            kind=WorkerKind.FULL,
            hostname=hello.hostname,
            port=0,
            handlers=hello.handlers,
            max_jobs=hello.max_jobs,
            incarnation=hello.incarnation,
            version=hello.app_version,
            registered=now,
            last_pinged=now,
            started=hello.started if math.isfinite(hello.started) else 0.0,
        )
        if previous is None:
            self._tell_contradictions(hello)
        window = hello.max_jobs if hello.window is None else max(0, hello.window)
        self._dispatcher.introduce(
            WorkerRegistered(worker, self, frozenset(hello.held), window, hello.beat)
        )

    def _tell_contradictions(self, hello: Hello) -> None:
        """Tell workers, and the log, that they declare one type with different options."""
        view = self._dispatcher.view
        for other_id, text in view.contradictions(hello.worker_id, hello.handlers):
            self._log.warning(text, action="options")
            for worker_id in (hello.worker_id, other_id):
                if identity := self._identities.get(worker_id):
                    self.socket.send([identity, *full(Kind.ERROR, Refusal(0, text))])

    def _lack_of_room(self, identity: bytes, worker_id: str) -> str:
        """Say why there is no room for a worker of this name; nothing if there is."""
        known_as = self._workers.get(identity, worker_id)
        if known_as != worker_id:
            return (
                f"worker_id: found {worker_id}, but this connection is that of {known_as}; open "
                "a connection for each worker"
            )
        here = max(self._dispatcher.view.connected, len(self._identities))
        if worker_id not in self._identities and here >= MAX_WORKERS:
            return f"{here:,} workers are here, as many as may be; say READY to another dispatcher"
        return ""

    def _beat(self, worker_id: str, body: Body) -> None:
        beat = decode(body, Beat)
        on_their_way = self._large.on_their_way(worker_id, self._identities[worker_id], beat.held)
        held = frozenset(beat.held).union(on_their_way)
        self._dispatcher.beat(HeartbeatReceived(worker_id, held, max(0, beat.window), beat.beat))

    def _reports(self, worker_id: str, body: Body) -> None:
        reports = decode(body, Reports)
        self._take_reports(worker_id, reports)
        self._dispatcher.resize(worker_id, max(0, reports.window))

    def _take_reports(self, worker_id: str, reports: Reports) -> None:
        """Pass on what is proven. All is confirmed: what was refused need not come again.

        Where there is nothing to commit, that is done at once, while it is known who said it: in
        the name of a worker that comes back meanwhile, its own batch would be taken for confirmed.
        """
        believed = self._believed(worker_id, reports.reports, reports.secrets)
        self._large.reported(worker_id, believed)
        if believed:
            self._dispatcher.report(worker_id, believed, batch=reports.batch)
        else:
            self.send_taken(worker_id, [reports.batch])

    def _returned(self, worker_id: str, body: Body) -> None:
        returned = decode(body, Returned)
        believed = self._believed(worker_id, returned.jobs, returned.secrets)
        self._dispatcher.give_back(
            worker_id, believed, returned.reason, may_have_begun=returned.begun
        )
        self._dispatcher.resize(worker_id, max(0, returned.window))

    def _advances(self, worker_id: str, body: Body) -> None:
        advances = decode(body, Advances)
        believed = self._believed(worker_id, advances.advances, advances.secrets)
        self._dispatcher.advance(worker_id, believed)

    def _believed(
        self, worker_id: str, said: Sequence[Of], secrets: Sequence[bytes]
    ) -> Sequence[Of]:
        """Return what a worker says of runs that it was given itself."""
        believed, refused = self._run_secrets.sifted(said, secrets)
        for error in refused:
            self._dispatcher.refuse(worker_id, error)
        return believed

    def _resign(self, worker_id: str, body: Body) -> None:
        decode(body, Farewell)
        self._dispatcher.resign(worker_id)

    # ---- performing what the plain core returns

    def _perform(self, effects: Sequence[object]) -> None:
        dispatcher = self._dispatcher
        for effect in effects:
            match effect:
                case SendPong(identity):
                    self.socket.send([identity, frames.DELIMITER, frames.PONG])
                case JoinedQueue(identity):
                    self._join(identity)
                case LeftQueue(identity):
                    self._leave(_plain_id(identity))
                case ResultArrived(identity, held, result):
                    dispatcher.report(_plain_id(identity), [self._plain_report(held, result)])
                case JobForgotten(identity, held, reason):
                    dispatcher.resize(_plain_id(identity), 0)
                    dispatcher.give_back(_plain_id(identity), [held], reason, blame=True)
                case UnexpectedResultArrived(identity, result):
                    if identity[:1] == b"\0":
                        detail = "a result, but it was given no job, or its job was taken away"
                        self._refusals.note(peer_name(identity), "result", detail)
                    else:
                        unattributed = UnattributedResult(_plain_id(identity), document_of(result))
                        dispatcher.report_unattributed(unattributed)

    def _plain_report(self, held: Held, result: bytes) -> Report:
        if len(result) <= self._max_result_bytes:
            return Report(held.job_id, held.attempt, result=document_of(result))
        message = (
            f"its worker returned {len(result):,} bytes; at most {self._max_result_bytes:,} are "
            "accepted (zmq.max_message_bytes)"
        )
        return Report(held.job_id, held.attempt, error=Failure(ErrorKind.REFUSED, message))

    def _join(self, identity: bytes) -> None:
        worker_id = _plain_id(identity)
        if worker_id in self._joined:
            self._dispatcher.resize(worker_id, 1)
            return
        if reason := self._lack_of_room(b"", worker_id):
            self._refusals.note(peer_name(identity), "hello", reason)
            return
        self._joined.add(worker_id)
        now = self._dispatcher.now()
        worker = Worker(
            id=worker_id,
            kind=WorkerKind.PLAIN,
            hostname="",
            port=0,
            handlers=PLAIN_HANDLERS,
            max_jobs=1,
            registered=now,
            last_pinged=now,
        )
        self._identities[worker_id] = identity
        self._dispatcher.introduce(WorkerRegistered(worker, self, frozenset(), 1, None))

    def _leave(self, worker_id: str) -> None:
        self._joined.discard(worker_id)
        self._identities.pop(worker_id, None)
        self._dispatcher.leave(worker_id)

    # ---- WorkerLink

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        if worker_id.startswith(PLAIN_PREFIX):
            for job in jobs:
                self._send_plain(worker_id, job)
            return
        identity = self._identities.get(worker_id, b"")
        for batch in batches(jobs, lambda job: len(job.payload or b"") + len(job.parents)):
            held = tuple(Held(job.id, job.attempt) for job in batch)
            secrets = tuple([self._run_secrets.of(job.id, job.attempt) for job in batch])
            begun = tuple([job.id for job in batch if job.rerun_of is not None])
            message = Assignments(tuple([_assignment(job) for job in batch]), secrets, begun)
            if not self._large.send_jobs(worker_id, identity, message, held):
                self._dispatcher.give_back(worker_id, held, "its worker could not be reached")
                self._dispatcher.shut(worker_id)

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        identity = self._identities.get(worker_id, b"")
        if worker_id.startswith(PLAIN_PREFIX):
            for held in jobs:
                if self._plain.gave_up(identity, held):
                    self._leave(worker_id)
                elif self._plain.is_ready(identity):  # it has spoken meanwhile
                    self._dispatcher.resize(worker_id, 1)
        else:
            self._large.send_cancels(identity, jobs)

    def send_taken(self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False) -> None:
        self._large.taken(worker_id, batches)
        if may_wait:
            self._confirmations.add(worker_id, batches)
        else:
            self._confirmations.send_now(worker_id, batches)

    def _confirm(self, worker_id: str, batches: Sequence[int]) -> None:
        self._tell(worker_id, Kind.TAKEN, Taken(tuple(batches)))

    def _tell(self, worker_id: str, kind: Kind, body: Message) -> None:
        if identity := self._identities.get(worker_id):
            self.socket.send([identity, *full(kind, body)])

    def send_note(self, worker_id: str, text: str) -> None:
        if (identity := self._identities.get(worker_id)) is not None:
            self.socket.send([identity, *full(Kind.ERROR, Refusal(0, text))])

    def send_pong(self, worker_id: str, beat: int) -> None:
        if identity := self._identities.get(worker_id):
            pong = Pong(beat, self._dispatcher.id, self._store, self._max_result_bytes)
            self.socket.send([identity, *full(Kind.PONG, pong)])

    def _send_plain(self, worker_id: str, job: Job) -> None:
        assert job.payload is not None
        identity, held = self._identities.get(worker_id, b""), Held(job.id, job.attempt)
        body = bytes_of(job.payload)
        if not self._plain.is_ready(identity):
            self._dispatcher.give_back(worker_id, [held], "its worker left before it could be sent")
        elif body == frames.PONG:
            error = Failure(ErrorKind.REFUSED, PONG_IS_NO_JOB)
            self._dispatcher.report(worker_id, [Report(job.id, job.attempt, error=error)])
        elif self.socket.send([identity, frames.DELIMITER, body]):
            self._plain.sent(identity, held, now=self._dispatcher.now(), size=len(body))
        else:
            self._plain.unsent(identity)
            self._dispatcher.give_back(worker_id, [held], "its worker could not be reached")
            self._leave(worker_id)


PONG_IS_NO_JOB = (
    "a plain job must not be the bytes PONG, since a worker could not tell it from our answer; "
    "send any other bytes"
)


def _plain_id(identity: bytes) -> str:
    return PLAIN_PREFIX + identity.hex()


def _assignment(job: Job) -> Assignment:
    assert job.payload is not None
    return Assignment(
        job.id,
        job.attempt,
        job.type,
        job.payload,
        job.execution.timeout,
        job.run,
        job.scheduled,
        job.retry,
        job.failures,
        job.traceparent,
        job.parents,
    )
