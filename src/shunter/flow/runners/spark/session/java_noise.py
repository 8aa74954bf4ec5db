"""What Java writes to standard error that nobody needs to read. Pure.

What users' functions and Spark itself say goes through. What Java says at each start does not, nor
does the trace of a stream that was stopped in a batch: why it ended is told where it was started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

EACH_TIME = (
    b"WARNING: Using incubator modules",
    b"Picked up JAVA_TOOL_OPTIONS",
    b"Terminating due to java.lang.OutOfMemoryError",  # the run's own error says what to set
)
STOPPED_STREAM = b'Exception in thread "stream execution thread for '
OF_A_TRACE = (b"\tat ", b"\t...", b"Caused by: ")


def without_noise(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Return the lines that are worth reading."""
    is_in_trace = False
    for line in lines:
        is_in_trace = line.startswith(STOPPED_STREAM) or (
            is_in_trace and line.startswith(OF_A_TRACE)
        )
        if not is_in_trace and not line.startswith(EACH_TIME):
            yield line
