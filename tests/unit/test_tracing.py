"""Traces go from a client's span into the handler, and cost nothing where nobody traces."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from shunter import App, Client
from shunter.dispatch.arrivals import NOBODY
from shunter.dispatch.intake import IntakeRules, admit
from shunter.errors import JobRefused
from shunter.model.submission import Submission
from shunter.testing import Sandbox
from shunter.tracing import current_traceparent, traced
from shunter.wire.messages import Assignment
from shunter.worker.pool.executor import Executor
from shunter.worker.run_seal import RunSeal

ORIGIN = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture(scope="module")
def trace() -> Any:
    """OpenTelemetry, loaded when it is asked for: other tests here go without."""
    return pytest.importorskip("opentelemetry.trace")


@pytest.fixture(scope="module")
def exporter(trace: Any) -> Any:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    made = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter: Any) -> Any:
    exporter.clear()
    return exporter.get_finished_spans


def assignment(attempt: int, traceparent: str | None = ORIGIN) -> Assignment:
    return Assignment("j", attempt, "one", b"\xc0", None, None, traceparent=traceparent)


app = App()


@app.job
def one() -> str | None:
    return current_traceparent()


@app.job
async def two() -> str | None:
    await asyncio.sleep(0)
    return current_traceparent()


def test_who_does_not_trace_imports_nothing() -> None:
    code = (
        "import sys; from shunter import App, Client; import shunter.worker.pool.executor\n"
        "from shunter.tracing import current_traceparent\n"
        "sys.exit(current_traceparent() is not None or 'opentelemetry' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_first_run_is_below_the_submitters_span(spans: Any, trace: Any) -> None:
    inside = traced(one, assignment(1)).function()

    [span] = spans()
    assert (span.name, span.kind) == ("job one", trace.SpanKind.CONSUMER)
    assert f"{span.context.trace_id:032x}" == "a" * 32
    assert f"{span.parent.span_id:016x}" == "b" * 16
    assert span.attributes["shunter.job.id"] == "j"
    assert not span.links
    assert inside == f"00-{'a' * 32}-{span.context.span_id:016x}-01"


def test_a_retry_is_a_root_with_a_link(spans: Any, trace: Any) -> None:
    with trace.get_tracer("test").start_as_current_span("outer"):
        asyncio.run(traced(two, assignment(2)).function())

    span = spans()[0]
    assert span.parent is None
    assert [f"{link.context.span_id:016x}" for link in span.links] == ["b" * 16]
    assert span.attributes["shunter.job.attempt"] == 2


def test_a_job_that_came_without_a_span_gets_a_root(spans: Any) -> None:
    traced(one, assignment(1, None)).function()

    assert (spans()[0].parent, list(spans()[0].links)) == (None, [])


def test_a_worker_runs_handlers_within_spans(spans: Any) -> None:
    executor = Executor.__new__(Executor)
    executor._app = app
    executor._setups = SimpleNamespace(values={})  # type: ignore[assignment]
    job = assignment(1)

    call = executor.prepared(job, b"\xc0", object(), RunSeal(app, "j", "one"))  # type: ignore[arg-type]

    function, args, kwargs = call  # type: ignore[misc]
    assert function.function(*args, **kwargs).startswith(f"00-{'a' * 32}-")
    assert len(spans()) == 1


def test_a_client_takes_the_span_of_its_callers_thread(spans: Any, trace: Any) -> None:
    inner = App()

    @inner.job
    def last() -> None: ...

    @inner.job
    def first() -> list[str | None]:
        with Client() as client:
            plain = client.submit("last")
            with trace.get_tracer("test").start_as_current_span("caller"):
                current = current_traceparent()
                within = client.submit("last")
            return [plain.id, within.id, current]

    with Sandbox(inner) as sandbox:
        plain, within, current = sandbox.submit(first).result()
        assert sandbox.job(plain).traceparent is None
        assert sandbox.job(within).traceparent == current
        assert current


@pytest.mark.parametrize(
    "text", ["", "x", f"00-{'0' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'0' * 16}-01", f"{ORIGIN}-x"]
)
def test_what_names_no_span_is_refused(text: str) -> None:
    def submitted(traceparent: str) -> Any:
        submission = Submission("j", "t", b"\xc0", traceparent=traceparent)
        return admit(
            submission, NOBODY, rules=IntakeRules(), handler=None, known_types=set(), now=1.0
        )

    assert submitted(ORIGIN).traceparent == ORIGIN
    with pytest.raises(JobRefused, match="as W3C has it") as caught:
        submitted(text)
    assert caught.value.field == "traceparent"
