"""The tables of messages in docs/spec, from the structs that are sent.

A field is written as `name`, type, and its default: `[x]` is an array of x, `?` allows nil, a name
in italics is another struct.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct

from shunter.model.explanation import Explanation, Holder, LifeSpan, Reason, SmallestChange
from shunter.model.job import Callback, Failure
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.limits_record import LaneCount, LimitsChange, TypeLimits
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.model.schedule import ScheduleDraft, ScheduleTerms
from shunter.model.submission import Receipt, Submission
from shunter.model.timing import Cron, Every
from shunter.model.worker import DeclaredSchedule, Handler
from shunter.wire import messages
from shunter.wire.messages import Kind
from shunter.wire.udp.methods import METHODS, Packed

NAMES = {int: "int", float: "float", str: "text", bytes: "bytes", bool: "bool", Packed: "any value"}

Row = tuple[str, ...]

WORKER_MESSAGES: tuple[tuple[Kind, str, type[Struct]], ...] = (
    (Kind.READY, "worker", messages.Hello),
    (Kind.PING, "worker", messages.Beat),
    (Kind.PONG, "dispatcher", messages.Pong),
    (Kind.JOBS, "dispatcher", messages.Assignments),
    (Kind.RESULTS, "worker", messages.Reports),
    (Kind.TAKEN, "dispatcher", messages.Taken),
    (Kind.RETURN, "worker", messages.Returned),
    (Kind.PROGRESS, "worker", messages.Advances),
    (Kind.KEEP, "worker", messages.Keeps),
    (Kind.KEEP, "dispatcher", messages.Kept),
    (Kind.RECALL, "worker", messages.Recall),
    (Kind.RECALL, "dispatcher", messages.Recalled),
    (Kind.CANCEL, "dispatcher", messages.CancelOrders),
    (Kind.RESIGN, "worker", messages.Farewell),
    (Kind.ERROR, "dispatcher", messages.Refusal),
)
CLIENT_MESSAGES: tuple[tuple[Kind, type[Struct], Kind, type[Struct]], ...] = (
    (Kind.SUBMIT, messages.Submit, Kind.ACCEPTED, messages.Accepted),
    (Kind.CANCEL, messages.Cancel, Kind.ACCEPTED, messages.Accepted),
    (Kind.SIGNAL, messages.Signals, Kind.ACCEPTED, messages.Accepted),
    (Kind.JOURNAL, messages.JournalAsked, Kind.JOURNAL, messages.JournalShown),
    (Kind.WHY, messages.WhyAsked, Kind.WHY, messages.WhyShown),
    (Kind.PAUSE, messages.PauseOrder, Kind.ACCEPTED, messages.Accepted),
    (Kind.PAUSES, messages.BareRequest, Kind.PAUSES, messages.PausesListed),
    (Kind.FETCH, messages.Fetch, Kind.FETCH, messages.Fetched),
    (Kind.LIST, messages.JobsAsked, Kind.LIST, messages.JobsListed),
    (Kind.RUNS, messages.RunsAsked, Kind.RUNS, messages.RunsListed),
    (Kind.WORKERS, messages.BareRequest, Kind.WORKERS, messages.WorkersListed),
    (Kind.STATUS, messages.BareRequest, Kind.STATUS, messages.Standing),
    (Kind.SCHEDULES, messages.SchedulesAsked, Kind.SCHEDULES, messages.SchedulesListed),
    (Kind.SCHEDULE, messages.ScheduleOrder, Kind.SCHEDULES, messages.SchedulesListed),
    (Kind.LIMITS, messages.BareRequest, Kind.LIMITS, messages.LimitsShown),
    (Kind.SET_LIMITS, messages.SetLimits, Kind.SET_LIMITS, messages.LimitsShown),
)
UNASKED_ANSWERS: tuple[tuple[Kind, type[Struct]], ...] = (
    (Kind.RESULTS, messages.Outcomes),
    (Kind.ERROR, messages.Refusal),
    (Kind.BUSY, messages.Busy),
)
PART_MESSAGES: tuple[tuple[Kind, str, type[Struct]], ...] = (
    (Kind.OFFER, "sender", messages.Offer),
    (Kind.GRANT, "receiver", messages.Grant),
    (Kind.DECLINE, "receiver", messages.Decline),
    (Kind.PART, "sender", messages.Part),
)
WORKER_PARTS = (Held, messages.Assignment, Report, Advance)
CLIENT_PARTS = (Submission, Receipt, messages.Outcome)
MAPS = (
    Handler,
    Retry,
    Failure,
    Callback,
    DeclaredSchedule,
    ScheduleTerms,
    ScheduleDraft,
    Cron,
    Every,
    JobLimits,
    Limit,
    Rate,
    LimitsChange,
    TypeLimits,
    LaneCount,
    Explanation,
    Reason,
    SmallestChange,
    Holder,
    LifeSpan,
)


def fields_of(struct: type[Struct]) -> str:
    """List the fields of a struct, in their order."""
    hints = get_type_hints(struct, include_extras=True)
    return ", ".join(
        f"`{field.encode_name}` {type_of(hints[field.name])}{_default(field)}"
        for field in msgspec.structs.fields(struct)
    )


def type_of(hint: Any) -> str:
    """Name a type as the specification does."""
    arguments = get_args(hint)
    if hasattr(hint, "__metadata__"):
        return type_of(arguments[0])
    if get_origin(hint) in (Union, types.UnionType):
        inner = " or ".join(type_of(one) for one in arguments if one is not type(None))
        return f"{inner}?" if type(None) in arguments else inner
    if get_origin(hint) is tuple:
        inside = [type_of(one) for one in arguments if one is not Ellipsis]
        return f"[{', '.join(inside)}]"
    if get_origin(hint) is dict:
        return f"map of {type_of(arguments[0])} to {type_of(arguments[1])}"
    if get_origin(hint) is Literal or issubclass(hint, Enum):
        return "text"
    return f"*{hint.__name__}*" if issubclass(hint, Struct) else NAMES[hint]


def _default(field: msgspec.structs.FieldInfo) -> str:
    default = field.default
    if default is NODEFAULT and field.default_factory is not NODEFAULT:
        default = field.default_factory()
    if default is NODEFAULT:
        return ""
    return f" = {'nil' if default is None else msgspec.json.encode(default).decode()}"


def by_sender(sent: Iterable[tuple[Kind, str, type[Struct]]]) -> Iterable[Row]:
    return ((f"`{kind}`", sender, fields_of(body), said_of(body)) for kind, sender, body in sent)


def by_request() -> Iterable[Row]:
    for kind, request, answer_kind, answer in CLIENT_MESSAGES:
        meaning = f"{said_of(request)} {said_of(answer)}"
        yield f"`{kind}`", fields_of(request), f"`{answer_kind}`: {fields_of(answer)}", meaning
    for kind, answer in UNASKED_ANSWERS:
        yield "", "", f"`{kind}`: {fields_of(answer)}", said_of(answer)


def by_method() -> Iterable[Row]:
    return ((f"`{name}`", fields_of(params), said_of(params)) for name, params in METHODS.items())


def parts(structs: Iterable[type[Struct]]) -> Iterable[Row]:
    return ((f"*{one.__name__}*", fields_of(one), said_of(one)) for one in structs)


def said_of(struct: type[Struct]) -> str:
    """Return what the docstring says, on one line and without the kind before it."""
    text = re.sub(r"\bNone\b", "nil", " ".join((struct.__doc__ or "").split()))
    kind, colon, rest = text.partition(": ")
    return rest[:1].upper() + rest[1:] if colon and kind.isupper() else text
