"""What a run says when it parks: what it waits for, and what is to be kept with that. Pure.

It travels as the result in the run's report, whose error is of the kind `parked`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from shunter.errors import JobError
from shunter.model.job import Failure
from shunter.model.journal import EntryKind, Keep, keep_fault, name_fault
from shunter.model.limits import MAX_SECONDS
from shunter.model.submission import Submission
from shunter.model.waits import MAX_CHILDREN, WaitKind, Waits, child_ids

MAX_MARKS = 1_000


class Park(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A run that asks to be parked. `seen`: how many signals it knew, `seconds`: how long at most.

    `marks` are waits that are over, to be kept with this one; `children` the jobs to wait for.
    """

    name: str
    kind: WaitKind
    seconds: float | None = None
    signal: str = ""
    seen: int = 0
    chunks: int = 0
    marks: tuple[Keep, ...] = ()
    children: tuple[Submission, ...] = ()

    def waits(self, *, now: float) -> Waits:
        """Return what the job's record is to say."""
        return Waits(
            self.name,
            self.kind,
            now,
            None if self.seconds is None else now + self.seconds,
            self.signal,
            len(self.children),
            self.chunks,
        )

    @property
    def text(self) -> str:
        """What it waits for, in words."""
        match self.kind:
            case WaitKind.SLEEP:
                return f"{self.name!r}: sleeps for {self.seconds:g} s"
            case WaitKind.SIGNAL:
                return f"{self.name!r}: waits for signal {self.signal!r}"
            case WaitKind.CHILDREN:
                return f"{self.name!r}: waits for {len(self.children)} jobs"


encode_park = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Park)


def park_of(job_id: str, attempt: int, document: bytes | None) -> Park:
    """Read what a worker sent, or raise a JobError that says what is wrong with it."""
    try:
        park = _decoder.decode(document or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise JobError(job_id, f"parked with what is no Park: {error}") from None
    if fault := _fault(job_id, attempt, park):
        raise JobError(job_id, f"parked with {fault}")
    return park


def _fault(job_id: str, attempt: int, park: Park) -> str:
    if fault := name_fault(park.name) or (park.signal and name_fault(park.signal)):
        return f"name: {fault}"
    if park.seconds is not None and not 0 <= park.seconds <= MAX_SECONDS:
        return f"seconds: found {park.seconds}; send 0 to {MAX_SECONDS:.0f}"
    if park.kind is WaitKind.SLEEP and park.seconds is None:
        return "seconds: nothing; say how long"
    if park.chunks < 0 or park.seen < 0:
        return "chunks or seen: a number below 0"
    if len(park.marks) > MAX_MARKS or len(park.children) > MAX_CHILDREN:
        return f"more than {MAX_MARKS:,} marks or {MAX_CHILDREN:,} children"
    for mark in park.marks:
        is_own = (mark.job_id, mark.attempt, mark.kind) == (job_id, attempt, EntryKind.STEP)
        if not is_own or keep_fault(mark):
            return f"marks: {keep_fault(mark) or 'not of this run'}"
    ids = child_ids(job_id, park.name, len(park.children))
    if [child.id for child in park.children] != ids:
        return "children: ids that are not made of the job's id and the step's name"
    if (park.kind is WaitKind.CHILDREN) is not bool(park.children):
        return "children: none to wait for"
    return ""


def is_parked(failure: Failure | None) -> bool:
    """True if a run ended because it is to go on later."""
    return failure is not None and failure.kind == "parked"
