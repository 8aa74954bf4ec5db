"""A directory that is filled beside its target and takes its place in one step.

rename(2) can't put a directory where one with contents is. Where there is one already, the two
change places (`exchange.py`), and the old one is removed from where the new one was. Disks that
can't do that need two steps, and between them there is none; who accepts it says so.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shunter.durable_files import sync
from shunter.errors import StagingError, Superseded
from shunter.rerun.exchange import exchange
from shunter.rerun.ownership import Attempt, owner_of
from shunter.rerun.staging_folder import StagingFolder, discard
from shunter.rerun.staging_names import ASIDE

_TRIES = 100


@contextmanager
def staged_directory(
    path: str | os.PathLike[str], *, allow_gap: bool = False, run: Attempt | str | None = None
) -> Iterator[Path]:
    """Yield an empty directory to fill; at the end of the block it becomes `path`.

    If the block raises, or the process dies, `path` stays as it was. With `allow_gap` also disks
    that can't exchange two directories (NFS) will do: there the old one is moved aside first,
    and for a moment `path` is missing; a run that dies then leaves it missing until the next.
    """
    target, owner = Path(os.path.realpath(path)), owner_of(run)
    if os.path.lexists(target) and not target.is_dir():
        raise StagingError(f"{target} is no directory; use staged_file or staged_path for it")
    folder = StagingFolder(target)
    staging = folder.opened(owner, os.mkdir)
    try:
        yield staging
        try:
            _sync_tree(staging)
            _publish(staging, target, allow_gap=allow_gap)
        except FileNotFoundError:
            if staging.exists():
                raise
            fact = "what it has staged was dropped"
            raise Superseded(str(target), owner.attempt, fact) from None
        sync(target.parent)
    finally:
        folder.close(staging)


def _publish(staging: Path, target: Path, *, allow_gap: bool) -> None:
    """Put the new directory in its place; other attempts may do so at the same time."""
    for _ in range(_TRIES):
        try:
            if not os.path.lexists(target):
                os.rename(staging, target)
                return
            staging.chmod(target.stat().st_mode & 0o7777)
            if exchange(staging, target):
                return
            if not allow_gap:
                raise StagingError(
                    f"{target}: this disk can't exchange two directories in one step; pass "
                    "allow_gap=True to have it replaced in two, or stage for a new path each time"
                )
            _replace_in_two_steps(staging, target)
            return
        except FileNotFoundError:
            if not staging.exists():
                raise
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise StagingError(f"{target}: it appears and disappears; see who else writes there")


def _replace_in_two_steps(staging: Path, target: Path) -> None:
    aside = staging.with_name(ASIDE + staging.name.partition("_")[2])
    os.rename(target, aside)
    try:
        os.rename(staging, target)
    except OSError:
        if not os.path.lexists(target):
            os.rename(aside, target)
        raise
    discard(aside)


def _sync_tree(folder: Path) -> None:
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                sync(path)
        sync(Path(parent))
