"""File descriptors: as many as the system allows, shared out so that connections never take all.

A process without a free descriptor can't open its store, answer or call anybody, and both ZeroMQ
and asyncio try to accept over and over. So each listener has a limit, and some stay free.
"""

from __future__ import annotations

import errno
import resource
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any

MOST_DESCRIPTORS = 65_536
"""More are of no use to us, and some programs that handlers start walk through all of them."""

SPARE_DESCRIPTORS = 256
"""For files, calls to others, and connections that are accepted before they are counted."""

LISTENERS = 3
FEWEST_CONNECTIONS = 32

OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def raised_limit() -> int:
    """Allow this process as many descriptors as the system lets it; return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def connections_each(descriptors: int, *, most: int) -> int:
    """Return how many connections each listener may have; a share is left for bursts. Pure."""
    share = (descriptors - SPARE_DESCRIPTORS) // (LISTENERS + 1)
    return max(FEWEST_CONNECTIONS, min(most, share))


def tell_of_shortage(loop: AbstractEventLoop, tell: Callable[[str], None]) -> None:
    """Say in one line that descriptors have run out; asyncio finds it at each try to accept."""

    def handle(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES:
            tell(f"{context['message']}: {error.strerror}; raise the limit of open files")
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
