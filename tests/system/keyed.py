"""A dispatcher that demands keys, and keys for its peers, made by `shunter key`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from system.yard import Process, Station, Yard


class KeyedYard:
    """Keys in the store of one dispatcher. Each peer has a file of its own."""

    def __init__(self, yard: Yard, *, keys: Mapping[str, Sequence[str]], **settings: Any) -> None:
        self.yard = yard
        self.store = f"sqlite:///{yard.folder}/keyed.db"
        for name, words in {"dispatchers": ["dispatcher"], **keys}.items():
            self.make(name, *words)
        self.station: Station = yard.dispatcher(
            "keyed",
            store__url=self.store,
            auth__key_file=str(self.file("dispatchers")),
            **settings,
        )

    def file(self, name: str) -> Path:
        return self.yard.folder / f"{name}.key"

    def make(self, name: str, role: str, *words: str) -> Path:
        self.key("new", name, "--role", role, *words, "--out", str(self.file(name)))
        return self.file(name)

    def key(self, *words: str) -> str:
        done = self.yard.shunter("key", *words, "--store", self.store)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def worker(self, name: str, **settings: Any) -> Process:
        return self.yard.worker(self.station, auth__key_file=str(self.file(name)), **settings)
