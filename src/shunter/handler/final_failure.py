"""What an app does when a job has failed for good: `@app.on_final_failure`.

Called in the process that ran the last attempt, when its handler has raised and no retry is left,
or when it could not even be called. After a time-out, and when that process has died, it is called
in another, once the worker has reported the end (`worker/pool/hook_calls.py`). Not for cancels, and
not for losses that only a dispatcher sees; callbacks tell of all ends. What is raised here changes
nothing.
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
    *,
    is_last_loss: bool = False,
    at_most_once: bool = False,
) -> bool:
    """True if a dispatcher will not have the job tried again, after so many earlier failures."""
    policy = job_retry or handler_retry or NO_RETRY
    match failure.kind:
        case ErrorKind.REFUSED:
            return True
        case ErrorKind.EXCEPTION:
            return failure.is_final or failures >= policy.limit
        case ErrorKind.TIMEOUT:
            return at_most_once or not policy.on_timeout or failures >= policy.limit
        case ErrorKind.LOST:
            return is_last_loss
    return False


def tell_of_failure(
    hooks: Sequence[FinalFailureHook],
    error: BaseException,
    values: Mapping[Any, Any],
    run: RunCoroutine,
) -> None:
    """Call all hooks, in the order of their declaration, whatever any of them raises.

    `values` are what they may ask for, by type, besides the error.
    """
    for hook in hooks:
        try:
            made = hook.called(error, values)
            if inspect.iscoroutine(made):
                run(made)
        except BaseException:
            traceback.print_exc()


async def tell_of_failure_here(
    hooks: Sequence[FinalFailureHook], error: BaseException, values: Mapping[Any, Any]
) -> None:
    """Do the same in a loop that runs, in which other jobs may be at work."""
    for hook in hooks:
        try:
            made = hook.called(error, values)
            if inspect.iscoroutine(made):
                await made
        except BaseException:
            traceback.print_exc()
