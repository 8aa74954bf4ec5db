"""Whether names in a folder changed, or what is in a file, as the kernel tells (inotify).

The kernel notes it before the call that did it returns. So where there is no news, every path in
the folder leads where it did, the file is as it was, and one cheap question stands for a look at
each of them. What happens further up (a folder that is renamed, something mounted over it) is not
told. Where there is no inotify, or no more of it for this user, there always is news: then paths
are looked at.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
from collections.abc import Mapping
from typing import Any

_IN_MOVED_FROM, _IN_MOVED_TO, _IN_CREATE, _IN_DELETE = 0x40, 0x80, 0x100, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_MODIFY = 0x400, 0x800, 0x2
_CHANGED_NAMES = (
    _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
)
_NEWS_BYTES = 4096

_libc = ctypes.PyDLL(None, use_errno=True)  # calls keep Python's lock, as in `file_look.py`
_read: Any = _libc.read
_read.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_read.restype = ctypes.c_ssize_t


class FileWatch:
    """Watches a file, and the names in its folder, from now on and until `close`."""

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(path) or "."
        self._descriptor = _watching({folder: _CHANGED_NAMES, path: _IN_MODIFY})
        self._news = ctypes.create_string_buffer(_NEWS_BYTES)
        self._address = ctypes.addressof(self._news)

    def has_news(self) -> bool:
        """True if anything changed since this was asked last, or if nobody can tell."""
        if self._descriptor is None:
            return True
        size = _read(self._descriptor, self._address, _NEWS_BYTES)
        return size >= 0 or ctypes.get_errno() != errno.EAGAIN

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class WriteAlarm:
    """Sleeps until somebody writes to a file. Another thread may end that by `stop`."""

    def __init__(self, path: str) -> None:
        self._written = _watching({path: _IN_MODIFY})
        self._stopped = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._stopped, select.POLLIN)
        if self._written is not None:
            self._poll.register(self._written, select.POLLIN)

    @property
    def can_tell(self) -> bool:
        """True if the kernel tells who writes."""
        return self._written is not None

    def wait(self, seconds: float) -> bool:
        """Wait, at most so long; True if somebody has written since the last call."""
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 * seconds)}
        if self._written is None or self._written not in ready:
            return False
        os.read(self._written, _NEWS_BYTES)
        return True

    def stop(self) -> None:
        """End a wait, and let none begin."""
        os.eventfd_write(self._stopped, 1)

    def close(self) -> None:
        os.close(self._stopped)
        if self._written is not None:
            os.close(self._written)


def _watching(masks: Mapping[str, int]) -> int | None:
    """Return a descriptor that tells what changes; None if there is none to be had."""
    if not hasattr(_libc, "inotify_init1"):
        return None
    descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    for path, mask in masks.items():
        if _libc.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0:
            os.close(descriptor)
            return None
    return int(descriptor)
