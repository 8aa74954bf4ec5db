"""What a run has printed so far, and how a reader follows it until the job has ended. Pure.

A worker tells the end of a run's log now and then; each telling replaces the one before. What the
run had printed when it ended comes with its outcome and is in the job's record: that is the truth,
and this is for people who look meanwhile. Rules: docs/spec/steps.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from shunter.model.job import Job, Status
from shunter.model.journal import EntryKind, JournalEntry, LiveLog, live_log_of
from shunter.model.json_record import JsonRecord

LIVE_LOG_BYTES = 16 << 10
"""So much of the end of a log is told while its run goes on."""

_LEFT_OUT = re.compile(r"(?:\A|\n)\[\.\.\. (\d+) (?:bytes|characters) left out \.\.\.\]\n")
_SEALED = "<sealed:"
_INNER_BYTES = bytes(range(0x80, 0xC0))
"""No character begins with one of these."""


def left_out(count: int) -> str:
    """Return the line that stands for so many bytes."""
    return f"[... {count} bytes left out ...]\n"


def end_of_log(raw: bytes, *, printed: int, most: int) -> LiveLog:
    """Return the last whole lines of a log, of which `raw` is the end, in at most `most` bytes."""
    # A cut that crosses with the child's own leaves a hole, which reads as zeros.
    kept = raw[max(0, len(raw) - most) :].replace(b"\0", b"")
    if printed > len(kept):
        kept = kept.partition(b"\n")[2] or kept
        kept = kept.lstrip(_INNER_BYTES)
    written = kept.decode(errors="replace").encode()
    text = written[max(0, len(written) - most) :].decode(errors="ignore")
    return LiveLog(max(0, printed - len(text.encode())), text)


def end_of(log: LiveLog) -> int:
    """Return how many bytes a run has printed that tells this."""
    return log.start + len(log.text.encode())


def shown_log(log: LiveLog) -> str:
    """Return a log for people, with a line for what is missing before it."""
    return left_out(log.start) + log.text if log.start else log.text


def told_of(entries: Iterable[JournalEntry], attempt: int) -> LiveLog | None:
    """Return what a run has told of its log, among what the job's journal has."""
    for entry in entries:
        if entry.kind is EntryKind.LOG and entry.attempt == attempt:
            return live_log_of(entry.body)
    return None


def is_log_told(job: Job) -> bool:
    """True if a job's log may be in its journal, and not in its record."""
    return job.status is Status.IN_PROGRESS or (job.attempt > 0 and not job.log)


def log_so_far(job: Job, told: LiveLog | None) -> str:
    """Return the log of a job's current run for people; of its last one if none is under way.

    A run that has ended without a log, as its process died, has printed what it told before.
    """
    if not is_log_told(job):
        return job.log
    return "" if told is None else shown_log(told)


class LogPiece(JsonRecord, Struct, frozen=True):
    """Text that a run has printed; `end` is how many bytes it has printed by then."""

    attempt: int
    end: int
    text: str


class LogRestart(JsonRecord, Struct, frozen=True):
    """The job runs again: what comes now is the log of this attempt."""

    attempt: int


class LogReader:
    """Where a reader is: it has `position` bytes of the log of `attempt`."""

    def __init__(self, attempt: int = 0, position: int = 0) -> None:
        self.attempt, self.position = attempt, position
        self._record = (attempt, "")

    def read(self, attempt: int, told: LiveLog) -> Iterator[LogPiece | LogRestart]:
        """Yield what is new in what a run has told."""
        yield from self._read(attempt, [(told.start, told.text)])

    def read_record(self, job: Job, told: LiveLog | None) -> Iterator[LogPiece | LogRestart]:
        """Yield what is new in the log of a run that has ended, or in what it told if it has none.

        A run whose process died leaves the log of the run before in the record.
        """
        (last, text), self._record = self._record, (job.attempt, job.log)
        if job.log and not (job.attempt > last and job.log == text):
            yield from self._read(job.attempt, _parts(job.log))
        elif told is not None:
            yield from self.read(job.attempt, told)

    def _read(
        self, attempt: int, parts: Sequence[tuple[int, str]]
    ) -> Iterator[LogPiece | LogRestart]:
        if attempt < self.attempt or not any(text for _, text in parts):
            return
        if attempt > self.attempt:
            if self.position:
                yield LogRestart(attempt)
            self.attempt, self.position = attempt, 0
        if fresh := self._fresh(parts):
            yield LogPiece(attempt, self.position, fresh)

    def _fresh(self, parts: Sequence[tuple[int, str]]) -> str:
        """Return what is behind the reader's position in the parts of a log, and go to its end."""
        last_at, last = parts[-1]
        end = last_at + len(last.encode())
        seen, self.position = self.position, end
        if end < seen or (last.startswith(_SEALED) and end > seen):
            return last  # it was cut back meanwhile, or can't be cut
        fresh = ""
        for at, text in parts:
            raw = text.encode()
            if seen < at:
                fresh += "\n" if fresh and not fresh.endswith("\n") else ""
                fresh += left_out(at - seen)
                seen = at
            fresh += raw[seen - at :].decode(errors="ignore")
            seen = max(seen, at + len(raw))
        return fresh


def _parts(text: str) -> list[tuple[int, str]]:
    """Return the log of a record, which may lack its middle: each part and where it begins."""
    cut = _LEFT_OUT.search(text)
    if cut is None:
        return [(0, text)]
    head, tail = text[: cut.start()], text[cut.end() :]
    return [(0, head), (len(head.encode()) + int(cut[1]), tail)]
