"""What users pass to clients, checked before anything is sent: each fault names field and remedy.

Values that are of the right type and out of range are the dispatcher's to refuse. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shunter.errors import SettingsError
from shunter.model.job import Callback, Status
from shunter.model.retry import Retry
from shunter.model.spelling import did_you_mean
from shunter.wire.messages import JobsAsked

_NUMBERS = ("timeout", "delay", "not_before")
_TEXTS = ("unique_key", "workflow", "run", "traceparent")

QUERIES = tuple(field for field in JobsAsked.__struct_fields__ if field not in ("request", "parts"))


def option_type_faults(options: Any) -> Iterator[tuple[str, str]]:
    """Yield which options are of another type than they must be, and what to pass."""
    retry = options.retry
    if retry is not None and not isinstance(retry, Retry):
        yield "retry", f"found {retry!r}; pass Retry(limit={retry!r}), from shunter"
    if options.priority is not None and type(options.priority) is not int:
        yield "priority", f"found {options.priority!r}; pass a whole number"
    for field in _NUMBERS:
        value = getattr(options, field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            yield field, f"found {value!r}; pass seconds, a number"
    for field in _TEXTS:
        value = getattr(options, field)
        if value is not None and not isinstance(value, str):
            yield field, f"found {value!r}; pass text"
    if options.callback is not None and not isinstance(options.callback, Callback):
        yield "callback", f"found {options.callback!r}; pass a URL"


def checked_query(query: dict[str, Any]) -> dict[str, Any]:
    """Return what jobs to list, with the status that a word means; raise a SettingsError."""
    for name in query:
        if name not in QUERIES:
            hint = did_you_mean(name, QUERIES)
            raise SettingsError("jobs()", name, "no such filter", f"{', '.join(QUERIES)}{hint}")
    status = query.get("status")
    if status is None or isinstance(status, Status):
        return query
    return {**query, "status": _status(status)}


def _status(word: object) -> Status:
    written = word.replace("_", " ").replace("-", " ") if isinstance(word, str) else ""
    for status in Status:
        if written in (status.value, status.word):
            return status
    words = ", ".join(status.word for status in Status)
    hint = did_you_mean(written, [status.word for status in Status])
    raise SettingsError("jobs()", "status", repr(word), f"{words}{hint}")
