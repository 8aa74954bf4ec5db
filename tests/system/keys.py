"""Keys for tests, in a store and in files, made as `shunter key` makes them but in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shunter.cli.key_administration import KeyAdministration
from shunter.client import Client
from shunter.key_file import KeyFile, read_key_file
from shunter.model.key import CurvePair, Role
from system.yard import PATIENCE, Process, Station, Yard


class KeyMaker:
    """Makes keys in one store. That of the dispatchers is made first."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self._folder = folder
        self._keys = KeyAdministration(store_url, None)
        self.made: list[KeyFile] = []
        self.new("the-dispatcher", Role.DISPATCHER)

    def new(
        self, name: str, role: Role, *, types: tuple[str, ...] = (), namespace: str = ""
    ) -> KeyFile:
        path = self.path(name)
        self._keys.make(name, role, types=types, namespace=namespace, path=path)
        made = read_key_file(str(path))
        self.made.append(made)
        return made

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.key.toml"

    def revoke(self, name: str) -> None:
        self._keys.revoke(name)


class Door:
    """A dispatcher that is attacked, with keys or without, and what its peers need to come in."""

    def __init__(
        self,
        yard: Yard,
        *,
        is_keyed: bool,
        inside: tuple[str, ...] = (),
        **settings: Any,
    ) -> None:
        self._yard, self.is_keyed = yard, is_keyed
        name = "keyed" if is_keyed else "open"
        if is_keyed:
            url = f"sqlite:///{yard.folder}/keyed.db"
            self.keys = KeyMaker(yard.folder, url)
            self._client_key = self.keys.new("shop", Role.OPERATOR)
            self._worker_key = self.keys.new("hands", Role.WORKER)
            own = self.keys.path("the-dispatcher")
            settings |= {"store.url": url, "auth.key_file": str(own)}
        self.station = Station(yard, name, settings).start(inside=inside)

    @property
    def client_pair(self) -> CurvePair | None:
        return self._client_key.pair if self.is_keyed else None

    @property
    def worker_pair(self) -> CurvePair | None:
        return self._worker_key.pair if self.is_keyed else None

    def pair_for(self, side: str) -> CurvePair | None:
        """Return what opens the frontend, or the backend."""
        return self.client_pair if side == "frontend" else self.worker_pair

    def worker_id(self, name: str) -> str:
        """Return an id that a worker with the key may have."""
        return f"hands:{name}" if self.is_keyed else name

    @property
    def client_options(self) -> dict[str, Any]:
        return {"key_file": self.keys.path("shop")} if self.is_keyed else {}

    def client(self) -> Client:
        """Return a client that the caller closes."""
        return Client(self.station.frontend, timeout=PATIENCE, **self.client_options)

    def worker(self) -> Process:
        """Start a worker of the witness app."""
        own = {"auth__key_file": str(self.keys.path("hands"))} if self.is_keyed else {}
        return self._yard.worker(self.station, **own)
