"""The keys that this dispatcher goes by, read again and again.

The list is in the store, or in a file for those who have none. While it can't be read, the last
one counts: a store that fails must not lock everybody out, and gives nobody a new key.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from shunter.errors import SettingsError
from shunter.key_file import KeyFile
from shunter.model.key import Action, Key, KeyRing
from shunter.net.transport import Peer
from shunter.store.key_records import keys, system_secret
from shunter.store.port import Store

REFRESH_SECONDS = 1.0


class KeyList:
    """Who is known. `own` is this process's key, and None where nobody is asked for one."""

    def __init__(self, own: KeyFile | None, *, file: str = "") -> None:
        self.own = own
        self.ring = KeyRing()
        self.secret = b""
        self.file = file
        self._seen: tuple[int, int, int] | None = None

    @property
    def is_on(self) -> bool:
        """True if every peer has to show a key."""
        return self.own is not None

    def is_known(self, public: str) -> bool:
        """True if a CURVE key is one of ours."""
        return self.ring.with_public(public) is not None

    def of(self, peer: bytes) -> Key | None:
        """Return the key under which a message came; None where nobody shows one."""
        return self.ring.with_public(peer.public) if isinstance(peer, Peer) else None

    def refusal(self, peer: bytes, action: Action) -> str | None:
        """Say why a peer may not do something, if so."""
        if not self.is_on:
            return None
        key = self.of(peer)
        if key is None:
            return "your key was revoked; ask for a new one"
        return key.refusal(action)

    async def open(self, store: Store, fresh_secret: bytes) -> None:
        """Read the list, and the secret that runs are bound by."""
        self.secret = await system_secret(store, fresh_secret)
        await self.refresh(store)

    async def refresh(self, store: Store | None) -> None:
        """Read the list again; there need be no store where it is a file."""
        if not self.is_on:
            return
        if store is None or self.file:
            self._refresh_file()
        else:
            self.ring = KeyRing(await keys(store))

    def _refresh_file(self) -> None:
        """Read the file again if it is another one by now."""
        try:
            found = os.stat(self.file)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                listed = msgspec.json.decode(Path(self.file).read_bytes(), type=list[Key])
                self.ring, self._seen = KeyRing(listed), seen
        except (OSError, msgspec.MsgspecError) as error:
            if self._seen is None:
                raise SettingsError(
                    "the system",
                    "auth.keys",
                    f"{self.file} ({error})",
                    "what `shunter key export` wrote",
                ) from None
