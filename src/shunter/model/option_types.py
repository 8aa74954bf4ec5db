"""Options whose values are of another type than they must be, each with what to pass instead.

Python lets anything be passed. What is of the right type and out of range is refused elsewhere
(`limits.py`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from shunter.model.job import Callback
from shunter.model.retry import Retry
from shunter.model.unique import Unique


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return type(value) is int


def _are_texts(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(each, str) for each in values)


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


_SECONDS = (_is_number, "pass seconds, a number")
_NUMBER = (_is_number, "pass a number")
_WHOLE = (_is_whole, "pass a whole number")
_TEXT = (_is(str), "pass text")
_FLAG = (_is(bool), "pass True or False")

_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("timeout", "delay", "not_before", "expires_in"), _SECONDS),
    **dict.fromkeys(("retry.delay", "retry.max_delay", "unique.within"), _SECONDS),
    **dict.fromkeys(("retry.factor", "retry.jitter"), _NUMBER),
    **dict.fromkeys(("priority", "retry.limit"), _WHOLE),
    **dict.fromkeys(("unique_key", "workflow", "run", "traceparent", "effects"), _TEXT),
    **dict.fromkeys(("unique.key", "unique.during", "unique.then"), _TEXT),
    **dict.fromkeys(("reply", "retry.on_timeout"), _FLAG),
    "retry.on": (_are_texts, "name classes of exceptions: Retry(on=(ValueError,))"),
    "retry.never": (_are_texts, "name classes of exceptions: Retry(never=(ValueError,))"),
    "retry": (_is(Retry), "pass Retry(limit={value!r}), from shunter"),
    "unique": (_is(Unique), 'pass such as Unique("key", within=3600), from shunter'),
    "callback": (_is(Callback), "pass a URL"),
}


def option_type_faults(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield which options are of the wrong type, and what to pass; None is none at all."""
    for field, value in options.items():
        if value is None or field not in _KINDS:
            continue
        is_right, remedy = _KINDS[field]
        if not is_right(value):
            yield field, f"found {value!r}; {remedy.format(value=value)}"
        elif isinstance(value, Retry | Unique):
            inner = {f"{field}.{name}": getattr(value, name) for name in value.__struct_fields__}
            yield from option_type_faults(inner)
