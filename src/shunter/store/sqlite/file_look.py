"""Which file a path names, without letting go of the interpreter.

`os.stat` takes a microsecond and releases Python's lock for it. A thread that shares the process
with a busy event loop then waits for its turn, twenty times as long, and a commit has six such
calls. This one keeps the lock: what it asks for is in the kernel's memory as long as the file is in
use. Where there is no `statx`, `os.stat` answers.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from functools import lru_cache
from typing import Any, NamedTuple

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_TYPE_INODE_AND_SIZE = 0x1 | 0x100 | 0x200
_ANSWER_BYTES = 256
_OFFSET = 32
_SIZE_WORD = 5
_read_answer = struct.Struct("=QQ88xII").unpack_from  # inode, size, and the device's two numbers


class SeenFile(NamedTuple):
    """What a path named when somebody looked."""

    inode: int
    size: int
    major: int
    minor: int

    def is_same_as(self, other: SeenFile) -> bool:
        """True if it is the same file, of whatever size."""
        return (self.inode, self.major, self.minor) == (other.inode, other.major, other.minor)


class _Answer(threading.local):
    """Where the kernel writes its answer to the thread that asked."""

    def __init__(self) -> None:
        self.bytes = ctypes.create_string_buffer(_ANSWER_BYTES)
        self.address = ctypes.addressof(self.bytes)


def _by_statx(name: str) -> SeenFile | None:
    if _statx(_AT_FDCWD, _encoded(name), 0, _TYPE_INODE_AND_SIZE, _answer.address) != 0:
        return None
    return SeenFile(*_read_answer(_answer.bytes, _OFFSET))


def _by_stat(name: str) -> SeenFile | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    device = found.st_dev
    return SeenFile(found.st_ino, found.st_size, os.major(device), os.minor(device))


def _has_statx() -> bool:
    """True if the call is there and tells what `stat` tells; an old sandbox may forbid it."""
    return _statx is not None and _by_statx("/") == _by_stat("/")


_answer = _Answer()
_encoded = lru_cache(maxsize=64)(os.fsencode)
_libc = ctypes.PyDLL(None)  # calls keep Python's lock
_statx: Any = getattr(_libc, "statx", None)
if _statx is not None:  # with types it takes two thirds of the time
    _statx.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    )

seen_at = _by_statx if _has_statx() else _by_stat
"""Look where a path leads; None if nowhere."""


class OpenedFile:
    """A file whose size is asked for again and again, by one thread and without its path.

    It is not open for reading, so that closing it drops none of SQLite's locks.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._answer = ctypes.create_string_buffer(_ANSWER_BYTES)
        self._address = ctypes.addressof(self._answer)
        self._words = memoryview(self._answer).cast("B").cast("Q")
        self._has_statx = seen_at is _by_statx

    def size(self) -> int:
        """Return how long the file is."""
        asked = (self._descriptor, b"", _AT_EMPTY_PATH, _TYPE_INODE_AND_SIZE, self._address)
        if self._has_statx and _statx(*asked) == 0:
            return self._words[_SIZE_WORD]
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)
