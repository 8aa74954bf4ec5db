"""Where parts are published on a file system elsewhere that renames folders in one step, as HDFS.

`.NAME.part/RUN` holds the parts of a run, and its rename to the target publishes them. A newer run
removes what older ones have staged, so that they have nothing to rename. A folder can't take the
place of another there: the old one is moved to `.NAME.old` first, and for a moment there is none;
after a death in that moment the next run puts the old one back.
Disks of this host have more to offer (links, locks, an exchange of folders): see local_target.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.sinks.parts import PartFile


class RenamedFolder:
    """A folder of part files that the driver and all tasks reach by its URL."""

    def __init__(self, location: Location, *, appends: bool = False, run: str = "") -> None:
        self.target, self._appends, self._run = location, appends, run

    @property
    def staging(self) -> Location:
        return self._staged_runs / self._run

    def begin(self, run: str, kept: Collection[PartFile]) -> None:
        """Take the target over for a run; parts that are kept must be there, all others go."""
        self._run = run
        self._put_back()
        if not kept:
            self._staged_runs.delete()
        self.staging.make_folder()
        self._sweep({part.name for part in kept})
        for part in kept:
            self._fetch(part)

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int = 1) -> None:
        """Let the target be these parts and nothing else; with mode "append", add them."""
        if self._appends:
            self.target.make_folder()
            self.publish_more(parts)
            return
        names = {part.name for part in parts}
        self.staging.make_folder()  # where there are no parts, no writer has made it
        if not names <= self._sweep(names):
            raise self._superseded()
        if self.target.exists():
            self.target.move_to(self._old)
        try:
            self.staging.move_to(self.target)
        except FlowError:
            self._put_back()
            if not self.staging.exists():
                raise self._superseded() from None
            raise
        self._old.delete()

    def publish_more(self, parts: Sequence[PartFile], version: int = 1) -> None:
        """Move parts into the target; those that are there already stay."""
        for part in parts:
            staged, place = self.staging / part.name, self.target / part.name
            if place.is_file():
                staged.delete()
            elif staged.is_file():
                place.parent.make_folder()
                staged.move_to(place)
            else:
                raise self._superseded()

    def end(self) -> None:
        """Nothing of this run is staged any more."""
        if self._run:
            self.staging.delete()
        self._run = ""

    def let_go(self) -> None:
        """Leave what is staged to a next `begin`."""
        self._run = ""

    @property
    def _staged_runs(self) -> Location:
        return self.target.parent / f".{self.target.name}.part"

    @property
    def _old(self) -> Location:
        return self.target.parent / f".{self.target.name}.old"

    def _put_back(self) -> None:
        """Undo a publication that has ended between its two renames."""
        if not self._old.exists():
            return
        if self.target.exists():
            self._old.delete()
        else:
            self._old.move_to(self.target)

    def _sweep(self, kept: Collection[str]) -> set[str]:
        """Delete what else is staged, such as parts of lost tries; return what is there then."""
        base = len(self.staging.url) + 1
        there = {info.location.url[base:] for info in self.staging.files(recursive=True)}
        for name in there - set(kept):
            (self.staging / name).delete()
        return there & set(kept)

    def _fetch(self, part: PartFile) -> None:
        """See that a part is staged, or published already; then it is staged again."""
        staged, published = self.staging / part.name, self.target / part.name
        if staged.is_file():
            return
        if not published.is_file():
            raise FlowError(f"{staged}: it was saved and is gone; begin a new run")
        published.copy_to(staged)

    def _superseded(self) -> FlowError:
        return FlowError(
            f"{self.target}: another run writes there now, so this one ({self._run}) has published "
            "nothing; let one run at a time write to a target"
        )
