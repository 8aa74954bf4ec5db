"""The steps, waits and stream of one run: what is kept already, what is to be done, when to park.

Written once for plain and for `async def` handlers: each operation is a generator that yields what
it wants (an ask, or a call of the user's function), and `drive` or `drive_async` performs that.
A wait that is over is noted with what is kept next, or parked on next, and needs no write of its
own: until then the job's record says that it is over.
Must not know processes or sockets. Rules: docs/spec/steps.md.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import msgspec

from shunter.codec import SealedField
from shunter.context import Parked
from shunter.errors import (
    AppError,
    ChildFailed,
    SignalTimeout,
    StaleStep,
    StepRefused,
)
from shunter.model.job import Status
from shunter.model.journal import (
    MAX_STEP_BYTES,
    MAX_STEPS,
    MAX_STREAM_BYTES,
    EntryKind,
    JournalEntry,
    Keep,
    arguments_digest,
    chunk_key,
    name_fault,
)
from shunter.model.limits import MAX_SECONDS
from shunter.model.park import Park
from shunter.model.submission import Submission
from shunter.model.waits import MAX_CHILDREN, WaitKind, Waits, child_ids
from shunter.payload import payload_of, result_of
from shunter.wire.messages import Outcome, Recalled
from shunter.worker.asks import JournalAnswer, JournalAsk, KeepAsk, RecallAsk
from shunter.worker.run_seal import RunSeal

T = TypeVar("T")

UNSYNCED_BYTES = 256 << 10
"""So much may be emitted before the run waits until it is kept."""

_LOOK_SECONDS = 0.2
_SHORTEST = 0.001
_UNITS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "weeks": 604800.0}


class FunctionCall(NamedTuple):
    """A call of the user's function."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]


Operation = Generator[JournalAsk | FunctionCall, Any, T]
Ask = Callable[[JournalAsk], "Future[JournalAnswer]"]
AskSoon = Callable[[JournalAsk], Awaitable[JournalAnswer]]
Post = Callable[[KeepAsk], object]


