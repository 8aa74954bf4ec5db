"""Which files of a folder in an object store count: those that a manifest names.

A store can't rename, so that files are there before they are published. Sinks write the manifest,
and sources read it.
"""

from __future__ import annotations

import msgspec

from shunter.errors import FlowError
from shunter.flow.location import Location

OWN = "_shunter"


class Manifest(msgspec.Struct, frozen=True):
    """The files that count, and the runs that have added to them, the newest last."""

    files: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def manifest_of(folder: Location) -> Manifest | None:
    """Return which files of a folder count; None if it has no manifest."""
    path = folder / OWN / "manifest.json"
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read(), type=Manifest)
    except msgspec.DecodeError as error:
        raise FlowError(
            f"{path} can't be read ({error}); delete the folder to begin anew"
        ) from error
