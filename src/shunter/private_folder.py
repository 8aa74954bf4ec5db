"""A folder for sockets that this user's processes meet in, and nobody else can reach."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from shunter.errors import ShunterError


def private_folder(*parts: str) -> Path:
    """Return a folder that is this user's alone, made if it is not there.

    It lies where the system keeps such (XDG_RUNTIME_DIR), else among temporary files. There another
    user may have made one of that name first: that is refused.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and _fault(Path(runtime)) is None:
        folder = Path(runtime) / "shunter"
    else:
        folder = Path(tempfile.gettempdir()) / f"shunter-{os.getuid()}"
    for made in (folder, *(folder.joinpath(*parts[: n + 1]) for n in range(len(parts)))):
        made.mkdir(mode=0o700, exist_ok=True)
    if (fault := _fault(folder)) is not None:
        raise ShunterError(
            f"{folder} can't be used: {fault}; remove it, or set XDG_RUNTIME_DIR or TMPDIR to a "
            "folder of your own"
        )
    return folder.joinpath(*parts)


def _fault(folder: Path) -> str | None:
    try:
        found = folder.lstat()
    except OSError as error:
        return str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if found.st_uid != os.getuid():
        return f"it belongs to another user ({found.st_uid})"
    if found.st_mode & 0o022:
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
    if found.st_mode & 0o077:  # from before; nobody could put anything there
        folder.chmod(0o700)
    return None
