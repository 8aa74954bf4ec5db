"""Something replaced in a module or a class, for as long as anyone needs it.

Runs in a sandbox are nested, and those of several threads overlap: whoever came first must not put
the original back while others still need what replaces it, nor the last one what the first put.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock


class SharedPatch:
    """Use it with `with`, from any thread; `replacements` are made of what they replace."""

    def __init__(self, *replacements: tuple[Any, str, Callable[[Any], Any]]) -> None:
        self._replacements = replacements
        self._lock = threading.Lock()
        self._users = 0
        self._patches = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                for owner, name, replacing in self._replacements:
                    patch = mock.patch.object(owner, name, replacing(getattr(owner, name)))
                    self._patches.enter_context(patch)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._patches.close()
