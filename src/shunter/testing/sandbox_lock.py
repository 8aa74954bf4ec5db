"""Who may work on a sandbox's dispatcher and store: one thread at a time, and none runs a handler.

Handlers, their threads and clients ask the sandbox from threads of their own. Whoever runs a
handler gives the lock up meanwhile, for the handler may wait for a thread that needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SandboxLock:
    """A lock that its holder may take again, and give up altogether for a while."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: int | None = None
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other thread holds it, and hold it."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._holder in (None, me))
            self._holder = me
            self._depth += 1
        try:
            yield
        finally:
            with self._changed:
                self._depth -= 1
                if not self._depth:
                    self._let_go()

    @contextmanager
    def given_up(self, until: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Let others hold it, if it is held here; in the end wait until `until`, and hold it."""
        with self._changed:
            depth = self._depth if self._holder == threading.get_ident() else 0
            if depth:
                self._let_go()
        try:
            yield
        finally:
            with self._changed:
                if depth:
                    self._changed.wait_for(lambda: self._holder is None and until())
                    self._holder, self._depth = threading.get_ident(), depth

    def _let_go(self) -> None:
        self._holder, self._depth = None, 0
        self._changed.notify_all()
