"""The hidden folder beside a target in which files and directories are staged.

It is on the target's disk, so that a rename publishes, and apart from the targets, so that
looking for leftovers need not read a folder with a million results. It is there only while
something is in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from shunter.errors import StagingError
from shunter.rerun.ownership import new_name
from shunter.rerun.staging_names import (
    ASIDE,
    DROPPED,
    PREFIX,
    Owner,
    left_behind,
    overdue,
    read_name,
    suffix_of,
)

FOLDER = ".shunter-staging"

_TRIES = 100
_REMOVALS = 5


class StagingFolder:
    """Where the results for one target, a file or a directory, are staged."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.parent / FOLDER
        if not target.parent.is_dir():
            raise StagingError(f"{target}: there is no folder {target.parent}; make it first")

    def opened(self, owner: Owner, create: Callable[[Path], None]) -> Path:
        """Create something new under a new name, and drop what earlier attempts have left.

        In this order: of two attempts that begin at once, one sees the other.
        """
        place = self._created(owner, create)
        try:
            for name in left_behind(_names(self.path), self.target.name, owner):
                if name.startswith(ASIDE) and not os.path.lexists(self.target):
                    os.rename(self.path / name, self.target)  # its run died in the gap
                elif name != place.name:
                    discard(self.path / name)
        except BaseException:
            self.close(place)
            raise
        return place

    def close(self, staging: Path) -> None:
        """Drop what is left under this name, and the folder, if it is empty then."""
        discard(staging)
        _remove_empty(self.path)

    def _created(self, owner: Owner, create: Callable[[Path], None]) -> Path:
        place = self.path / (new_name(self.target.name, owner) + suffix_of(self.target.name))
        for _ in range(_TRIES):
            _make_like_parent(self.path)
            # Whoever leaves last removes the folder, perhaps just now.
            with contextlib.suppress(FileNotFoundError):
                create(place)
                return place
        raise StagingError(f"{self.path}: it can't be kept; see who removes it again and again")


def discard(path: Path) -> None:
    """Remove a file or directory, so that nobody can publish a part of it.

    A directory into which somebody still writes, by a descriptor of it, may stay for a sweep.
    """
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        if not path.name.startswith(DROPPED):
            doomed = path.with_name(DROPPED + path.name.partition("_")[2])
            os.rename(path, doomed)
            path = doomed
    except FileNotFoundError:
        return
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:
            if not path.exists():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise


def sweep_files(folder: str | os.PathLike[str], *, older_than: float) -> list[str]:
    """Drop what runs that never came back have staged in this folder; return the names.

    Only what was opened, and last written to, more than `older_than` seconds ago. Allow more
    than your longest job takes: what belongs to a job that still runs would fail to publish.
    """
    path, now = Path(folder) / FOLDER, time.time()
    names = [name for name in _names(path) if not name.startswith(ASIDE)]
    due = {name for name in names if name.startswith(DROPPED)}
    for name in overdue(names, now=now, older_than=older_than):
        if name.startswith(PREFIX) and now - _last_written(path / name) > older_than:
            due.add(name)
    for name in due:
        discard(path / name)
    _remove_empty(path)
    return sorted(due)


def _names(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if read_name(name) is not None]
    except FileNotFoundError:
        return []


def _make_like_parent(folder: Path) -> None:
    """Make the folder, open to whoever may write beside it."""
    try:
        folder.mkdir()
        folder.chmod(stat.S_IMODE(folder.parent.stat().st_mode))
    except (FileExistsError, FileNotFoundError):
        return


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _last_written(path: Path) -> float:
    def times() -> Iterator[float]:
        yield path.lstat().st_mtime
        for parent, folders, files in os.walk(path):
            for name in (*folders, *files):
                with contextlib.suppress(FileNotFoundError):
                    yield os.lstat(os.path.join(parent, name)).st_mtime

    try:
        return max(times())
    except FileNotFoundError:
        return 0.0
