"""The file in which a process has its key: who it is, and what proves it.

TOML, for its owner alone: a file that others may read is refused. `shunter key new` writes it.
"""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from shunter.durable_files import flush_to_disk, sync
from shunter.errors import SettingsError
from shunter.model.key import PUBLIC_LENGTH, CurvePair, Role

SETTING = "auth.key_file"
OTHERS = 0o077

CurveText = Annotated[str, Meta(min_length=PUBLIC_LENGTH, max_length=PUBLIC_LENGTH)]


class KeyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a key file says. `server` is the CURVE key by which dispatchers are recognised."""

    name: str
    role: Role
    public: CurveText
    secret: CurveText
    token: Annotated[str, Meta(min_length=32)]
    server: CurveText | None = None

    @property
    def pair(self) -> CurvePair:
        """What ZeroMQ is shown."""
        return CurvePair(self.public, self.secret, self.server)

    def __repr__(self) -> str:
        """Name the key: what proves it is for nobody's log."""
        return f"KeyFile({self.name!r}, {self.role})"


def read_key_file(path: str) -> KeyFile:
    """Read a key, or raise a SettingsError that says what is wrong with the file."""
    try:
        with Path(path).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(1 << 16)
        key = msgspec.convert(tomllib.loads(text.decode()), KeyFile)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise _fault(path, str(error), "a file that `shunter key new` wrote") from None
    if mode & OTHERS:
        remedy = f"a file that its owner alone may read; type: chmod 600 {path}"
        raise _fault(path, f"mode {mode:04o}: others may read it", remedy)
    return key


def read_caller_key(path: str, *roles: Role) -> KeyFile:
    """Read the key of somebody who connects to dispatchers: it says by which key they are known."""
    key = read_key_file(path)
    if roles and key.role not in roles:
        allowed = f"the key of a {' or '.join(roles)}"
        raise _fault(path, f"it is the key of a {key.role}", allowed)
    if key.server is None:
        remedy = "a key that was made after that of the dispatchers (--role dispatcher)"
        raise _fault(path, "it does not say by which key dispatchers are known", remedy)
    return key


def engine_pair(path: str) -> CurvePair:
    """Return what engines and their deployer show each other: they share one worker's key."""
    key = read_key_file(path)
    if key.role is not Role.WORKER:
        raise _fault(path, f"it is the key of a {key.role}", "the key of a worker")
    return CurvePair(key.public, key.secret, key.public)


def write_key_file(path: Path, key: KeyFile) -> None:
    """Write a new file for its owner alone; one that is there already stays as it is."""
    lines = [f"# The key of {key.role} {key.name!r}. Whoever can read this file can act as it.\n"]
    for name, value in msgspec.to_builtins(key).items():
        if value is not None:
            # what JSON writes of our alphabets is what TOML reads
            lines.append(f"{name} = {msgspec.json.encode(value).decode()}\n")
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise SettingsError(
            "the command line", "--out", f"{path}, which is there already", "a new file"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        file.writelines(lines)
        flush_to_disk(file)
    sync(path.parent)


def _fault(path: str, reason: str, allowed: str) -> SettingsError:
    return SettingsError("the system", SETTING, f"{path} ({reason})", allowed)
