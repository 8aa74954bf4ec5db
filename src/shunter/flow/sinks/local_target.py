"""Where parts are published on a disk: staged in a hidden folder beside the target, and renamed.

`.NAME.part` holds the parts of a run that are not published and is locked while the run lives; what
another run has left there is swept. A first publication takes the place of the target in one step
(or adds to it, with mode "append"); later ones are moved in file by file, and may be repeated.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from shunter.durable_files import put_in_place, sync
from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.sinks.growing_file import (
    check_target,
    file_faults,
    is_still_there,
    lock,
)
from shunter.flow.sinks.parts import PartFile
from shunter.rerun.directories import staged_directory

MARKER = "_run"
"""A file in the staging folder with the run's name: tasks that see it share the folder."""


class LocalFolder:
    """A folder of part files on a disk that the driver and all tasks see."""

    def __init__(
        self, location: Location, *, appends: bool = False, replaces_file: bool = False
    ) -> None:
        self.target = Path(os.path.realpath(location.path))
        self._appends, self._replaces_file = appends, replaces_file
        self._lock: int | None = None

    def __del__(self) -> None:
        self.let_go()

    @property
    def staging(self) -> Location:
        return Location(str(self._staging))

    @property
    def _staging(self) -> Path:
        return self.target.with_name(f".{self.target.name}.part")

    def begin(self, run: str, kept: Collection[PartFile]) -> None:
        """Make room for a run; parts that are kept must be there, all others are swept."""
        self.let_go()
        self._check()
        with file_faults(self.target):
            self._lock_staging()
            sync(self._staging.parent)
            self._sweep({part.name for part in kept})
            (self._staging / MARKER).write_text(run)
            for part in kept:
                self._fetch(part)

    def _check(self) -> None:
        if not (self._replaces_file and self.target.is_file()):
            check_target(self.target, is_folder=True)

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int = 1) -> None:
        """Let the target be these parts and nothing else; with mode "append", add them."""
        if self._appends:
            self.target.mkdir(exist_ok=True)
            self.publish_more(parts)
            return
        with file_faults(self.target):
            if self.target.is_file():
                self.target.unlink()
            with staged_directory(self.target, allow_gap=True, run=run) as folder:
                for part in parts:
                    place = folder / part.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    _link(self._staging / part.name, place)

    def publish_more(self, parts: Sequence[PartFile], version: int = 1) -> None:
        """Move parts into the target; those that are there already stay."""
        with file_faults(self.target):
            for part in parts:
                path, place = self._staging / part.name, self.target / part.name
                if not path.exists() and place.exists():
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                put_in_place(path, place)
                path.unlink(missing_ok=True)  # one link to a file stays, if there were two

    def end(self) -> None:
        """Nothing is staged any more."""
        with file_faults(self.target):
            shutil.rmtree(self._staging, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Leave what is staged to a next `begin`."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _lock_staging(self) -> None:
        while self._lock is None:
            self._staging.mkdir(exist_ok=True)
            self._lock = os.open(self._staging, os.O_RDONLY)
            lock(self._lock, self._staging)
            if not is_still_there(self._lock, self._staging):
                self.let_go()

    def _sweep(self, kept: Collection[str]) -> None:
        for path in self._staging.rglob("*"):
            if path.is_file() and path.relative_to(self._staging).as_posix() not in kept:
                path.unlink()

    def _fetch(self, part: PartFile) -> None:
        """See that a part is staged, or published already; then it is staged again."""
        path, published = self._staging / part.name, self.target / part.name
        if path.exists():
            return
        if not published.exists():
            raise FlowError(f"{path}: it was saved and is gone; begin a new run")
        path.parent.mkdir(parents=True, exist_ok=True)
        _link(published, path)


def _link(path: Path, place: Path) -> None:
    try:
        os.link(path, place)
    except OSError:
        shutil.copy2(path, place)
