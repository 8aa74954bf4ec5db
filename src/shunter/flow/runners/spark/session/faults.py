"""Errors of the user's code, on their way from a task through Spark to who has started the run.

Spark wraps what a task raises into pages of text; between two marks in it is the error itself.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from shunter.errors import FlowError, FlowFailed
from shunter.flow.runners.spark.session.memory_faults import PYTHON_REMEDY, memory_fault
from shunter.flow.runtime.bad_events import users_traceback

_MARKED = re.compile(r"shunter-fault\[([A-Za-z0-9+/=]*)\]")

_CAUSE = "Caused by: "
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


class TaskFault(Exception):
    """Carries a FlowError in its text, for people and for `plain_faults`."""

    def __init__(self, error: FlowError) -> None:
        written = msgspec.msgpack.encode([str(error), error.stage, error.place])
        super().__init__(f"{error}\nshunter-fault[{base64.b64encode(written).decode()}]")


@contextmanager
def marked_faults(stages: str) -> Iterator[None]:
    """Let what is raised in here be found again; `stages` says whose fault it may be."""
    try:
        yield
    except FlowError as error:
        raise TaskFault(_with_remedy(error, error.__cause__)) from None
    except Exception as error:
        said = f"in {stages}: {type(error).__name__}: {error}\n{users_traceback(error)}"
        raise TaskFault(_with_remedy(FlowError(said), error)) from None


def _with_remedy(fault: FlowError, cause: BaseException | None) -> FlowError:
    if not isinstance(cause, MemoryError):
        return fault
    told = FlowError(f"{fault}\n{PYTHON_REMEDY}")
    told.stage, told.place = fault.stage, fault.place
    return told


@contextmanager
def plain_faults() -> Iterator[None]:
    """Let a FlowError come out of Spark's pages: the user's own, or one that says what they say."""
    try:
        yield
    except FlowError:
        raise
    except Exception as error:
        pages = str(error)
        raise fault_in(pages) or memory_fault(pages) or _spark_failed(error) from error


def fault_in(pages: str) -> FlowFailed | None:
    """Return the fault that a task has raised, if that is what Spark tells about."""
    found = _MARKED.search(pages)
    if found is None:
        return None
    text, stage, place = msgspec.msgpack.decode(base64.b64decode(found[1]))
    fault = FlowFailed(text)
    fault.stage, fault.place = stage, place
    return fault


def _spark_failed(error: Exception) -> FlowFailed:
    if (missing := _MISSING.search(str(error))) is not None:
        return FlowFailed(
            f"Spark's Python processes have no module {missing[1]!r}; install it on every host, or "
            "let PYSPARK_PYTHON name a Python that has it, before the session is started"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    said = [*lines[:1], *causes][-1] if lines else type(error).__name__
    return FlowFailed(
        f"Spark could not run the flow: {said}; nothing was published, so mend it and run it again"
    )
