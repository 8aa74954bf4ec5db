"""What in Spark's pages of text says that memory was short, and what to set then. Pure."""

from __future__ import annotations

import re

from shunter.errors import FlowFailed

_EXECUTOR = re.compile(
    r"ExecutorLostFailure.*?Reason:.*?"
    r"(?:exit(?:ed|s|ing)?(?: with)?(?: status| code)*:? *(?P<code>137|52)\b"
    r"|(?P<why>\S[^.\n]*(?:exceeding|memory limits|OOMKilled|out of memory)[^.\n]*))",
    re.DOTALL | re.IGNORECASE,
)
_CERTAIN = re.compile(
    r"ExecutorLostFailure.*?Reason:.*?"
    r"(?:exit(?:ed|s|ing)?(?: with)?(?: status| code)*:? *(?P<code>52)\b"
    r"|(?P<why>\S[^.\n]*(?:exceeding (?:physical|virtual) memory limits|OOMKilled)[^.\n]*))",
    re.DOTALL | re.IGNORECASE,
)
"""How executors end of memory and nothing else: Spark's own exit code, YARN's and Kubernetes' word.

Code 137 is whoever kills: the system for want of memory, or a host that is taken away."""

_WORKER = re.compile(
    r"Python worker exited unexpectedly"
    # a reader of a source that has gone: its end has no words at all
    r"|\[STREAM_FAILED\][^\n]*terminated with exception:\s*(?:null)?\s*SQLSTATE"
    r"|\Anull\n=== Streaming Query ==="
)
_JAVA = re.compile(r"OutOfMemoryError(?:: (?P<what>[^\n]+))?")
_JAVA_FIRST = re.compile(r"\Ajava\.lang\.OutOfMemoryError(?:: (?P<what>[^\n]+))?")

_UNPUBLISHED = "Nothing was published"

PYTHON_REMEDY = (
    "Python had no memory left in a task of Spark's: let functions and states hold less, use more "
    "nodes or partitions, or raise spark.executor.pyspark.memory, which is the limit if it is set"
)
"""Added to a MemoryError of the user's functions."""


def memory_fault(pages: str) -> FlowFailed | None:
    """Return an error with what to set, if Spark tells of a want of memory; else None."""
    if (found := _EXECUTOR.search(pages)) is not None:
        return _executor_fault(found)
    if (found := _JAVA.search(pages)) is not None:
        return _java_fault(found)
    return python_process_fault(pages)


def certain_memory_fault(said: str) -> FlowFailed | None:
    """Return the same for what one task says, if nothing but memory can have ended it."""
    if (found := _CERTAIN.search(said)) is not None:
        return _executor_fault(found)
    if (found := _JAVA_FIRST.search(said)) is not None:
        return _java_fault(found)
    return None


def _executor_fault(found: re.Match[str]) -> FlowFailed:
    how = f"exit code {found['code']}" if found["code"] else found["why"].strip()
    return FlowFailed(
        f"an executor of Spark's died for want of memory ({how}); give it more with "
        "spark.executor.memory (Java) and spark.executor.memoryOverhead (Python beside it), or "
        "fewer tasks at once with spark.executor.cores, or let tasks be smaller with more nodes. "
        f"{_UNPUBLISHED}"
    )


def _java_fault(found: re.Match[str]) -> FlowFailed:
    return FlowFailed(
        f"a task of Spark's ran out of memory ({found['what'] or 'Java heap space'}); give "
        "executors more with spark.executor.memory, or spark.driver.memory where Spark runs "
        f"inside this process (local[*]). {_UNPUBLISHED}"
    )


def python_process_fault(pages: str) -> FlowFailed | None:
    """Return an error with what to set, if a Python process of Spark's is gone."""
    if _WORKER.search(pages) is None:
        return None
    return FlowFailed(
        "a Python process of Spark's was killed or has crashed in one of the flow's functions. "
        "Mostly the system kills it for want of memory: let functions and states hold less, "
        "let fewer tasks run at once (--master 'local[1]', spark.executor.cores), or give it "
        "room (spark.executor.memoryOverhead on YARN and Kubernetes); with "
        "spark.executor.pyspark.memory it ends with a MemoryError and your line instead. "
        f"{_UNPUBLISHED}"
    )
