"""What an app does when a job has failed for good: `@app.on_final_failure`.

Called in the process that ran the last attempt, when its handler has raised and no retry is left,
or when it could not even be called. What is raised here then changes nothing. For all other final
failures there is a job of its own that calls it (`model/final_failure.py`). Not for cancels.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from shunter.context import Context
from shunter.handler.injection import DeclaredFunction
from shunter.handler.setups import RunCoroutine
from shunter.model.job import ErrorKind, Failure
from shunter.model.retry import NO_RETRY, Retry


class FinalFailureHook(DeclaredFunction):
    """One declared function, plain or `async def`."""

    def __init__(self, function: Callable[..., Any], provided: Collection[Any]) -> None:
        super().__init__("on_final_failure", function)
        self.want(
            {Context, BaseException, Exception, *provided},
            "annotate it with Context, BaseException, or with what a setup that is declared before "
            "yields",
        )

    def called(self, error: BaseException, values: Mapping[Any, Any]) -> Any:
        """Call the function; an `async def` gives something to await."""
        known = {**values, BaseException: error, Exception: error}
        return self.function(**self.arguments(known))


def is_final_failure(
    failure: Failure,
    job_retry: Retry | None,
    handler_retry: Retry | None,
    failures: int,
) -> bool:
    """True if a dispatcher will not have the job tried again, after so many earlier failures."""
    policy = job_retry or handler_retry or NO_RETRY
    match failure.kind:
        case ErrorKind.REFUSED:
            return True
        case ErrorKind.EXCEPTION:
            return failure.is_final or failures >= policy.limit
    return False


def tell_of_failure(
    hooks: Sequence[FinalFailureHook],
    error: BaseException,
    values: Mapping[Any, Any],
    run: RunCoroutine,
) -> BaseException | None:
    """Call all hooks, in the order of their declaration, and return the first thing raised.

    `values` are what they may ask for, by type, besides the error.
    """
    first: BaseException | None = None
    for hook in hooks:
        try:
            made = hook.called(error, values)
            if inspect.iscoroutine(made):
                run(made)
        except BaseException as raised:
            first = first or raised
            traceback.print_exc()
    return first


async def tell_of_failure_here(
    hooks: Sequence[FinalFailureHook], error: BaseException, values: Mapping[Any, Any]
) -> BaseException | None:
    """Do the same in a loop that runs, in which other jobs may be at work."""
    first: BaseException | None = None
    for hook in hooks:
        try:
            made = hook.called(error, values)
            if inspect.iscoroutine(made):
                await made
        except BaseException as raised:
            first = first or raised
            traceback.print_exc()
    return first
