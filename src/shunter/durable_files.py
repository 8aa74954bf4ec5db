"""What must survive a crash of the host: the contents of files, and their names in folders.

A file that was written is on the disk after `flush_to_disk`; its name is once its folder is, too.
Nobody else calls fsync. Knows nothing of who writes what.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import IO, Any

AnyPath = str | PathLike[str]


def flush_to_disk(file: IO[Any]) -> None:
    """Have the disk take all that was written to an open file."""
    file.flush()
    os.fsync(file.fileno())


def sync(path: AnyPath) -> None:
    """Have the disk take what was written to a file, or which names a folder has."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(staged: AnyPath, target: AnyPath) -> None:
    """Rename a file whose contents are on the disk; whoever looks sees the old one or this one."""
    os.replace(staged, target)
    sync(Path(target).parent)


def write_whole(target: AnyPath, body: bytes, *, staged: AnyPath) -> None:
    """Write a file that is there as a whole or not at all, by way of another beside it."""
    with open(staged, "wb") as file:
        file.write(body)
        flush_to_disk(file)
    put_in_place(staged, target)
