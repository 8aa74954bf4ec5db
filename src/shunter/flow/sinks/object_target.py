"""Where parts are published in an object store, which can't rename: unique names and a manifest.

Parts are written into the target's folder under names that no other run has. To publish is to
write `_shunter/manifest.json`, which names the files that count, in one step; then files that it
does not name are deleted, and `_SUCCESS` is written. `_shunter/owner` names the run that may
publish: a newer one takes over, and sweeps what older ones have left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.manifest import OWN, Manifest, manifest_of
from shunter.flow.sinks.parts import OUR_NAMES, PartFile

MOST_RUNS = 1000
"""How many runs a manifest remembers, so that none is published twice."""


class ObjectFolder:
    """A folder of part files in an object store."""

    def __init__(self, location: Location, *, appends: bool = False) -> None:
        self.target, self._appends = location, appends
        self._run = ""

    @property
    def staging(self) -> Location:
        return self.target

    def begin(self, run: str, kept: Collection[PartFile]) -> None:
        """Take the target over for a run; parts that are kept must be there, all others go."""
        self._run = run
        self._owner.write(run.encode())
        there, kept_names = self._files(), {part.name for part in kept}
        if gone := sorted(kept_names - set(there)):
            raise FlowError(f"{self.target / gone[0]}: it was saved and is gone; begin a new run")
        known = {*self._manifest().files, *kept_names}
        self._delete(name for name in there if OUR_NAMES.search(name) and name not in known)

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int = 1) -> None:
        """Let the target be these parts and nothing else; with mode "append", add them."""
        before = self._manifest()
        if run in before.runs:
            return
        new, runs = tuple(part.name for part in parts), (*before.runs, run)[-MOST_RUNS:]
        if self._appends:
            self._publish(Manifest((*before.files, *new), runs))
        else:
            self._publish(Manifest(new, runs))
            self._delete(name for name in self._files() if name not in set(new))

    def publish_more(self, parts: Sequence[PartFile], version: int = 1) -> None:
        """Add parts; those that are there already stay."""
        before = self._manifest()
        known = set(before.files)
        new = tuple(part.name for part in parts if part.name not in known)
        if new:
            self._publish(Manifest((*before.files, *new), before.runs))

    def end(self) -> None:
        self._run = ""

    def let_go(self) -> None:
        """Leave what is written to the next run, which sweeps it."""
        self._run = ""

    @property
    def _owner(self) -> Location:
        return self.target / OWN / "owner"

    def _manifest(self) -> Manifest:
        """Return what counts; before there was a manifest, that is all that others have written."""
        found = manifest_of(self.target)
        if found is not None:
            return found
        return Manifest(tuple(name for name in self._files() if not OUR_NAMES.search(name)))

    def _publish(self, manifest: Manifest) -> None:
        owner = self._owner.read().decode() if self._owner.is_file() else "nobody"
        if owner != self._run:
            raise FlowError(
                f"{self.target}: the run {owner} writes there now, so this one ({self._run}) has "
                "published nothing; let one run at a time write to a target"
            )
        success = self.target / "_SUCCESS"
        success.delete()
        (self.target / OWN / "manifest.json").write(msgspec.json.encode(manifest))
        success.write(b"")

    def _files(self) -> list[str]:
        """Name all files but our own notes."""
        base = len(self.target.url) + 1
        names = (info.location.url[base:] for info in self.target.files(recursive=True))
        return [name for name in names if not name.startswith("_")]

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.target / name).delete()
