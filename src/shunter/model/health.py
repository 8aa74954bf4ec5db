"""Workers that are asked whether they live: when to ask, and what follows from the answers.

Any dispatcher may ask. The one that writes `last_pinged` first is the one that does, so ten of
them ask no more often than one. Each function takes a record and returns the next one with its
revision raised. Pure: `now` is always an argument. Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.model.key import KeyRing
from shunter.model.worker import Handler, Worker, WorkerKind

MAX_ERROR_LENGTH = 500
MARGIN_SECONDS = 1.0
"""What lies at least between a worker's end and a takeover, for clocks and slow networks."""

SLACK_SECONDS = 2.0
"""By so much a check may come late: dispatchers look every second, and may be busy."""


class HealthRules(Struct, frozen=True, kw_only=True):
    """How workers are watched; spans in seconds."""

    ping_interval: float = 30.0
    max_retries: int = 3
    dead_ping_interval: float = 60.0
    dead_max_retries: int = 10
    verification_interval: float = 10.0
    kill_within: float = 2.0

    @property
    def takes_over_after(self) -> float:
        """How long after its last answer a worker may lose its jobs, at the earliest."""
        return self.ping_interval * max(1, self.max_retries)


def worker_id_at(hostname: str, port: int) -> str:
    """Return the id of the worker there: who registers twice is the same worker."""
    return "w-" + hashlib.sha256(f"{hostname.lower()}:{port}".encode()).hexdigest()[:20]


def registered(
    known: Worker | None,
    *,
    hostname: str,
    port: int,
    handlers: tuple[str, ...],
    max_jobs: int,
    now: float,
    key: str = "",
    scheme: str = "http",
    secret: str = "",
    version: str = "",
    has_hooks: bool = False,
) -> Worker:
    """A worker comes, or comes again; its jobs are to be verified at once."""
    fresh = Worker(
        id=worker_id_at(hostname, port),
        kind=WorkerKind.HTTP,
        hostname=hostname,
        port=port,
        handlers=tuple(Handler(name, has_hooks=has_hooks) for name in handlers),
        max_jobs=max_jobs,
        registered=now,
        last_pinged=now,
        revision=1,
        key=key,
        scheme=scheme,
        secret=secret,
        version=version,
    )
    if known is None:
        return fresh
    return replace(
        fresh,
        revision=known.revision + 1,
        incarnation=known.incarnation + 1,
        answered=known.answered,
    )


def is_anothers(known: Worker | None, key: str, ring: KeyRing) -> bool:
    """True if a worker came with another key, which still counts, and is not known to be gone."""
    if known is None or known.is_dead or known.is_resigned or known.key == key:
        return False
    return ring.named(known.key) is not None


def is_welcome(worker: Worker, ring: KeyRing) -> bool:
    """True if the key that a worker came with still counts, for all that it does."""
    key = ring.named(worker.key)
    return key is not None and all(key.serves(handler.type) for handler in worker.handlers)


def resigned(worker: Worker, *, now: float, error: str = "") -> Worker:
    """It wants no more jobs, or is to have no more because of an error."""
    shown = error[:MAX_ERROR_LENGTH] or worker.last_error
    return _changed(worker, is_resigned=True, last_pinged=now, last_error=shown)


def lease(worker: Worker, rules: HealthRules) -> float:
    """Return how long a worker may go on with its jobs if it hears nothing more after now.

    It counts by the checks that may fail from here on, this one included: where the worker hears
    us but its answers are lost, it must stop all the same before it is declared dead. A healthy
    worker gets enough to reach the next check, also where the settings leave too little time to
    stop before others take over.
    """
    checks_left = max(1, rules.max_retries) - worker.failed_ping_count - 1
    left = checks_left * rules.ping_interval - rules.kill_within - MARGIN_SECONDS
    if worker.failed_ping_count:
        return max(0.0, left)
    return max(left, 1.5 * rules.ping_interval + SLACK_SECONDS)


def is_check_due(worker: Worker, rules: HealthRules, *, now: float) -> bool:
    """True if it is time to ask this worker."""
    interval = rules.dead_ping_interval if worker.is_dead else rules.ping_interval
    return _is_watched(worker) and now - worker.last_pinged >= interval


def answered(worker: Worker, *, now: float) -> Worker:
    """It lives, again if it was dead."""
    return _changed(worker, failed_ping_count=0, last_error="", is_dead=False, answered=now)


def unanswered(worker: Worker, error: str, rules: HealthRules) -> Worker:
    """A check failed; after some of them the worker counts as dead."""
    failed = worker.failed_ping_count + 1
    return _changed(
        worker,
        failed_ping_count=failed,
        last_error=error[:MAX_ERROR_LENGTH],
        is_dead=worker.is_dead or failed >= rules.max_retries,
    )


def is_beyond_hope(worker: Worker, rules: HealthRules) -> bool:
    """True if a dead worker has been asked often enough to be forgotten."""
    since_death = worker.failed_ping_count - max(1, rules.max_retries)
    return worker.is_dead and since_death >= rules.dead_max_retries


def is_verification_due(worker: Worker, rules: HealthRules, *, now: float) -> bool:
    """True if it is time to ask this worker for its jobs, if it has any."""
    is_usable = _is_watched(worker) and not worker.is_dead and bool(worker.jobs)
    return is_usable and now - worker.verified >= rules.verification_interval


def is_due(worker: Worker, rules: HealthRules, *, now: float) -> bool:
    """True if it is time to ask this worker for anything."""
    return is_check_due(worker, rules, now=now) or is_verification_due(worker, rules, now=now)


def taken_on(worker: Worker, rules: HealthRules, *, now: float) -> Worker:
    """Somebody takes it on to ask what is due: its times are set to now."""
    changes = {}
    if is_check_due(worker, rules, now=now):
        changes["last_pinged"] = now
    if is_verification_due(worker, rules, now=now):
        changes["verified"] = now
    return _changed(worker, **changes)


def _is_watched(worker: Worker) -> bool:
    return worker.kind.traits.is_called and not worker.is_resigned


def _changed(worker: Worker, **changes: Any) -> Worker:
    return replace(worker, revision=worker.revision + 1, **changes)
