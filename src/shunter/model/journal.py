"""What a job keeps beside its record: results of steps, signals, chunks of its stream. Pure values.

Each entry is a row of its own, found by the job, its kind and its key. A run's entries carry its
attempt, which is the fencing token here as everywhere: the store writes them only while that run
is the current one. Rules: docs/spec/steps.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from shunter.errors import JobRefused
from shunter.model.document import is_document
from shunter.model.json_record import JsonRecord, plain_document

MAX_STEP_BYTES = 128 << 10
"""How large the kept result of a step may be, as msgpack; a signal's value and a chunk likewise."""

MAX_STEP_NAME = 200
MAX_STEPS = 1_000
MAX_SIGNALS = 1_000
"""How many of either a job may keep."""

MAX_STREAM_BYTES = 16 << 20
"""How much one run may emit."""

JOURNAL_PAGE_BYTES = 128 << 10
"""About so much of a journal is read and sent at a time."""

SENT = 0
"""The attempt of what did not come from a run: a signal."""

COPIED = -1
"""That of a step that is copied into a job which is about to be stored."""


class EntryKind(StrEnum):
    """What an entry is; one letter in the store."""

    STEP = "s"
    SIGNAL = "g"
    CHUNKS = "c"
    LOG = "l"


LIVE_LOG = "log"
"""The key of what a run has printed so far; what it had printed in the end is in the record."""

MAX_LIVE_LOG_BYTES = 64 << 10
"""How much of a log is kept while its run goes on: an encrypted text is longer than it says."""

MAX_PRINTED = 1 << 53


