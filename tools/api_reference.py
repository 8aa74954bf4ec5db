"""The reference of the Python interface, from signatures and docstrings: docs/api.md."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from typing import Any

import shunter
import shunter.testing
from shunter.client.limits import Limits
from shunter.client.options import JobOptions
from shunter.client.runs import WorkflowRuns
from shunter.client.schedules import Schedules
from shunter.client.workflow import Workflow
from shunter.model.explanation import Explanation
from shunter.model.limits_record import TypeLimits
from shunter.model.parents import Parents
from shunter.model.pause import Pause
from shunter.model.run_view import RunSummary, RunView
from shunter.model.worker import Worker
from shunter.store.memory import MemoryStore

GROUPS: dict[str, tuple[str, ...]] = {
    "Apps and handlers": (
        "App", "JobFunction", "Context", "PROVIDED", "Retry", "Limit", "Rate", "Cron", "Every",
        "Fail", "Snooze", "Terminated",
    ),
    "Clients": (
        "Client", "SubmittedJob", "AsyncClient", "AsyncJob", "Unique", "UdpClient",
        "AsyncUdpClient",
    ),
    "Records": ("Job", "Status", "Schedule"),
    "Encryption": ("AesCodec", "Codec", "CodecContext"),
    "Flows": ("Flow", "Instruction"),
}  # fmt: skip

BESIDE: dict[str, tuple[type, ...]] = {
    "Apps and handlers": (Parents,),
    "Clients": (JobOptions, Schedules, Limits, Workflow, WorkflowRuns),
    "Records": (Explanation, RunView, RunSummary, TypeLimits, Pause, Worker),
}
"""What methods above take and return: the options of `with_options`, and `client.schedules`."""

PROVIDED_TEXT = (
    "The default of a parameter that nobody passes: `def handler(n: int, db: Database = PROVIDED)`."
    " Workers fill such parameters in by their annotations alone; with this default, type "
    "checkers, too, know that they can be left out of a submission."
)


def api_reference() -> str:
    """Describe every public name, by theme; what is in no theme is an error, or is missing here."""
    parts: list[str] = []
    left = set(shunter.__all__)
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _described(name, getattr(shunter, name))
        left -= set(names)
        for extra in BESIDE.get(title, ()):
            parts += _described(extra.__name__, extra)
    parts.append("## Testing\n\nFrom `shunter.testing`.")
    for name in shunter.testing.__all__:
        parts += _described(name, getattr(shunter.testing, name))
    parts.append("## Errors")
    parts.append("\n".join(_error_lines(left)))
    return "\n\n".join(parts)


def _error_lines(names: set[str]) -> Iterator[str]:
    for name in sorted(names):
        error = getattr(shunter, name)
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise SystemExit(f"tools/api_reference.py: {name} is in no group; put it into GROUPS")
        yield f"- `{name}({error.__mro__[1].__name__})`: {_text(error)}"


def _described(name: str, thing: Any) -> Iterator[str]:
    yield f"### {name}"
    if not isinstance(thing, type):
        yield PROVIDED_TEXT
        return
    if not issubclass(thing, enum.Enum) and not getattr(thing, "_is_protocol", False):
        yield f"`{name}{_signature(thing)}`"
    yield _text(thing)
    if issubclass(thing, enum.Enum):
        yield ", ".join(f"`{member.name}`" for member in thing)
    if thing is not MemoryStore and (lines := list(_members(thing))):  # the contract of stores
        yield "\n".join(lines)


def _members(owner: type) -> Iterator[str]:
    for name in _own_names(owner):
        member = inspect.getattr_static(owner, name)
        if isinstance(member, property):
            yield f"- `{name}`: {_text(member)}"
            continue
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if not inspect.isfunction(function):
            continue
        word = "async " if inspect.iscoroutinefunction(function) else ""
        yield f"- `{word}{name}{_signature(function)}`: {_text(function)}"


def _own_names(owner: type) -> list[str]:
    """Return the public methods in the order of the code, those of our own ancestors last."""
    found: dict[str, None] = {}
    for home in owner.__mro__:
        if home.__module__.startswith("shunter"):
            found |= dict.fromkeys(name for name in vars(home) if not name.startswith("_"))
    return list(found)


def _signature(thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an exception without a constructor of its own
        return ""
    kept = [each for name, each in signature.parameters.items() if name != "self"]
    shown = signature.replace(
        parameters=[each.replace(default=_Default(each.default)) for each in kept]
    )
    return str(shown).replace("'", "").replace(" -> None", "")


class _Default:
    """A default as it is to be read: without addresses, and without the fields of a struct."""

    def __new__(cls, value: Any) -> Any:
        plain = value is None or isinstance(value, int | float | tuple)
        is_shown = plain or value is inspect.Parameter.empty
        return value if is_shown else super().__new__(cls)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        kind = type(self._value)
        if isinstance(self._value, str):
            return f'"{self._value}"'
        return "PROVIDED" if kind.__name__ == "_Provided" else f"{kind.__name__}()"


def _text(thing: Any) -> str:
    """Return a docstring as one paragraph."""
    found = " ".join((inspect.getdoc(thing) or "").split())
    if not found:
        name = getattr(thing, "fget", thing)
        raise SystemExit(f"{name} is public and has no docstring; write one")
    return found
