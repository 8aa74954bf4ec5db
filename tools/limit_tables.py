"""The tables of limits in docs/spec/, from the constants that are kept to."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.client import session
from shunter.dispatch import limit_changes, schedule_book, tick_sweep
from shunter.dispatch.rules import UNSENT_BYTES
from shunter.gateway.zmq import frontend, large_messages, questions
from shunter.model import job_limits, limits, schedule, timing
from shunter.model.document import DOCUMENT_BYTES
from shunter.model.identity import NAME_RULE
from shunter.model.queue_order import PRIORITY_LIMIT
from shunter.model.worker import MAX_WORKERS
from shunter.net import connections, descriptors, transport, unsent_bytes
from shunter.settings import Settings
from shunter.store.port import CLAIM_BYTES
from shunter.wire.introduction import MAX_SLOTS
from shunter.worker.zmq import connection

LIMIT_HEAD = ("what", "limit")


def limit_rows() -> Iterator[tuple[str, str]]:
    """Yield what is limited, and how."""
    largest = f"`zmq.max_message_bytes` ({_size(Settings().zmq.max_message_bytes)})"
    years = f"{limits.MAX_SECONDS / 365 / 86400:.0f} years"
    yield "id of a job or worker, type", NAME_RULE.replace("_ . : @ / -", "`_ . : @ / -`")
    yield (
        "payload",
        f"one msgpack value, of {largest} plus {DOCUMENT_BYTES} bytes for its wrapping; another "
        "one is refused with the reason",
    )
    yield (
        "result of a handler",
        "`zmq.max_message_bytes`, as the worker has it set; a larger one fails the run as "
        "`refused`, in the worker",
    )
    yield (
        "one frame",
        "2 × `zmq.max_message_bytes` + 1 MiB; ZeroMQ closes the connection of a peer that sends "
        "more, without a word",
    )
    yield "`priority`, of a job or a handler", f"-{PRIORITY_LIMIT} to {PRIORITY_LIMIT}"
    yield "`timeout`, likewise", f"above 0, at most {years}"
    yield (
        "`retry`, likewise",
        f"`limit` 0 to {limits.MAX_RETRIES:,}; `delay`, `max_delay` 0 to {years}; `factor` 1 to "
        f"{limits.MAX_FACTOR}; `jitter` 0 to 1",
    )
    yield "`delay`", f"0 to {years}"
    yield "`not_before`", f"0 to {limits.MAX_MOMENT:,.0f} seconds since 1970"
    yield "`unique_key`, `workflow`, `run`", f"1 to {limits.MAX_KEY_LENGTH} characters"
    yield (
        "`keys`",
        f"{job_limits.MAX_KEYS}; names of {job_limits.KEY_NAME_RULE}; values of 1 to "
        f"{job_limits.MAX_VALUE_LENGTH} printable characters",
    )
    yield (
        "`limits` of a handler",
        f"`at_once`, `total` 1 to {job_limits.MAX_PLACES:,}; `count` 1 to {job_limits.MAX_RATE:,} "
        f"in {job_limits.MIN_PER_SECONDS:g} to {job_limits.MAX_PER_SECONDS:,.0f} seconds",
    )
    yield "`max_jobs` of a worker", f"1 to {MAX_SLOTS:,}"
    yield (
        "ids in a FETCH or LIST, `limit`",
        f"{questions.MAX_LISTED}; ids beyond are not looked at",
    )
    yield (
        "questions (FETCH, LIST, WORKERS, STATUS, LIMITS) that wait",
        f"{questions.BOUNDS.peer_count} and {_size(questions.BOUNDS.peer_bytes)} of one client, "
        f"{questions.BOUNDS.count:,} and {_size(questions.BOUNDS.bytes)} together; then BUSY",
    )
    yield (
        "an answer to WORKERS, STATUS or LIMITS",
        f"{_size(questions.LIST_BYTES)} of workers, the first by id; {questions.MAX_COUNTS:,} "
        f"counts; {limit_changes.MOST_LANES:,} lanes, those with the most jobs",
    )
    yield (
        "workers that one dispatcher lets in",
        f"{MAX_WORKERS:,}, one for each connection of the full level",
    )
    yield (
        "connections of one listener",
        f"{connections.MAX_CONNECTIONS:,}, or a quarter of the files that the process may open "
        f"beside {descriptors.SPARE_DESCRIPTORS}; a newcomer takes the place of who never spoke, "
        "else of who has been silent the longest",
    )
    yield (
        "time to greet on a new connection",
        f"{connections.HANDSHAKE_MILLISECONDS // 1000} s",
    )
    yield (
        "bytes on one connection that became no message yet",
        f"one frame and 1 MiB, or {transport.RECEIVED_AHEAD + 1} while clients are not read; "
        f"{_size(connections.UNREAD_BYTES)} for all, or two frames if that is more; then the "
        "connection is cut off",
    )
    yield (
        "frames of a message",
        f"{transport.FRAMES_AT_MOST}; more are thrown away",
    )
    yield (
        "one frame to a worker; to a client",
        f"{_size(connection.MAX_MESSAGE_BYTES)}; {_size(session.MAX_MESSAGE_BYTES)}",
    )
    yield (
        "messages that wait for one peer",
        "`zmq.high_water_mark`; what does not fit counts as not sent",
    )
    yield (
        "what ZeroMQ has not sent yet",
        f"{_size(unsent_bytes.UNSENT_BYTES_PER_PEER)} for one peer, "
        f"{_size(unsent_bytes.UNSENT_WHOLE_BYTES)} for all of frames above "
        f"{_size(unsent_bytes.WHOLE_BYTES)}, {_size(unsent_bytes.UNSENT_BYTES_TOGETHER)} for all; "
        "likewise",
    )
    yield (
        "messages in parts: submissions that are on their way or not yet committed",
        f"{_size(frontend.INCOMING_BYTES)} for all clients; results of workers: another "
        f"{_size(large_messages.INCOMING_BYTES)}",
    )
    yield (
        "submissions in one piece that are not yet committed",
        f"{_size(frontend.WHOLE_INCOMING_BYTES)}; then clients are not read until there is room",
    )
    yield (
        "results in parts that wait for clients",
        f"{_size(frontend.OUTGOING_BYTES)} for all; what does not fit may be fetched",
    )
    yield (
        "jobs in parts that wait for workers",
        f"{_size(UNSENT_BYTES)} for all; while there is more, no job is started",
    )
    yield (
        "payloads of waiting jobs that one turn takes from the store",
        f"{_size(CLAIM_BYTES)}, and up to one job more for each set of types that workers do",
    )


def schedule_limit_rows() -> Iterator[tuple[str, str]]:
    """Yield what is limited about schedules, and how."""
    yield "schedules in one store", f"{schedule_book.MAX_SCHEDULES:,}"
    yield (
        "the payload of its jobs",
        f"{_size(schedule.MAX_PAYLOAD_BYTES)}; of those that apps declare, which is a call without "
        f"arguments, {_size(schedule.MAX_DECLARED_BYTES)}",
    )
    yield (
        "an interval",
        f"{timing.LEAST_SECONDS:g} s to {timing.MOST_SECONDS / 86400:g} days",
    )
    yield "the text of a calendar, the name of a zone", f"{timing.MOST_CHARACTERS} characters"
    yield "`jitter`", f"0 to {schedule.MAX_JITTER_SECONDS / 86400:g} day"
    yield "ticks of one backfill", f"{schedule.MOST_BACKFILLED:,}"
    yield (
        "ticks decided on at once",
        f"{schedule.MOST_TICKS} of one schedule, {tick_sweep.TICKS_AT_ONCE:,} of all; more follow "
        "at once",
    )


def _size(count: int) -> str:
    unit, name = (1 << 20, "MiB") if count >= 1 << 20 else (1 << 10, "KiB")
    return f"{count // unit} {name}"
