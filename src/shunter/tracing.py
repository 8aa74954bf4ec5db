"""How a trace goes on from client to handler, where a program uses OpenTelemetry.

Nothing is imported here: a program that traces has loaded OpenTelemetry itself, and for all others
a look into `sys.modules` is the whole cost. A job carries the W3C `traceparent` of its submitter.
The first run is a child of that span; a later attempt is a root of its own, with a link to it, for
a retry may come hours later. Extra: `shunter[otel]`.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.app import JobFunction
    from shunter.wire.messages import Assignment

_LIBRARY = "opentelemetry.trace"


def is_tracing() -> bool:
    """True if this program has loaded OpenTelemetry."""
    return _LIBRARY in sys.modules


def current_traceparent() -> str | None:
    """Return the span that this code runs in, as W3C writes it; None if there is none."""
    trace: Any = sys.modules.get(_LIBRARY)
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


def traced(function: JobFunction[..., Any], job: Assignment) -> JobFunction[..., Any]:
    """Return a handler that runs within a span of this run; only where `is_tracing`."""
    inner: Callable[..., Any] = function.function
    outer: Callable[..., Any]
    if function.is_async:

        @functools.wraps(inner)
        async def in_coroutine(*args: Any, **kwargs: Any) -> Any:
            with _span(job):
                return await inner(*args, **kwargs)

        outer = in_coroutine
    else:

        @functools.wraps(inner)
        def in_call(*args: Any, **kwargs: Any) -> Any:
            with _span(job):
                return inner(*args, **kwargs)

        outer = in_call
    found = copy.copy(function)
    found.function = outer
    return found


def _span(job: Assignment) -> AbstractContextManager[Any]:
    """Begin the span of a run: below its submitter's, or for a retry beside it."""
    trace: Any = sys.modules[_LIBRARY]
    origin = _remote(trace, job.traceparent)
    is_first = job.attempt == 1
    context = trace.set_span_in_context(
        trace.NonRecordingSpan(origin) if origin and is_first else trace.INVALID_SPAN
    )
    span: AbstractContextManager[Any] = trace.get_tracer("shunter").start_as_current_span(
        f"job {job.type}",
        context=context,
        kind=trace.SpanKind.CONSUMER,
        links=[trace.Link(origin)] if origin and not is_first else [],
        attributes={
            "shunter.job.id": job.job_id,
            "shunter.job.type": job.type,
            "shunter.job.attempt": job.attempt,
        },
    )
    return span


def _remote(trace: Any, traceparent: str | None) -> Any:
    """Return the span context that a traceparent names."""
    if traceparent is None:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return trace.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16)),
    )
