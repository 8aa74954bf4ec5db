"""A file that readers see growing, from checkpoint to checkpoint.

What comes after the last publication lies in `.NAME.from-BASE.part`, where BASE is how many bytes
the target has before it. To publish is to put it behind these bytes, so it can be done again. The
first publication of a run takes the place of whatever the target was.
"""

from __future__ import annotations

import contextlib
import glob
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from shunter.durable_files import flush_to_disk, put_in_place, sync
from shunter.errors import FlowError
from shunter.flow.sinks.growing_file import check_target, file_faults, is_still_there, lock

_BLOCK = 1 << 20


class AppendedFile:
    """Bytes for `target`. `size` counts all of a run, `base` those that are published."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._lock_path = target.with_name(f".{target.name}.part")
        self._lock: int | None = None
        self._file: BinaryIO | None = None
        self._size = self._base = self._sum = 0

    def __del__(self) -> None:
        self.let_go()

    def open(self, saved: Any | None) -> None:
        """Begin anew, or go back to where a checkpoint was."""
        self.let_go()
        self._size, self._base, self._sum = saved or (0, 0, 0)
        check_target(self.target)
        with file_faults(self.target):
            self._lock_target()
            self._go_back()

    def append(self, data: bytes) -> None:
        if not data:
            return
        with file_faults(self.target):
            if self._file is None:
                self._file = open(self._part, "ab")  # noqa: SIM115
            self._file.write(data)
        self._size += len(data)
        self._sum = zlib.crc32(data, self._sum)

    def checkpoint(self) -> Any:
        """See to it that the disk has all, and return what `open` needs to go back to here."""
        if self._file is not None:
            with file_faults(self.target):
                flush_to_disk(self._file)
                sync(self._part.parent)
        return [self._size, self._base, self._sum]

    def publish(self) -> None:
        """Put what the last checkpoint has into the target."""
        if self._size == self._base:
            return
        with file_faults(self.target):
            self._end_part()
            if self._base:
                self._append_part()
            else:
                self._replace()
        self._base = self._size

    def close(self) -> None:
        """Publish the rest; a run without any bytes leaves an empty file."""
        if self._lock is None:
            return
        self.checkpoint()
        self.publish()
        with file_faults(self.target):
            if not self._size:
                self._part.touch()
                self._replace()
            self._lock_path.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        """Close files, and leave them where they are; what can't be written does not count."""
        with contextlib.suppress(OSError):
            self._end_part()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _part(self) -> Path:
        return self.target.with_name(self._name(str, str(self._base)))

    def _name(self, written: Callable[[str], str], base: str) -> str:
        return f".{written(self.target.name)}.from-{base}.part"

    def _lock_target(self) -> None:
        while self._lock is None:
            self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o644)
            lock(self._lock, self._lock_path)
            if not is_still_there(self._lock, self._lock_path):
                os.close(self._lock)
                self._lock = None

    def _go_back(self) -> None:
        """Find what was saved, in its part or published already; drop what was not saved."""
        waiting = self._size - self._base
        is_there = self._part.exists() and self._part.stat().st_size >= waiting
        if waiting and is_there:
            os.truncate(self._part, waiting)
            self._check_target(self._base)
            kept = {self._part}
        else:
            self._check_target(self._size, is_first=waiting > 0 and not self._base)
            self._base = self._size
            kept = set()
        for path in set(self.target.parent.glob(self._name(glob.escape, "*"))) - kept:
            path.unlink()

    def _check_target(self, published: int, *, is_first: bool = False) -> None:
        """Raise where the target can't be what this run has published."""
        found = self.target.stat().st_size if self.target.exists() else 0
        if found < published or (is_first and not self._is_ours()):
            raise FlowError(
                f"{self.target}: it has other contents than this run has published; put them "
                "back, or begin a new run"
            )

    def _is_ours(self) -> bool:
        """True if the target begins with what the first publication has put there."""
        found, left = 0, self._size
        with open(self.target, "rb") as file:
            while block := file.read(min(left, _BLOCK)):
                found = zlib.crc32(block, found)
                left -= len(block)
        return found == self._sum

    def _append_part(self) -> None:
        with open(self._part, "rb") as part, open(self.target, "r+b", buffering=0) as whole:
            whole.truncate(self._base)
            whole.seek(self._base)
            try:
                while block := memoryview(part.read(_BLOCK)):
                    while block:  # a disk that gets full takes some, and raises only then
                        block = block[whole.write(block) :]
                flush_to_disk(whole)
            except OSError:
                whole.truncate(self._base)  # nobody is to see a half of it
                raise
        self._part.unlink()

    def _replace(self) -> None:
        put_in_place(self._part, self.target)

    def _end_part(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
