"""What an app does around each call of a handler: `@app.around`.

An around is a generator function, plain or asynchronous, that yields once: there the handler
runs. The yield gives it what the handler returned, or raises what the handler raised. It can't
make a failure a success: an error that it swallows counts all the same, and one that it raises
counts in its place. The first that was declared is the outermost.

The passage through all of them is written once, as a generator that asks its driver to make the
call, and to await what an asynchronous around gives: so a plain handler is never called inside a
running loop, and a coroutine is awaited in one task with all that surrounds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from typing import Any

from shunter.context import Context
from shunter.handler.injection import DeclaredFunction
from shunter.handler.setups import RunCoroutine

Passage = Generator[Awaitable[Any] | None, Any, Any]
"""Yields None where the handler is to be called, and else what is to be awaited."""


class Around(DeclaredFunction):
    """One declared around."""

    def __init__(self, function: Callable[..., Any], provided: Collection[Any]) -> None:
        super().__init__("around", function)
        self.is_async = inspect.isasyncgenfunction(function)
        if not self.is_async and not inspect.isgeneratorfunction(function):
            self.refuse("it does not yield; let it yield once, where the handler runs")
        self.want(
            {Context, *provided},
            "annotate it with Context, or with what a setup that is declared before yields",
        )

    @property
    def takes_context(self) -> bool:
        """True if the function is given a `Context`."""
        return Context in self._wants.values()

    def passage(self, values: Mapping[Any, Any], inner: Passage) -> Passage:
        """Go in, through `inner`, and out."""
        generator = self.function(**self.arguments(values))
        yield from self._step(generator, "send", None, is_entry=True)
        try:
            value = yield from inner
        except BaseException as error:
            yield from self._step(generator, "throw", error)
            raise
        yield from self._step(generator, "send", value)
        return value

    def _step(
        self, generator: Any, how: str, what: Any, *, is_entry: bool = False
    ) -> Generator[Awaitable[Any], Any, None]:
        """Let the function go on; after the entry that must be its end."""
        try:
            if self.is_async:
                yield getattr(generator, f"a{how}")(what)
            else:
                getattr(generator, how)(what)
        except (StopIteration, StopAsyncIteration):
            if is_entry:
                self.refuse("it ended before it yielded; let it yield once, in any case")
            return
        except BaseException as error:
            if error is not what:
                raise
            return  # it let the handler's own error pass
        if not is_entry:
            if self.is_async:
                yield generator.aclose()
            else:
                generator.close()
            self.refuse("it yielded twice; a handler is called once")


def call_through(
    arounds: Sequence[Around],
    function: Callable[..., Any],
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    values: Mapping[Any, Any],
    run: RunCoroutine,
) -> Any:
    """Call a handler through all arounds; `values` are what they may ask for, by type."""
    args, kwargs = arguments
    if inspect.iscoroutinefunction(function):
        return run(awaited_through(arounds, function, arguments, values))
    passage = _passage(arounds, values)

    def perform(wanted: Awaitable[Any] | None) -> Any:
        if wanted is not None:
            return run(_awaited(wanted))
        made = function(*args, **kwargs)
        return run(made) if inspect.iscoroutine(made) else made

    wanted: Any = None
    step: Callable[[Any], Any] = passage.send
    while True:
        try:
            asked = step(wanted)
        except StopIteration as end:
            return end.value
        try:
            wanted, step = perform(asked), passage.send
        except BaseException as error:
            wanted, step = error, passage.throw


def _passage(arounds: Sequence[Around], values: Mapping[Any, Any]) -> Passage:
    passage = _innermost()
    for around in reversed(arounds):
        passage = around.passage(values, passage)
    return passage


def _innermost() -> Passage:
    return (yield None)


async def _awaited(wanted: Awaitable[Any]) -> Any:
    return await wanted


async def awaited_through(
    arounds: Sequence[Around],
    function: Callable[..., Any],
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    values: Mapping[Any, Any],
) -> Any:
    """Await an `async def` handler through all arounds, in one task."""
    args, kwargs = arguments
    passage = _passage(arounds, values)
    wanted: Any = None
    step: Callable[[Any], Any] = passage.send
    while True:
        try:
            asked = step(wanted)
        except StopIteration as end:
            return end.value
        try:
            wanted = await (function(*args, **kwargs) if asked is None else asked)
            step = passage.send
        except BaseException as error:
            wanted, step = error, passage.throw
