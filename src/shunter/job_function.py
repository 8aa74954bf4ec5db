"""A function that is also a type of job, and what editors and type checkers know about it.

What `@app.job` returns has two signatures: how the function is called here, and how it is
submitted, which leaves out what Shunter fills in: a first parameter annotated with `Context`, and
parameters whose default is `PROVIDED`. A coroutine's result is what it returns when awaited.
Must not know processes, sockets or event loops. How arguments travel is in `payload.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_type_hints, overload

import msgspec

from shunter.codec import Codec
from shunter.context import Context
from shunter.errors import AppError
from shunter.model.retry import Retry
from shunter.model.worker import Handler
from shunter.payload import NOTHING, Arguments, Parameters

P = ParamSpec("P")
R = TypeVar("R")
CallP = ParamSpec("CallP")
CallR = TypeVar("CallR")

_decode = msgspec.msgpack.Decoder().decode


class JobFunction(Generic[P, R]):
    """A function that is also a type of job, submitted with `P` and ending with an `R`."""

    def __init__(
        self,
        function: Callable[..., Any],
        handler: Handler,
        codec: Codec | None = None,
        retry: Retry | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.handler = handler
        self.codec = codec
        self.retry = retry
        self.is_async = inspect.iscoroutinefunction(function)
        self._read_result: Callable[[bytes], Any] | None = None
        self.provide(())

    @property
    def name(self) -> str:
        """The type of the jobs that this function does."""
        return self.handler.type

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.name!r}: {self.function!r}>"

    def provide(self, types: Collection[Any]) -> None:
        """Take parameters that are annotated with these types from setups, not from payloads."""
        self._parameters = Parameters(self.handler.type, self.function, types)

    @property
    def takes_context(self) -> bool:
        """True if the function is given a `Context`."""
        return self._parameters.takes_context

    def arguments(
        self, payload: bytes, context: Context, resources: Mapping[Any, Any] = NOTHING
    ) -> Arguments:
        """Read a payload as this function's arguments, or raise an AppError."""
        return self._parameters.read(payload, context, resources)

    def read_result(self, result: bytes) -> R:
        """Read a result as what the function is annotated to return, or raise an AppError."""
        if self._read_result is None:
            self._read_result = _result_reader(self.function)
        try:
            found: R = self._read_result(result)
        except msgspec.ValidationError as error:
            raise AppError(
                f"the result of {self.name!r} is not what the function is annotated to return: "
                f"{error}; correct its annotation, or submit the job by name to get plain values"
            ) from None
        return found


def _result_reader(function: Callable[..., Any]) -> Callable[[bytes], Any]:
    """Return what reads results: plain values if the annotation names no type that can be sent."""
    try:
        returned = get_type_hints(function, include_extras=True).get("return", Any)
        known = msgspec.inspect.type_info(returned)
        if isinstance(known, msgspec.inspect.CustomType):
            return _decode
        return msgspec.msgpack.Decoder(returned).decode
    except Exception:
        return _decode


class CallableJob(JobFunction[P, R], Generic[P, R, CallP, CallR]):
    """What `@app.job` returns; calling it is a plain call of the function, here and now."""

    def __call__(self, *args: CallP.args, **kwargs: CallP.kwargs) -> CallR:
        """Call the function, here and now."""
        called: CallR = self.function(*args, **kwargs)
        return called


class Anything:
    """What only a parameter that takes anything can be given, and a `Context` can't."""


class JobDecorator(Protocol):
    """What `@app.job` does to a function.

    A first parameter that takes anything (without annotation, or Any) would also take a Context:
    whether it is one can't be told, so arguments are not checked there.
    """

    @overload
    def __call__(
        self, function: Callable[Concatenate[Anything, ...], Coroutine[Any, Any, R]], /
    ) -> CallableJob[..., R, ..., Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Anything, ...], R], /
    ) -> CallableJob[..., R, ..., R]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> CallableJob[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> CallableJob[P, R, Concatenate[Context, P], R]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> CallableJob[P, R, P, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> CallableJob[P, R, P, R]: ...

    def __call__(self, function: Any, /) -> Any:
        """Declare the function as a handler."""
