"""What makes a submission acceptable, and the job it becomes. Pure.

Every refusal names the field, what was found, and what to send instead.
"""

from __future__ import annotations

from typing import NoReturn

from msgspec import Struct

from shunter.errors import JobRefused
from shunter.model.callback_hosts import AllowedHosts, allowed_hosts
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.job import Callback, Execution, Job, ReplyTo
from shunter.model.limits import MAX_SECONDS, moment_fault, option_faults
from shunter.model.worker import Handler
from shunter.wire.frames import DOCUMENT_BYTES, is_document
from shunter.wire.messages import Submission
from shunter.wire.udp.naming import NOTICE_SECONDS, notice_url

MAX_KEY_LENGTH = 512


class IntakeRules(Struct, frozen=True, kw_only=True):
    """The limits of what is accepted."""

    max_payload_bytes: int = 16 * 1024 * 1024
    refuse_unknown_types: bool = False
    callback_hosts: AllowedHosts = allowed_hosts()


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
        callback=_callback(wish, reply_to),
        not_before=not_before,
        place_within=wish.place_within,
        place_by=None if wish.place_within is None else (not_before or now) + wish.place_within,
        wait_until=not_before if not_before is not None and not_before > now else None,
        unique_key=wish.unique_key,
        retry=wish.retry if wish.retry is not None else handler.retry if handler else None,
        reply_to=reply_to if wish.reply else None,
    )


def _callback(wish: Submission, reply_to: ReplyTo | None) -> Callback | None:
    """A client of UDP is called back there: that it has heard is part of the job's record."""
    if reply_to is not None and (url := notice_url(reply_to)) is not None:
        return Callback(url, grace=NOTICE_SECONDS)
    return None if wish.callback is None else Callback(wish.callback.url)


def _check(wish: Submission, rules: IntakeRules) -> None:
    def refuse(field: str, message: str) -> NoReturn:
        raise JobRefused(wish.id if is_name(wish.id) else "(unnamed)", field, message)

    if not is_name(wish.id):
        refuse("id", f"found {wish.id[:64]!r}; send {NAME_RULE}")
    if not is_name(wish.type):
        refuse("type", f"found {wish.type[:64]!r}; send {NAME_RULE}")
    if len(wish.payload) > rules.max_payload_bytes + DOCUMENT_BYTES:
        refuse(
            "payload",
            f"{len(wish.payload):,} bytes; at most {rules.max_payload_bytes:,} are accepted "
            "(zmq.max_message_bytes); store the data elsewhere and send its address",
        )
    if not is_document(wish.payload):
        refuse("payload", f"{len(wish.payload):,} bytes that are not one msgpack value; send one")
    for field, reason in option_faults(
        priority=wish.priority, timeout=wish.timeout, retry=wish.retry
    ):
        refuse(field, reason)
    if wish.delay is not None and not 0 <= wish.delay <= MAX_SECONDS:
        refuse("delay", f"found {wish.delay}; send 0 to {MAX_SECONDS:.0f} seconds")
    if wish.not_before is not None and (fault := moment_fault(wish.not_before)):
        refuse("not_before", fault)
    if wish.place_within is not None and not 0 < wish.place_within <= MAX_SECONDS:
        refuse("place_within", f"found {wish.place_within:g}; send seconds above 0")
    if wish.delay is not None and wish.not_before is not None:
        refuse("delay", "found beside not_before; send one of the two")
    if wish.callback is not None and (fault := rules.callback_hosts.fault(wish.callback.url)):
        refuse("callback.url", fault)
    for field in ("unique_key", "workflow", "run"):
        text = getattr(wish, field)
        if text is not None and not 1 <= len(text) <= MAX_KEY_LENGTH:
            refuse(field, f"{len(text)} characters; send 1 to {MAX_KEY_LENGTH}")
