"""What makes a submission acceptable, and the job it becomes. Pure.

Every refusal names the field, what was found, and what to send instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from shunter.dispatch.arrivals import Submitter
from shunter.errors import JobRefused
from shunter.model.allowed_hosts import AllowedHosts, allowed_hosts
from shunter.model.document import DOCUMENT_BYTES, is_document
from shunter.model.identity import NAME_RULE, RESERVED, is_name, is_reserved
from shunter.model.job import Callback, Effects, Execution, Job
from shunter.model.job_limits import JobLimits, key_faults
from shunter.model.journal import MAX_SIGNALS, MAX_STEPS, copied_fault
from shunter.model.limits import (
    MAX_KEY_LENGTH,
    MAX_SECONDS,
    TRACEPARENT_RULE,
    is_traceparent,
    moment_fault,
    option_faults,
    run_fault,
    unique_faults,
)
from shunter.model.spelling import did_you_mean
from shunter.model.submission import Submission
from shunter.model.unique import Then, Unique
from shunter.model.worker import Handler


class IntakeRules(Struct, frozen=True, kw_only=True):
    """The limits of what is accepted."""

    max_payload_bytes: int = 16 * 1024 * 1024
    refuse_unknown_types: bool = False
    callback_hosts: AllowedHosts = allowed_hosts()


def admit(
    submission: Submission,
    submitter: Submitter,
    *,
    rules: IntakeRules,
    handler: Handler | None,
    known_types: set[str],
    now: float,
    limits: JobLimits | None = None,
) -> Job:
    """Turn a submission into a queued job, or raise JobRefused.

    A notice of the submitter's gateway takes the place of a callback that the client asks for.
    `limits` are those of its type, which say in which lane it waits.
    """
    _check(submission, rules)
    if rules.refuse_unknown_types and submission.type not in known_types:
        served = ", ".join(sorted(known_types)) or "none yet"
        raise JobRefused(
            submission.id,
            "type",
            f"no worker does {submission.type!r}; types that are served: {served}"
            + did_you_mean(submission.type, known_types),
        )
    not_before = submission.not_before if submission.delay is None else now + submission.delay
    timeout = submission.timeout
    priority = submission.priority
    effects = submission.effects
    if handler is not None:
        effects = handler.effects if effects is None else effects
        timeout = handler.timeout if timeout is None else timeout
        priority = handler.priority if priority is None else priority
    return Job(
        id=submission.id,
        type=submission.type,
        payload=submission.payload,
        created=now,
        updated=now,
        priority=priority or 0,
        workflow=submission.workflow,
        run=submission.run,
        execution=Execution(timeout=timeout),
        callback=submitter.notice or _callback(submission),
        not_before=not_before,
        place_within=submission.place_within,
        place_by=None
        if submission.place_within is None
        else (not_before or now) + submission.place_within,
        wait_until=not_before if not_before is not None and not_before > now else None,
        unique_key=submission.unique.key if submission.unique else submission.unique_key,
        unique=submission.unique,
        namespace=submitter.namespace,
        rerun_of=submission.rerun_of,
        traceparent=submission.traceparent,
        retry=submission.retry
        if submission.retry is not None
        else handler.retry
        if handler
        else None,
        effects=None if effects is None else Effects(effects),
        reply_to=submitter.reply_to if submission.reply else None,
        scheduled=submission.scheduled,
        keys=submission.keys or {},
        lane=None if limits is None else limits.lane(submission.keys or {}),
    )


def _callback(submission: Submission) -> Callback | None:
    """Take what a client may say of its callback: whom to call."""
    return None if submission.callback is None else Callback(submission.callback.url)


def _check(submission: Submission, rules: IntakeRules) -> None:
    for field, message in _faults(submission, rules):
        raise JobRefused(submission.id if is_name(submission.id) else "(unnamed)", field, message)


def _faults(submission: Submission, rules: IntakeRules) -> Iterator[tuple[str, str]]:
    """Yield which fields can't be accepted, and why; what is usual is looked at first."""
    if not is_name(submission.id):
        yield "id", f"found {submission.id[:64]!r}; send {NAME_RULE}"
    if not is_name(submission.type):
        yield "type", f"found {submission.type[:64]!r}; send {NAME_RULE}"
    if is_reserved(submission.id):
        yield "id", f"found {submission.id[:64]!r}; {RESERVED}"
    if is_reserved(submission.type) and not is_reserved(submission.rerun_of or ""):
        yield "type", f"found {submission.type[:64]!r}; {RESERVED}"
    if submission.rerun_of is not None and not is_name(submission.rerun_of):
        yield "rerun_of", f"found {submission.rerun_of[:64]!r}; send the id of an ended job"
    if submission.traceparent is not None and not is_traceparent(submission.traceparent):
        yield "traceparent", f"found {submission.traceparent[:64]!r}; send {TRACEPARENT_RULE}"
    if len(submission.payload) > rules.max_payload_bytes + DOCUMENT_BYTES:
        yield (
            "payload",
            f"{len(submission.payload):,} bytes; at most {rules.max_payload_bytes:,} are accepted "
            "(zmq.max_message_bytes); store the data elsewhere and send its address",
        )
    if not is_document(submission.payload):
        reason = f"{len(submission.payload):,} bytes that are not one msgpack value; send one"
        yield "payload", reason
    options = (submission.priority, submission.timeout, submission.retry, submission.effects)
    if options != (None, None, None, None):
        priority, timeout, retry, effects = options
        yield from option_faults(priority=priority, timeout=timeout, retry=retry, effects=effects)
    yield from _time_faults(submission)
    if submission.callback is not None and (
        fault := rules.callback_hosts.fault(submission.callback.url)
    ):
        yield "callback.url", fault
    if submission.unique is not None:
        yield from _unique_faults(submission, submission.unique)
    if submission.keys:
        yield from key_faults(submission.keys)
    if submission.journal is not None:
        yield from _journal_faults(submission)
    is_new = submission.rerun_of is None and submission.scheduled is None
    if submission.run is not None and is_new and (fault := run_fault(submission.run)):
        yield "run", fault  # what older versions stored may be done again under its old name
    for field in ("unique_key", "workflow", "run"):
        text = getattr(submission, field)
        if text is not None and not 1 <= len(text) <= MAX_KEY_LENGTH:
            yield field, f"{len(text)} characters; send 1 to {MAX_KEY_LENGTH}"


