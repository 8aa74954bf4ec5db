"""A file that grows beside its target, can go back to a checkpoint, and is published at the end.

Readers of the target see nothing, or all. A file that was published and is then gone back to,
because the flow died before it could note that it had ended, is taken from the target again; a
check sum tells whether the target is of this run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from shunter.durable_files import flush_to_disk, put_in_place, sync
from shunter.errors import FlowError

LOCK_SECONDS = 5.0
_BLOCK = 1 << 20


class GrowingFile:
    """Bytes for `target`, in `.NAME.part` until they are published."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f".{target.name}.part")
        self._file: BinaryIO | None = None
        self._size = 0
        self._sum = 0

    def __del__(self) -> None:
        self.let_go()

    def open(self, saved: Any | None) -> None:
        """Begin an empty file, or go back to a size and its check sum."""
        self.let_go()
        self._size, self._sum = saved or (0, 0)
        check_target(self.target)
        with file_faults(self.target):
            self._file = self._locked()
            if os.path.getsize(self.path) < self._size:
                raise FlowError(f"{self.path}: less is left than was saved; begin a new run")
            self._file.truncate(self._size)
            sync(self.path.parent)

    @property
    def size(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        assert self._file is not None, "not open"
        with file_faults(self.target):
            self._file.write(data)
        self._size += len(data)
        self._sum = zlib.crc32(data, self._sum)

    def checkpoint(self) -> Any:
        """See to it that the disk has all, and return what `open` needs to go back to here."""
        assert self._file is not None, "not open"
        with file_faults(self.target):
            flush_to_disk(self._file)
        return [self._size, self._sum]

    def close(self) -> None:
        """Put the file into its place."""
        if self._file is None:
            return
        self.checkpoint()
        with file_faults(self.target):
            with contextlib.suppress(FileNotFoundError):
                os.chmod(self.path, stat.S_IMODE(self.target.stat().st_mode))
            put_in_place(self.path, self.target)
        self.let_go()

    def let_go(self) -> None:
        """Close the file, and leave it where it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _locked(self) -> BinaryIO:
        """Open the file for this process alone; whoever had it before may just publish it."""
        while True:
            if self._size and not self.path.exists():
                self._take_from_target()
            file = open(self.path, "ab")  # noqa: SIM115
            try:
                lock(file.fileno(), self.path)
                if is_still_there(file.fileno(), self.path):
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _take_from_target(self) -> None:
        found, left = 0, self._size
        copy = self.path.with_suffix(".copy")
        try:
            with open(self.target, "rb") as source, open(copy, "wb") as place:
                while block := source.read(min(left, _BLOCK)):
                    place.write(block)
                    found = zlib.crc32(block, found)
                    left -= len(block)
        except FileNotFoundError:
            left = -1
        if left or found != self._sum:
            copy.unlink(missing_ok=True)
            raise FlowError(
                f"{self.path}: what was saved is gone, and {self.target.name} has other contents; "
                "begin a new run"
            )
        os.replace(copy, self.path)


def check_target(target: Path, *, is_folder: bool = False) -> None:
    """Raise where nothing can be published under this name."""
    if not target.parent.is_dir():
        raise FlowError(f"{target}: there is no folder {target.parent}; make it first")
    if target.exists() and target.is_dir() != is_folder:
        found, wanted = ("file", "folder") if is_folder else ("folder", "file")
        raise FlowError(f"{target} is a {found}, and would become a {wanted}; give another path")


def part_of(target: Path, index: int, count: int) -> Path:
    """Return the name for one of several parts, such as out-00000-of-00004.jsonl."""
    if count == 1:
        return target
    return target.with_name(f"{target.stem}-{index:05d}-of-{count:05d}{target.suffix}")


def parts_of(target: Path) -> list[Path]:
    """Return what is there under this name: the whole, or its parts in their order."""
    parts = sorted(target.parent.glob(f"{glob.escape(target.stem)}-*-of-*{target.suffix}"))
    return [target] if target.exists() else parts


def lock(descriptor: int, path: Path) -> None:
    """Keep others away for as long as this process lives; wait a little for one that ends."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise FlowError(
                    f"{path}: another run writes to it; end that one, or give another path"
                ) from None
            time.sleep(0.05)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
                return
            raise


def is_still_there(descriptor: int, path: Path) -> bool:
    """True if what was opened has not been moved or removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def file_faults(target: Path) -> Iterator[None]:
    """Let errors of the disk name the target and the remedy."""
    try:
        yield
    except OSError as error:
        raise FlowError(
            f"{target}: can't be written ({error.strerror}); check its permissions and free space"
        ) from error
