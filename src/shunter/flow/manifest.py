"""Which files of a folder in an object store count: those that a manifest names.

A store can't rename, so that files are there before they are published. Sinks write the manifest, and
sources read it.
"""

from __future__ import annotations

import msgspec

OWN = "_shunter"


class Manifest(msgspec.Struct, frozen=True):
    """The files that count, and the runs that have added to them, the newest last."""

    files: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