def _journal_faults(submission: Submission) -> Iterator[tuple[str, str]]:
    entries = submission.journal or ()
    if submission.rerun_of is None:
        yield "journal", "found without rerun_of; only a rerun takes over steps"
    if len(entries) > MAX_STEPS + MAX_SIGNALS:
        yield "journal", f"{len(entries):,} entries; at most {MAX_STEPS + MAX_SIGNALS:,}"
    for entry in entries:
        if fault := copied_fault(entry):
            yield "journal", fault


def _time_faults(submission: Submission) -> Iterator[tuple[str, str]]:
    if submission.delay is not None and not 0 <= submission.delay <= MAX_SECONDS:
        yield "delay", f"found {submission.delay}; send 0 to {MAX_SECONDS:.0f} seconds"
    if submission.not_before is not None and (fault := moment_fault(submission.not_before)):
        yield "not_before", fault
    if submission.scheduled is not None and (fault := moment_fault(submission.scheduled)):
        yield "scheduled", fault
    if submission.place_within is not None and not 0 < submission.place_within <= MAX_SECONDS:
        yield "place_within", f"found {submission.place_within:g}; send seconds above 0"
    if submission.delay is not None and submission.not_before is not None:
        yield "delay", "found beside not_before; send one of the two"


def _unique_faults(submission: Submission, unique: Unique) -> Iterator[tuple[str, str]]:
    yield from unique_faults(unique)
    if submission.unique_key is not None:
        yield "unique", "found beside unique_key; send one of the two"
    has_time = submission.delay is not None or submission.not_before is not None
    if unique.then == Then.POSTPONE and not has_time:
        yield "unique.then", "found postpone without delay or not_before; send one of the two"
