"""Which processes have a file open, also one that was deleted meanwhile. Linux alone tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

_DELETED = " (deleted)"


class OpenFile(Struct, frozen=True):
    """A file as one process has it; `link` opens it, even if it has no name any more."""

    pid: int
    link: str
    is_deleted: bool


def users_of(path: str) -> list[OpenFile]:
    """Return who has the file open that this path names or named; not ourselves."""
    return [user for user in _all_open(path) if user.pid != os.getpid()]


def _all_open(path: str) -> Iterator[OpenFile]:
    real = os.path.realpath(path)
    with suppress(OSError):
        here = os.stat(path)
        is_here = (here.st_dev, here.st_ino)
        for pid, link, target in _links():
            if target.removesuffix(_DELETED) == real:
                with suppress(OSError):
                    found = os.stat(link)
                    yield OpenFile(pid, link, (found.st_dev, found.st_ino) != is_here)
        return
    for pid, link, target in _links():
        if target == real + _DELETED:
            yield OpenFile(pid, link, True)


def _links() -> Iterator[tuple[int, str, str]]:
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal():
            with suppress(OSError):  # it ended, or is another user's
                for number in os.listdir(f"/proc/{name}/fd"):
                    link = f"/proc/{name}/fd/{number}"
                    with suppress(OSError):
                        yield int(name), link, os.readlink(link)
