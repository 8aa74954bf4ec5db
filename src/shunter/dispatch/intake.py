"""What makes a submission acceptable, and the job it becomes. Pure.

Every refusal names the field, what was found, and what to send instead.
"""

from __future__ import annotations

import math

from msgspec import Struct

from shunter.errors import JobRefused
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.job import Execution, Job, ReplyTo
from shunter.model.queueing import PRIORITY_LIMIT
from shunter.model.worker import Handler
from shunter.wire.frames import is_document
from shunter.wire.messages import Submission

MAX_DELAY_SECONDS = 10 * 365 * 86400.0
MAX_KEY_LENGTH = 512


class IntakeRules(Struct, frozen=True, kw_only=True):
    """The limits of what is accepted."""

    max_payload_bytes: int = 16 * 1024 * 1024
    refuse_unknown_types: bool = False


def admit(
    wish: Submission,
    *,
    rules: IntakeRules,
    handler: Handler | None,
    known_types: set[str],
    reply_to: ReplyTo | None,
    now: float,
) -> Job:
    """Turn a submission into a queued job, or raise JobRefused."""
    _check(wish, rules)
    if rules.refuse_unknown_types and wish.type not in known_types:
        served = ", ".join(sorted(known_types)) or "none yet"
        raise JobRefused(
            wish.id, "type", f"no worker does {wish.type!r}; types that are served: {served}"
        )
    not_before = wish.not_before if wish.delay is None else now + wish.delay
    timeout = wish.timeout
    priority = wish.priority
    if handler is not None:
        timeout = handler.timeout if timeout is None else timeout
        priority = handler.priority if priority is None else priority
    return Job(
        id=wish.id,
        type=wish.type,
        payload=wish.payload,
        created=now,
        updated=now,
        priority=priority or 0,
        workflow=wish.workflow,
        run=wish.run,
        execution=Execution(timeout=timeout),
        callback=wish.callback,
        not_before=not_before,
        wait_until=not_before if not_before is not None and not_before > now else None,
        unique_key=wish.unique_key,
        retry=wish.retry if wish.retry is not None else handler.retry if handler else None,
        reply_to=reply_to if wish.reply else None,
    )


def _check(wish: Submission, rules: IntakeRules) -> None:
    def refuse(field: str, message: str) -> None:
        raise JobRefused(wish.id if is_name(wish.id) else "(unnamed)", field, message)

    if not is_name(wish.id):
        refuse("id", f"found {wish.id[:64]!r}; send {NAME_RULE}")
    if not is_name(wish.type):
        refuse("type", f"found {wish.type[:64]!r}; send {NAME_RULE}")
    if len(wish.payload) > rules.max_payload_bytes:
        refuse(
            "payload",
            f"{len(wish.payload):,} bytes; at most {rules.max_payload_bytes:,} are accepted "
            "(zmq.max_message_bytes); store the data elsewhere and send its address",
        )
    if not is_document(wish.payload):
        refuse("payload", f"{len(wish.payload):,} bytes that are not one msgpack value; send one")
    if wish.priority is not None and abs(wish.priority) > PRIORITY_LIMIT:
        refuse("priority", f"found {wish.priority}; send -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}")
    if wish.timeout is not None and not 0 < wish.timeout < math.inf:
        refuse("timeout", f"found {wish.timeout}; send seconds above 0, or nothing")
    for field, value in (("delay", wish.delay), ("not_before", wish.not_before)):
        if value is not None and not math.isfinite(value):
            refuse(field, f"found {value}; send a finite number of seconds")
    if wish.delay is not None and not 0 <= wish.delay <= MAX_DELAY_SECONDS:
        refuse("delay", f"found {wish.delay}; send 0 to {MAX_DELAY_SECONDS:.0f} seconds")
    if wish.delay is not None and wish.not_before is not None:
        refuse("delay", "found beside not_before; send one of the two")
    if wish.unique_key is not None and not 1 <= len(wish.unique_key) <= MAX_KEY_LENGTH:
        refuse("unique_key", f"{len(wish.unique_key)} characters; send 1 to {MAX_KEY_LENGTH}")
    _check_retry(wish, refuse)


def _check_retry(wish: Submission, refuse: object) -> None:
    retry = wish.retry
    if retry is None:
        return
    assert callable(refuse)
    if not 0 <= retry.limit <= 1_000_000:
        refuse("retry.limit", f"found {retry.limit}; send 0 to 1000000")
    if not (0 <= retry.delay < math.inf and 0 <= retry.max_delay < math.inf):
        refuse("retry.delay", f"found {retry.delay}, {retry.max_delay}; send seconds from 0")
    if not (1 <= retry.factor <= 1000 and 0 <= retry.jitter <= 1):
        refuse(
            "retry.factor",
            f"found {retry.factor} with jitter {retry.jitter}; send a factor "
            "from 1 to 1000 and a jitter from 0 to 1",
        )
