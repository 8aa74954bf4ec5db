"""What a UDP peer signs with: its own key, or the secret that peers share, from the file that the
settings name.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from shunter.errors import SettingsError
from shunter.key_file import read_key_file
from shunter.model.key import udp_key
from shunter.settings import Settings
from shunter.wire.udp.keys import Secret, UdpKey

OTHERS = 0o077


def udp_key_of(settings: Settings) -> UdpKey | None:
    """Return what this process signs packets with, if there is anything: a key comes first."""
    if settings.auth.key_file:
        own = read_key_file(settings.auth.key_file)
        return UdpKey(own.name, Secret(udp_key(own.token)))
    secret = secret_of(settings)
    return None if secret is None else UdpKey("", secret)


def secret_of(settings: Settings) -> Secret | None:
    """Read the secret, if there is one; a file that others may read is refused."""
    path = settings.udp.secret_file
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = Secret.of_file(file.read())
    except (OSError, ValueError) as error:
        raise _fault(path, str(error), "a file of at least 16 bytes") from None
    if mode & OTHERS:
        remedy = f"a file that its owner alone may read; type: chmod 600 {path}"
        raise _fault(path, f"mode {mode:04o}: others may read it", remedy)
    return secret


def _fault(path: str, reason: str, allowed: str) -> SettingsError:
    return SettingsError("the system", "udp.secret_file", f"{path} ({reason})", allowed)