class RunJournal:
    """What one run has kept and waited for. `emitted` counts the chunks of its stream."""

    def __init__(
        self,
        job_id: str,
        attempt: int,
        seal: RunSeal,
        *,
        ask: Ask,
        post: Post,
        run: str | None = None,
        is_new: bool = False,
        ask_soon: AskSoon | None = None,
    ) -> None:
        """`ask` does not wait, `post` is for what needs no answer; `is_new`: nothing is kept.

        `ask_soon` is for coroutines; without it they use `ask`, too.
        """
        self._job_id, self._attempt, self._seal, self._run = job_id, attempt, seal, run
        self._ask, self._post, self._ask_soon = ask, post, ask_soon
        self._used: set[str] = set()
        self._steps: dict[str, JournalEntry] | None = {} if is_new else None
        self._signals: list[JournalEntry] | None = None
        self._awaited: Counter[str] = Counter()
        self._seen, self._now = 0, 0.0
        self._waits: Waits | None = None
        self._parked: Park | None = None
        self._marks: list[KeepAsk] = []
        self.emitted = 0
        self._emitted_bytes = self._unsynced = 0

    # ---- what a context offers

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        on_change: str,
    ) -> Any:
        return self._driven(self.stepping(name, function, args, kwargs, on_change))

    def sleep(self, name: str, seconds: float, units: dict[str, float]) -> Any:
        return self._driven(self.sleeping(name, self._seconds(name, seconds, units)))

    def wait(self, name: str, signal: str | None, timeout: float | None) -> Any:
        return self._driven(self.waiting(name, name if signal is None else signal, timeout))

    def gather(self, name: str, calls: Iterable[Any]) -> Any:
        return self._driven(self.gathering(name, calls))

    def emit(self, chunk: Any) -> None:
        """Pass a chunk on; those that an earlier run has emitted before it parked are left out."""
        body = self._sealed("emit", chunk, SealedField.CHUNK)
        if self._steps is None:
            drive(self._load(), self._ask)
        self.emitted += 1
        if self.emitted <= (self._waits.chunks if self._waits else 0):
            return
        self._emitted_bytes += len(body)
        if self._emitted_bytes > MAX_STREAM_BYTES:
            raise StepRefused(
                self._job_id,
                "emit",
                f"this run has emitted {MAX_STREAM_BYTES:,} bytes, as many as may be; the chunk is "
                "not in the stream: store large output elsewhere and emit its address",
            )
        ask = KeepAsk(EntryKind.CHUNKS, chunk_key(self._attempt, self.emitted - 1), body)
        self._unsynced += len(body)
        if self._unsynced < UNSYNCED_BYTES:
            self._post(ask)
        else:
            self._unsynced = 0
            drive(self._keep("emit", ask), self._ask)

    @property
    def is_unsynced(self) -> bool:
        """True if `finish` has to wait until something is kept."""
        return self._unsynced > 0

    def finish(self) -> None:
        """Wait until all that was emitted is kept; the run is about to end well.

        Raise StepRefused if its handler has caught Parked and gone on.
        """
        if self._parked is not None:
            raise self._refused(
                self._parked.name,
                "the handler caught Parked, by which a run ends that waits, and went on; catch "
                "Exception, or let Parked pass",
            )
        if self._unsynced:
            self._unsynced = 0
            empty = KeepAsk(EntryKind.CHUNKS, chunk_key(self._attempt, self.emitted), b"")
            drive(self._keep("emit", empty), self._ask)

    def _driven(self, operation: Operation[T]) -> Any:
        """Perform at once, or return a coroutine where an event loop runs."""
        asyncio = sys.modules.get("asyncio")  # slow to load: where it is not, no loop runs
        if asyncio is None or asyncio._get_running_loop() is None:
            return drive(operation, self._ask)
        if self._ask_soon is None:
            ask, wrapped = self._ask, asyncio.wrap_future
            return drive_async(operation, lambda wanted: wrapped(ask(wanted)))
        return drive_async(operation, self._ask_soon)

    # ---- steps

    def stepping(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        on_change: str,
    ) -> Operation[Any]:
        if on_change not in ("fail", "rerun"):
            raise self._refused(name, f"on_change: found {on_change!r}; give 'fail' or 'rerun'")
        self._use(name)
        digest = self._digest(name, "step", args, kwargs)
        yield from self._load()
        kept = self._kept(name, digest, may_differ=on_change == "rerun")
        if kept is not None:
            return self._opened(name, kept.body)
        assert self._steps is not None
        if len(self._steps) + len(self._marks) >= MAX_STEPS:
            raise self._refused(
                name, f"the job has kept {MAX_STEPS:,} steps, as many as may be; put several in one"
            )
        begun = monotonic()
        value = yield FunctionCall(function, args, kwargs)
        body = self._sealed(name, value, SealedField.STEP)
        yield from self._keep(
            name, KeepAsk(EntryKind.STEP, name, body, digest, monotonic() - begun)
        )
        return self._opened(name, body)

    def _keep(self, name: str, ask: KeepAsk) -> Operation[None]:
        """Keep something, and with it that waits are over."""
        marks, self._marks = tuple(self._marks), []
        answer: JournalAnswer = yield msgspec.structs.replace(ask, marks=marks)
        if answer.refusal:
            raise self._refused(name, answer.refusal)
        if not answer.is_kept:
            raise StaleStep(self._job_id, name, self._attempt)

    def _load(self) -> Operation[None]:
        """Read what earlier runs have kept, once."""
        if self._steps is not None:
            return
        steps: dict[str, JournalEntry] = {}
        for entry in (yield from self._recalled(EntryKind.STEP)):
            steps[entry.key] = entry
        self._steps = steps

    def _load_signals(self) -> Operation[list[JournalEntry]]:
        if self._signals is None:
            found = yield from self._recalled(EntryKind.SIGNAL)
            self._signals = sorted(found, key=lambda entry: (entry.at, entry.key))
        return self._signals

    def _recalled(self, kind: EntryKind) -> Operation[list[JournalEntry]]:
        found: list[JournalEntry] = []
        while True:
            page = yield from self._recall(RecallAsk(kind, found[-1].key if found else ""))
            if not found:
                self._seen, self._waits, self._now = page.signals, page.waits, page.now
            found += page.entries
            if not page.is_more:
                return found

    def _recall(self, ask: RecallAsk) -> Operation[Recalled]:
        answer = yield ask
        if answer.recalled is None:
            raise self._refused(ask.name or "(journal)", answer.refusal or "nothing was answered")
        recalled: Recalled = answer.recalled
        return recalled

    # ---- waits

    def sleeping(self, name: str, seconds: float) -> Operation[None]:
        digest = arguments_digest("sleep", b"")
        self._use(name)
        yield from self._load()
        if self._kept(name, digest) is not None:
            return
        left = self._left(name, WaitKind.SLEEP, seconds)
        if left == 0.0:
            self._mark(name, digest)
        else:
            self._park(Park(name, WaitKind.SLEEP, left))

    def waiting(self, name: str, signal: str, timeout: float | None) -> Operation[Any]:
        digest = arguments_digest("wait", signal.encode(errors="replace"))
        if fault := name_fault(signal):
            raise self._refused(name, f"signal: {fault}")
        if timeout is not None and not 0 <= timeout <= MAX_SECONDS:
            raise self._refused(
                name, f"timeout: found {timeout}; give seconds from 0 to {MAX_SECONDS:.0f}"
            )
        self._use(name, remedy=f", as in ctx.wait('{name} again', signal='{signal}')")
        yield from self._load()
        sent = [entry for entry in (yield from self._load_signals()) if entry.name == signal]
        if (kept := self._kept(name, digest)) is not None:
            taken = msgspec.msgpack.decode(kept.body)
            self._awaited[signal] += taken is not None
            found = next((entry for entry in sent if entry.key == taken), None)
        elif len(sent) > (place := self._awaited[signal]):
            found = sent[place]
            self._awaited[signal] += 1
            self._mark(name, digest, found.key)
        elif (left := self._left(name, WaitKind.SIGNAL, timeout)) == 0.0:
            found = None
            self._mark(name, digest, None)
        else:
            self._park(Park(name, WaitKind.SIGNAL, left, signal))
        if found is None:
            raise SignalTimeout(self._job_id, name, signal)
        return self._opened(name, found.body, SealedField.SIGNAL)

    def gathering(self, name: str, calls: Iterable[Any]) -> Operation[list[Any]]:
        children = self._children(name, calls)
        listed = msgspec.msgpack.encode([(child.type, child.payload) for child in children])
        digest = arguments_digest("gather", listed)
        self._use(name)
        yield from self._load()
        kept = self._kept(name, digest)
        results: list[Any] = [] if kept is None else self._opened(name, kept.body) or []
        if results or not children:
            return results
        sealed = tuple(self._sealed_child(child) for child in children)
        park = Park(name, WaitKind.CHILDREN, children=sealed)
        waits = self._waits
        if kept is None and (waits is None or waits.name != name):
            self._park(park)
        while len(results) < len(children):
            ask = RecallAsk(name=name, count=len(children), start=len(results))
            page = yield from self._recall(ask)
            results += [self._result_of(name, outcome) for outcome in page.outcomes]
            if not page.outcomes:  # woken too early
                self._park(park)
        if kept is None:
            try:
                self._mark(name, digest, results)
            except StepRefused:  # too large to be kept together: they are asked for each time
                self._mark(name, digest, None)
        return results

    def _children(self, name: str, calls: Iterable[Any]) -> list[Submission]:
        listed = list(calls)
        if len(listed) > MAX_CHILDREN:
            raise self._refused(
                name, f"{len(listed):,} jobs; wait for at most {MAX_CHILDREN:,} at a time"
            )
        children = []
        for child_id, call in zip(child_ids(self._job_id, name, len(listed)), listed, strict=True):
            match call:
                case [str() | object() as kind, *args] if isinstance(call, tuple | list):
                    job_type = kind if isinstance(kind, str) else getattr(kind, "name", "")
                case _:
                    job_type = ""
            if not job_type:
                raise self._refused(
                    name, f"found {call!r}; give tuples of a job's type and its arguments"
                )
            children.append(Submission(child_id, job_type, payload_of(*args), run=self._run))
        return children

    def _sealed_child(self, child: Submission) -> Submission:
        sealed = self._seal.payload(child.payload, child.id, child.type)
        return msgspec.structs.replace(child, payload=sealed)

    def _result_of(self, name: str, outcome: Outcome) -> Any:
        opened = self._seal.outcome(outcome)
        if opened.status is Status.COMPLETED:
            return None if opened.result is None else msgspec.msgpack.decode(opened.result)
        message = opened.error.message if opened.error else opened.status.word
        raise ChildFailed(self._job_id, name, outcome.job_id, message)

    def _left(self, name: str, kind: WaitKind, seconds: float | None) -> float | None:
        """Return how long to wait, of `seconds` in all: less if the job has waited for it before.

        It is 0 when the time is over, by the clock of a dispatcher; None is without an end.
        """
        waits = self._waits
        if waits is None or waits.name != name or waits.kind is not kind:
            return seconds if seconds is None else max(seconds, _SHORTEST)
        return None if waits.until is None else max(0.0, waits.until - self._now)

    def _park(self, park: Park) -> Any:
        marks = tuple(
            Keep(self._job_id, self._attempt, it.kind, it.key, it.body, it.digest)
            for it in self._marks
        )
        self._parked = msgspec.structs.replace(
            park, seen=self._seen, chunks=self.emitted, marks=marks
        )
        raise Parked(self._parked)

    def _mark(self, name: str, digest: bytes, value: Any = None) -> None:
        """Note that a wait is over, to be kept with what comes next."""
        sealed = isinstance(value, list)
        body = self._sealed(name, value, SealedField.STEP) if sealed else result_of(value)
        self._marks.append(KeepAsk(EntryKind.STEP, name, body, digest))

    # ---- shared

    def _use(self, name: str, *, remedy: str = "") -> None:
        if not isinstance(name, str):
            raise self._refused(str(name), "its name is no text; give each step a name")
        if self._parked is not None:
            raise Parked(self._parked)
        if fault := name_fault(name):
            raise self._refused(name, fault)
        if name in self._used:
            raise self._refused(
                name,
                f"the name is used twice in one run; give each step a name of its own{remedy}",
            )
        self._used.add(name)

    def _kept(self, name: str, digest: bytes, *, may_differ: bool = False) -> JournalEntry | None:
        assert self._steps is not None
        kept = self._steps.get(name)
        if kept is None or kept.digest == digest:
            return kept
        if may_differ:
            return None
        raise self._refused(
            name,
            f"its arguments are others than when attempt {kept.attempt} kept its result; give the "
            'step another name, or on_change="rerun" to do it again',
        )

    def _digest(self, name: str, what: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
        try:
            return arguments_digest(what, payload_of(*args, **kwargs))
        except AppError as error:
            raise self._refused(
                name,
                f"its arguments can't be compared: {error}; pass what is no plain value by a "
                "lambda or functools.partial",
            ) from None

    def _sealed(self, name: str, value: Any, field: SealedField) -> bytes:
        try:
            body = self._seal.document(result_of(value), field)
        except AppError as error:
            raise self._refused(name, f"its result can't be kept: {error}") from None
        if len(body) > MAX_STEP_BYTES:
            is_chunk = field is SealedField.CHUNK
            whose, verb = ("the chunk", "emit") if is_chunk else ("its result", "return")
            raise self._refused(
                name,
                f"{whose} has {len(body):,} bytes, at most {MAX_STEP_BYTES:,} are kept; store "
                f"it elsewhere and {verb} where it is",
            )
        return body

    def _opened(self, name: str, body: bytes, field: SealedField = SealedField.STEP) -> Any:
        try:
            return msgspec.msgpack.decode(self._seal.opened_document(body, field))
        except AppError as error:
            raise self._refused(name, f"what was kept can't be read: {error}") from None

    def _seconds(self, name: str, seconds: float, units: dict[str, float]) -> float:
        if unknown := units.keys() - _UNITS.keys():
            listed = ", ".join(_UNITS)
            raise self._refused(name, f"{min(unknown)}: unknown; give any of {listed}")
        total = seconds + sum(_UNITS[unit] * number for unit, number in units.items())
        if not 0 <= total <= MAX_SECONDS:
            raise self._refused(name, f"found {total} s; give a time from 0 to {MAX_SECONDS:.0f} s")
        return float(total)

    def _refused(self, name: str, message: str) -> StepRefused:
        return StepRefused(self._job_id, name, message)


def drive(operation: Operation[T], ask: Ask) -> T:
    """Perform an operation, and wait for it."""

    def performed(wanted: JournalAsk | FunctionCall) -> Any:
        if not isinstance(wanted, FunctionCall):
            return _waited(ask(wanted))
        value = wanted.function(*wanted.args, **wanted.kwargs)
        if inspect.iscoroutine(value):
            value.close()
            raise AppError(
                f"{wanted.function!r} is async def, and so must be a handler that makes it a step"
            )
        return value

    try:
        wanted = next(operation)
        while True:
            try:
                answer = performed(wanted)
            except BaseException as error:
                wanted = operation.throw(error)
            else:
                wanted = operation.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(operation: Operation[T], ask: AskSoon) -> T:
    """Perform an operation, while others may go on."""
    try:
        wanted = next(operation)
        while True:
            try:
                if isinstance(wanted, FunctionCall):
                    answer = wanted.function(*wanted.args, **wanted.kwargs)
                    if isinstance(answer, Awaitable):
                        answer = await answer
                else:
                    answer = await ask(wanted)
            except BaseException as error:
                wanted = operation.throw(error)
            else:
                wanted = operation.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _waited(answer: Future[JournalAnswer]) -> JournalAnswer:
    """Wait for an answer, looking up now and then: a thread is told to stop by an exception."""
    while True:
        try:
            return answer.result(timeout=_LOOK_SECONDS)
        except TimeoutError:
            if answer.done():
                return answer.result()
