"""Threads of a handler in a sandbox: they belong to its run, as those of a worker's process do.

Context variables don't follow threads. So while a sandbox runs a handler, a `threading.Thread` that
it starts, and what it hands to a `ThreadPoolExecutor`, are given those of the sandbox: clients that
they open reach it, and their sleeps are virtual. The handler's context is not: a worker does not
give it to them either. Whoever else starts threads meanwhile is left alone, as are threads of an
executor that others made and also use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from shunter.client.session_opener import session_opener
from shunter.context import Context, Terminated
from shunter.testing.shared_patch import SharedPatch
from shunter.testing.virtual_time import has_waited, sleeps_here, thread_time


class _HandingOver(threading.local):
    is_on = False
    """True while an executor is given work: the threads that it starts then are not followed."""


_handing_over = _HandingOver()


run_here: ContextVar[Context | None] = ContextVar("shunter_sandbox_run", default=None)
"""The run that the caller belongs to, also in a thread of its handler."""

GIVEN: tuple[ContextVar[Any], ...] = (session_opener, sleeps_here, run_here)


def is_sandboxed() -> bool:
    """True if clients that are opened here reach a sandbox."""
    return session_opener.get() is not None


def _followed(work: Callable[..., Any], *, is_waited_for: bool = True) -> Callable[..., Any]:
    """Return the same, to be done in another thread but in this sandbox, from this time on."""
    given = [(variable, variable.get()) for variable in GIVEN]
    time = thread_time(moves_clock=is_waited_for)

    def do(*args: Any, **kwargs: Any) -> Any:
        tokens = [(variable, variable.set(value)) for variable, value in given]
        try:
            with time():
                return work(*args, **kwargs)
        finally:
            for variable, token in tokens:
                variable.reset(token)

    return do


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def start_followed(thread: threading.Thread) -> None:
        if _handing_over.is_on or thread.ident is not None or not is_sandboxed():
            start(thread)
            return
        run = _followed(thread.run, is_waited_for=not thread.daemon)

        def run_to_the_deadline() -> None:
            vars(thread).pop("run", None)
            with suppress(Terminated):  # which ends the run: nobody need see it in a traceback
                run()

        thread.run = run_to_the_deadline  # type: ignore[method-assign]
        start(thread)

    return start_followed


def _submitting(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    def submit_followed(
        executor: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if not is_sandboxed():
            return submit(executor, work, *args, **kwargs)
        before, _handing_over.is_on = _handing_over.is_on, True
        try:
            return submit(executor, _followed(work), *args, **kwargs)
        finally:
            _handing_over.is_on = before

    return submit_followed


def _making(init: Callable[..., None]) -> Callable[..., None]:
    def init_followed(
        executor: ThreadPoolExecutor,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if initializer is not None and is_sandboxed():
            initializer = _followed(initializer)
        init(executor, max_workers, thread_name_prefix, initializer, *args, **kwargs)

    return init_followed


def _waiting(wait: Callable[..., Any]) -> Callable[..., Any]:
    def wait_followed(*args: Any, **kwargs: Any) -> Any:
        try:
            return wait(*args, **kwargs)
        finally:
            has_waited()

    return wait_followed


following_threads = SharedPatch(
    (threading.Thread, "start", _starting),
    (threading.Thread, "join", _waiting),
    (Future, "result", _waiting),
    (ThreadPoolExecutor, "submit", _submitting),
    (ThreadPoolExecutor, "__init__", _making),
)
"""Use it with `with` around what runs in the context of a handler."""
