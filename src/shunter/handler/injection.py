"""Which parameters of a user's function are filled in by annotation, and where it stands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from shunter.errors import AppError


class DeclaredFunction:
    """A function that an app was given to call; `what` is what it was declared as."""

    def __init__(self, what: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise AppError(f"{function!r} can't be {what}; decorate a function")
        self.function = function
        self.name = getattr(function, "__name__", repr(function))
        self.line = source_line(function)
        self._what = what
        self._wants: dict[str, Any] = {}

    def want(self, allowed: Collection[Any], remedy: str) -> None:
        """Take note of all parameters, each annotated with one of these types, or refuse."""
        hints = self.hints()
        for name, parameter in inspect.signature(self.function).parameters.items():
            kind = hints.get(name)
            if kind not in allowed or parameter.kind is parameter.POSITIONAL_ONLY:
                self.refuse(f"its parameter {name!r} can't be filled in; {remedy}")
            self._wants[name] = kind

    def arguments(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Return what to call the function with."""
        return {name: values[kind] for name, kind in self._wants.items()}

    def hints(self) -> dict[str, Any]:
        """Return the function's annotations."""
        try:
            return get_type_hints(inspect.unwrap(self.function))
        except Exception as error:
            self.refuse(f"its annotations can't be resolved: {error}; import their types first")

    def refuse(self, reason: str) -> NoReturn:
        raise AppError(f"{self._what} {self.name!r} ({self.line}): {reason}")


def source_line(function: Callable[..., Any]) -> str:
    """Return where a function begins, as file:line."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return str(getattr(function, "__module__", "?"))
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def shown_type(kind: Any) -> str:
    """Return what people call a type."""
    return getattr(kind, "__qualname__", None) or str(kind)
