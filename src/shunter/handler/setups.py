"""What a worker's child opens before its first job and closes after its last: `@app.setup`.

A setup is a generator function that yields once, a function that returns a context manager, or
the asynchronous form of either. What it yields goes to each parameter that is annotated with its
type, of handlers and of setups that are declared later. Must not know jobs or processes: whoever
opens setups says how a coroutine is run, and in which loop. asyncio is loaded only where a setup
needs it.
"""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, get_args, get_origin

from shunter.context import Context
from shunter.errors import AppError
from shunter.handler.injection import DeclaredFunction, shown_type

RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end, always on the same loop."""

_YIELDING = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
    contextlib.AbstractContextManager,
    contextlib.AbstractAsyncContextManager,
)


class Setup(DeclaredFunction):
    """One declared setup. `provides` is the type of what it yields, None where that is nothing."""

    def __init__(self, function: Callable[..., Any], known: Mapping[Any, Setup]) -> None:
        super().__init__("setup", function)
        if inspect.iscoroutinefunction(function):
            self.refuse("is a coroutine; let it yield once: it may be an async generator")
        self.provides = self._provided(self.hints().get("return", inspect.Parameter.empty))
        self.want(known, "annotate it with what a setup that is declared before it yields")
        if self.provides in known:
            other = known[self.provides]
            self.refuse(
                f"it yields {shown_type(self.provides)}, and so does setup {other.name!r} "
                f"({other.line}); give one of them a class of its own"
            )

    def manager(self, opened: Mapping[Any, Any]) -> Any:
        """Call the function, and return the context manager that it makes."""
        arguments, function = self.arguments(opened), self.function
        if inspect.isgeneratorfunction(function):
            return contextlib.contextmanager(function)(**arguments)
        if inspect.isasyncgenfunction(function):
            return contextlib.asynccontextmanager(function)(**arguments)
        made = function(**arguments)
        if not hasattr(made, "__enter__") and not hasattr(made, "__aenter__"):
            self.refuse(
                f"returned a {type(made).__name__}; yield the value, or return a context manager"
            )
        return made

    def _provided(self, returned: Any) -> Any:
        if get_origin(returned) in _YIELDING:
            kind = get_args(returned)[0]
        elif hasattr(returned, "__enter__") or hasattr(returned, "__aenter__"):
            kind = returned
        else:
            self.refuse(
                "it does not say what it yields; annotate it: "
                f"def {self.name}() -> Iterator[Database]"
            )
        if kind is type(None):
            return None
        is_argument = getattr(get_origin(kind) or kind, "__module__", "") in ("builtins", "typing")
        if is_argument or kind is Context:
            self.refuse(
                f"it yields {shown_type(kind)}, which handlers have for their arguments as well; "
                "yield an object of a class of your own"
            )
        return kind


class OpenSetups:
    """The setups of one child. `values` holds what they yielded, by type."""

    def __init__(self, setups: Sequence[Setup], run: RunCoroutine) -> None:
        self._setups, self._run = setups, run
        self._stack = contextlib.ExitStack()
        self.values: dict[Any, Any] = {}

    def open(self) -> None:
        """Open all, in the order of their declaration, or none and raise an AppError."""
        for setup in self._setups:
            try:
                value = self._entered(setup.manager(self.values))
            except BaseException as error:
                with contextlib.suppress(AppError):
                    self.close()
                if isinstance(error, AppError):
                    raise
                raise AppError(
                    f"setup {setup.name!r} ({setup.line}) could not be opened: {_raised(error)}"
                ) from error
            if setup.provides is not None:
                self.values[setup.provides] = value

    def close(self) -> None:
        """Close all, the last first, or raise an AppError that says which could not be."""
        stack, self._stack = self._stack, contextlib.ExitStack()
        self.values = {}
        try:
            stack.close()
        except BaseException as error:
            traceback.print_exc()
            raise AppError(f"a setup could not be closed: {_raised(error)}") from error

    def _entered(self, manager: Any) -> Any:
        if hasattr(manager, "__enter__"):
            return self._stack.enter_context(manager)
        from shunter.handler.async_setup import AsyncSetup

        owner = AsyncSetup(manager)
        value = self._run(owner.open())
        self._stack.callback(lambda: self._run(owner.close()))
        return value


def _raised(error: BaseException) -> str:
    line = _innermost(error.__traceback__)
    where = f" (raised at {line})" if line else ""
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


def _innermost(trace: TracebackType | None) -> str:
    """Return the last line of the user's own that led to an error; libraries' are no help."""
    own, libraries = "", (str(Path(__file__).parent), sys.prefix, sys.base_prefix)
    for frame, line in traceback.walk_tb(trace):
        if not frame.f_code.co_filename.startswith(libraries):
            own = f"{Path(frame.f_code.co_filename).name}:{line}"
    return own