class LiveLog(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The end of what a run has printed, behind `start` bytes that are left out (`job_log.py`)."""

    start: int
    text: str


class JournalEntry(JsonRecord, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row. `key` is unique within the job and the kind.

    A step's key is its name, and `digest` that of its arguments. A signal's key is its id, and
    `name` what it is called. Chunks that came together are one entry, whose key is `chunk_key`;
    its body is a msgpack array of theirs.
    """

    job_id: str
    kind: EntryKind
    key: str
    attempt: int
    at: float
    body: bytes
    name: str = ""
    digest: bytes = b""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dict that `json.dumps` takes: kind as a word, body decoded."""
        kind, body = self.kind.name.lower(), plain_document(self.body)
        return {**super().as_dict(), "kind": kind, "body": body}


class Keep(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a run wants kept, as its worker says it."""

    job_id: str
    attempt: int
    kind: EntryKind
    key: str
    body: bytes
    digest: bytes = b""
    seconds: float = 0.0

    def entry(self, *, now: float) -> JournalEntry:
        """Return the row, as of now."""
        return JournalEntry(
            job_id=self.job_id,
            kind=self.kind,
            key=self.key,
            attempt=self.attempt,
            at=now,
            body=self.body,
            digest=self.digest,
            seconds=self.seconds,
        )


def entries_of(keeps: Sequence[Keep], *, now: float) -> list[JournalEntry]:
    """Return the rows of what came together, each a moment after the one before it."""
    last = len(keeps) - 1
    return [keep.entry(now=now - 1e-6 * (last - at)) for at, keep in enumerate(keeps)]


class Signal(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What somebody tells a job, under an id by which it counts once."""

    job_id: str
    name: str
    id: str
    value: bytes

    def entry(self, *, now: float) -> JournalEntry:
        """Return the row, as of now."""
        return JournalEntry(
            job_id=self.job_id,
            kind=EntryKind.SIGNAL,
            key=self.id,
            attempt=SENT,
            at=now,
            body=self.value,
            name=self.name,
        )


def signal_fault(signal: Signal) -> tuple[str, str] | None:
    """Return the field at fault and what is wrong with it, if anything is."""
    if fault := name_fault(signal.name):
        return "name", fault
    if fault := name_fault(signal.id):
        return "id", fault
    if len(signal.value) > MAX_STEP_BYTES:
        found = f"{len(signal.value):,} bytes; at most {MAX_STEP_BYTES:,} are kept"
        return "value", f"{found}, store it elsewhere and send its address"
    if not is_document(signal.value):
        return "value", "not msgpack; send one msgpack value"
    return None


class JournalPage(Struct, frozen=True):
    """Some entries of a job, in the order of their keys; `is_more` says that others follow."""

    entries: tuple[JournalEntry, ...] = ()
    is_more: bool = False


def before_step(
    job_id: str, steps: Iterable[JournalEntry], signals: Iterable[JournalEntry], step: str
) -> list[JournalEntry]:
    """Return what a rerun from a step takes over: all that was kept before that step was.

    Raises JobRefused if the job has not kept it.
    """
    kept = {entry.key: entry for entry in steps}
    if step not in kept:
        names = ", ".join(repr(name) for name in sorted(kept, key=lambda it: kept[it].at)[:20])
        raise JobRefused(
            job_id,
            "from_step",
            f"it has kept no step {step!r}, but {names or 'none at all'}; name one of those, or "
            "leave it out to do all of them again",
        )
    cut = kept[step].at
    return [entry for entry in (*kept.values(), *signals) if entry.at < cut]


def copied_fault(entry: JournalEntry) -> str:
    """Say what is wrong with an entry that a rerun takes over, or nothing."""
    if entry.kind is EntryKind.CHUNKS or not is_document(entry.body):
        return "a step or a signal whose body is msgpack is expected"
    if len(entry.body) > MAX_STEP_BYTES or len(entry.digest) > 64:
        return f"{len(entry.body):,} bytes; at most {MAX_STEP_BYTES:,} are kept"
    return name_fault(entry.key) or (entry.name and name_fault(entry.name))


def keep_fault(keep: Keep) -> str:
    """Say why no store should be asked to keep this; nothing if it may be."""
    if keep.kind is EntryKind.SIGNAL:
        return "a run keeps steps, chunks and its log; signals are sent by clients"
    if fault := name_fault(keep.key):
        return f"key: {fault}"
    if keep.kind is EntryKind.LOG:
        return live_log_fault(keep.key, keep.body)
    if keep.kind is EntryKind.STEP and len(keep.body) > MAX_STEP_BYTES:
        return f"body: {len(keep.body):,} bytes; at most {MAX_STEP_BYTES:,} are kept"
    if len(keep.body) > 2 * MAX_STEP_BYTES or len(keep.digest) > 64:
        return f"body: {len(keep.body):,} bytes; send chunks of at most {MAX_STEP_BYTES:,}"
    if not (0.0 <= keep.seconds < 1e10):
        return f"seconds: found {keep.seconds}; send how long the step took"
    return ""


def live_log_fault(key: str, body: bytes) -> str:
    """Say why what is told of a log is not taken; nothing if it is."""
    if key != LIVE_LOG:
        return f"key: found {key!r}; a run has one log, {LIVE_LOG!r}"
    if len(body) > MAX_LIVE_LOG_BYTES:
        return (
            f"body: {len(body):,} bytes; send the last of the log, {MAX_LIVE_LOG_BYTES:,} or less"
        )
    if live_log_of(body) is None:
        return "body: it is not msgpack of how many bytes are left out, and a text; send these two"
    return ""


def live_log_of(body: bytes) -> LiveLog | None:
    """Read what is told of a log; None if it can't be read."""
    try:
        log = _decode_live_log(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return log if 0 <= log.start <= MAX_PRINTED else None


def name_fault(name: str) -> str:
    """Say what is wrong with the name of a step or a signal, or nothing."""
    if not 1 <= len(name) <= MAX_STEP_NAME:
        return f"{len(name)} characters; give it 1 to {MAX_STEP_NAME}"
    if not name.isprintable():
        return f"found {name!r}; use printable characters only"
    return ""


def chunk_key(attempt: int, number: int) -> str:
    """Return the key of chunks that begin with this number; keys sort as the chunks came."""
    return f"{attempt:010d}/{number:010d}"


def chunk_place(key: str) -> tuple[int, int]:
    """Return attempt and first number of chunks by their key."""
    attempt, _, number = key.partition("/")
    return int(attempt), int(number)


def arguments_digest(what: str, encoded: bytes) -> bytes:
    """Return by what a changed call is recognised: which function, and its arguments as msgpack."""
    made = hashlib.blake2b(what.encode(errors="replace"), digest_size=16)
    made.update(b"\0" + encoded)
    return made.digest()


def in_pages(entries: Iterable[JournalEntry], *, limit: int) -> JournalPage:
    """Return the first entries that make about `limit` bytes, at least one."""
    page: list[JournalEntry] = []
    size = 0
    for entry in entries:
        if page and size + len(entry.body) > limit:
            return JournalPage(tuple(page), is_more=True)
        page.append(entry)
        size += len(entry.body) + 64
    return JournalPage(tuple(page))


encode_live_log = msgspec.msgpack.Encoder().encode
_decode_live_log = msgspec.msgpack.Decoder(LiveLog).decode

encode_chunks = msgspec.msgpack.Encoder().encode
decode_chunks = msgspec.msgpack.Decoder(list[bytes]).decode
