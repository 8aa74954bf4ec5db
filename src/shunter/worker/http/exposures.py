"""What a worker behind HTTP may lay open: its own address, and its key on the way to dispatchers.

Loopback is open to the programs of this host. Beyond it, a worker needs a key and TLS, or the
user's word.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shunter.errors import SettingsError
from shunter.net.environment import Environment
from shunter.net.exposure import check_exposure, is_open_to_others

if TYPE_CHECKING:
    from shunter.worker.http.host import HttpHostSettings

SECRET_BYTES = 32
AMONG_FRIENDS = "or worker.http.insecure = true among friends"
KEYS = "a key (auth.key_file) and TLS"
TLS = "TLS (worker.http.tls_certificate and worker.http.tls_key)"


def check_exposures(settings: HttpHostSettings) -> None:
    """Refuse to be called, or to call, where strangers could be either or read along."""
    has_key, has_tls = settings.key is not None, settings.tls is not None
    check_exposure(
        "worker.http.host",
        settings.host,
        is_guarded=settings.insecure or (has_key and has_tls),
        lacks="no TLS, so that its secret would travel in clear" if has_key else "no key",
        remedy=f"{TLS if has_key else KEYS}, {AMONG_FRIENDS}",
    )
    if not has_key or settings.insecure:
        return
    for place in settings.dispatchers:
        parts = urlsplit(place)
        if parts.scheme == "http" and is_open_to_others(parts.hostname or ""):
            raise SettingsError(
                "the settings",
                "worker.http.dispatchers",
                f"{place}, to which the key's token would travel in clear",
                f"https://…, with its authority in auth.ca_file, {AMONG_FRIENDS}",
            )


def new_secret(environment: Environment) -> str:
    """Return what dispatchers are to show to this process of a worker."""
    return base64.urlsafe_b64encode(environment.token_bytes(SECRET_BYTES)).decode().rstrip("=")
