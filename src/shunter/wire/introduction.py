"""Whether a worker that introduces itself is let in. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.model.identity import NAME_RULE, RESERVED, is_name, is_reserved
from shunter.model.job_limits import limit_faults
from shunter.model.limits import option_faults
from shunter.model.schedule import MAX_DECLARED_BYTES, terms_faults
from shunter.model.worker import MAX_HANDLERS, PLAIN_PREFIX, DeclaredSchedule
from shunter.wire.messages import PROTOCOL_VERSION, Hello

MAX_SLOTS = 100_000


def fault_in(hello: Hello) -> str | None:
    """Say what is wrong with an introduction, or nothing."""
    return next(_faults(hello), None)


def _faults(hello: Hello) -> Iterator[str]:
    if hello.version != PROTOCOL_VERSION:
        yield (
            f"version: found {hello.version}, this dispatcher speaks {PROTOCOL_VERSION}; "
            "install the same version of shunter on both sides"
        )
    if not is_name(hello.worker_id) or hello.worker_id.startswith(PLAIN_PREFIX):
        yield f"worker_id: found {hello.worker_id[:64]!r}; send {NAME_RULE}"
    if hello.app_version and not is_name(hello.app_version):
        yield f"app_version: found {hello.app_version[:64]!r}; send {NAME_RULE}, or nothing"
    if not 1 <= hello.max_jobs <= MAX_SLOTS:
        yield f"max_jobs: found {hello.max_jobs}; send 1 to {MAX_SLOTS}"
    if len(hello.handlers) > MAX_HANDLERS:
        yield f"handlers: found {len(hello.handlers)} types of job; send {MAX_HANDLERS} at most"
        return
    for handler in hello.handlers:
        if not is_name(handler.type):
            yield f"handlers: found {handler.type[:64]!r}; send {NAME_RULE}"
        if is_reserved(handler.type):
            yield f"handlers: found {handler.type[:64]!r}; {RESERVED}"
        for field, reason in option_faults(
            priority=handler.priority,
            timeout=handler.timeout,
            retry=handler.retry,
            effects=handler.effects,
        ):
            yield f"handlers: {handler.type[:64]}: {field}: {reason}"
        if handler.schedule is not None:
            yield from _schedule_faults(handler.type, handler.schedule)
        if handler.limits is not None:
            for field, reason in limit_faults(handler.limits):
                yield f"handlers: {handler.type[:64]}: {field}: {reason}"


def _schedule_faults(job_type: str, schedule: DeclaredSchedule) -> Iterator[str]:
    for field, reason in terms_faults(schedule.terms):
        yield f"handlers: {job_type[:64]}: schedule: {field}: {reason}"
    if len(schedule.payload) > MAX_DECLARED_BYTES:
        found = f"found {len(schedule.payload):,} bytes"
        yield f"handlers: {job_type[:64]}: schedule: payload: {found}; send {MAX_DECLARED_BYTES:,}"
