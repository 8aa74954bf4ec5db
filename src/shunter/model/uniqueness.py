"""Which new job meets an earlier one, and what that means for both. Pure.

An id is unique in the whole store, a unique key in its namespace. Whoever sends a job twice gets
the one that is there; whoever sends another job under its name is refused; and of a job of another
namespace nobody learns more than that the id is taken. Where a key comes with a rule, it is
given up by a job that has kept it long enough, and a job that has not begun may be changed by a
second one. Stores find the earlier job; what is answered and what is to be written is decided here.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.job import Job, Status
from shunter.model.unique import During, Then

Answer = Job | UniqueKeyTaken

NamedKey = tuple[str, str]


class EarlierJobChange(Struct, frozen=True):
    """The earlier job as it is to be: compared and swapped, and where that fails, decided anew.

    Where it `is_answer`, it takes the place of the new one. Else it has only given up its key,
    which stands in a final job too, and the new one is to be offered again.
    """

    job: Job
    is_answer: bool

    @property
    def has_payload(self) -> bool:
        """True if the payload is another one now."""
        return self.job.payload is not None


def named_key(job: Job) -> NamedKey | None:
    """Return what no two jobs may share: the unique key with its namespace."""
    return None if job.unique_key is None else (job.namespace, job.unique_key)


def answer_to(job: Job, earlier: Job) -> Answer | EarlierJobChange:
    """Return what is said to a new job that has the id or the key of an earlier one."""
    if earlier.id == job.id:
        return _answer_by_id(job, earlier)
    taken = UniqueKeyTaken(job.id, "unique_key", job.unique_key or "", earlier.id)
    if not _keeps_key(earlier, now=job.created):
        freed = replace(earlier, unique_key=None, revision=earlier.revision + 1, payload=None)
        return EarlierJobChange(freed, is_answer=False)
    if earlier.type != job.type:
        return taken
    then = Then(job.unique.then) if job.unique is not None else Then.KEEP
    has_begun = earlier.attempt > 0 or earlier.status.is_final
    if then is Then.POSTPONE:
        return earlier if has_begun else _postponed(job, earlier)
    if then is Then.REPLACE and not has_begun:
        return _replaced(job, earlier)
    return earlier if earlier.payload == job.payload else taken


def _answer_by_id(job: Job, earlier: Job) -> Answer:
    if earlier.namespace != job.namespace:
        return UniqueKeyTaken(job.id, "id", job.id)
    is_same = earlier.payload == job.payload or earlier.replacements > 0
    if earlier.type != job.type or not is_same:
        return UniqueKeyTaken(job.id, "id", job.id, earlier.id)
    return earlier


def _keeps_key(job: Job, *, now: float) -> bool:
    if job.unique is None or (lasts := job.unique.lasts) is None:
        return True
    if job.unique.within is not None and now < job.created + job.unique.within:
        return True
    if lasts is During.QUEUED:
        return job.attempt == 0 and job.status in (Status.QUEUED, Status.DISPATCHING)
    return not job.status.is_final


def _postponed(job: Job, earlier: Job) -> Job | EarlierJobChange:
    until = job.not_before
    if until is None or until <= max(earlier.not_before or 0.0, job.created):
        return earlier
    moved = lifecycle.put_back(earlier, not_before=until, now=job.created)
    return EarlierJobChange(replace(moved, payload=None), is_answer=True)


def _replaced(job: Job, earlier: Job) -> Job | EarlierJobChange:
    is_same = (earlier.payload, earlier.not_before, earlier.place_within) == (
        job.payload,
        job.not_before,
        job.place_within,
    )
    if is_same:
        return earlier
    changed = lifecycle.put_back(
        earlier,
        not_before=job.not_before,
        now=job.created,
        place_within=job.place_within,
        replacements=earlier.replacements + 1,
    )
    return EarlierJobChange(replace(changed, payload=job.payload), is_answer=True)
