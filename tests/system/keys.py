"""Keys for tests, in a store and in files, made as `shunter key` makes them but in this process."""

from __future__ import annotations

from pathlib import Path

from shunter.cli.key_administration import KeyAdministration
from shunter.key_file import KeyFile, read_key_file
from shunter.model.key import Role


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
