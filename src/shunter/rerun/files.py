"""A file that is written beside its target and takes its place in one step.

Readers see the old file or the new one, never a part; a run that dies leaves the old one. The
step is rename(2), after the contents have reached the disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO, overload

from shunter.durable_files import sync
from shunter.errors import StagingError, Superseded
from shunter.rerun.ownership import Attempt, owner_of
from shunter.rerun.staging_folder import StagingFolder


@contextmanager
def staged_path(
    path: str | os.PathLike[str], *, run: Attempt | str | None = None
) -> Iterator[Path]:
    """Yield the path of an empty file to fill; at the end of the block it becomes `path`.

    For programs and libraries that want a path; with `staged_file` you get the open file. If
    the block raises, or the process dies, `path` stays as it was. Raises Superseded if a newer
    attempt of the job has begun meanwhile.
    """
    target, owner = Path(os.path.realpath(path)), owner_of(run)
    if target.is_dir():
        raise StagingError(f"{target} is a directory; use staged_directory for it")
    folder = StagingFolder(target)
    staging = folder.opened(owner, lambda place: place.touch(exist_ok=False))
    try:
        yield staging
        try:
            _copy_mode(target, staging)
            sync(staging)
            os.replace(staging, target)
        except FileNotFoundError:
            if staging.exists():
                raise
            fact = "what it has staged was dropped"
            raise Superseded(str(target), owner.attempt, fact) from None
        sync(target.parent)
    finally:
        folder.close(staging)


@overload
def staged_file(
    path: str | os.PathLike[str],
    mode: Literal["w"] = "w",
    *,
    encoding: str = "utf-8",
    newline: str | None = None,
    run: Attempt | str | None = None,
) -> AbstractContextManager[TextIO]: ...


@overload
def staged_file(
    path: str | os.PathLike[str], mode: Literal["wb"], *, run: Attempt | str | None = None
) -> AbstractContextManager[BinaryIO]: ...


def staged_file(
    path: str | os.PathLike[str],
    mode: str = "w",
    *,
    encoding: str | None = None,
    newline: str | None = None,
    run: Attempt | str | None = None,
) -> Any:
    """Open a new file to write; at the end of the block it becomes `path`, in one step.

    `mode` is "w" for text or "wb" for bytes. If the block raises, or the process dies, `path`
    stays as it was.
    """
    if mode not in ("w", "wb"):
        raise StagingError(f"mode is {mode!r}; it is 'w' or 'wb', a staged file begins empty")
    text = {"encoding": encoding or "utf-8", "newline": newline} if mode == "w" else {}
    return _staged_file(path, mode, run, text)


@contextmanager
def _staged_file(
    path: str | os.PathLike[str], mode: str, run: Attempt | str | None, text: dict[str, Any]
) -> Iterator[IO[Any]]:
    with staged_path(path, run=run) as staging, open(staging, mode, **text) as file:
        yield file


def _copy_mode(target: Path, staging: Path) -> None:
    """Let the new file be open to whom the old one was."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return
    staging.chmod(mode)
