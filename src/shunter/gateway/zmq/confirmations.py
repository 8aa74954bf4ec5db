"""Confirmations of reports that wait a moment, so that several share a message.

A worker that gets no job meanwhile does not need to know at once that its reports are committed.
A message of its own for each would wake four threads, while the next job is on its way. It holds
nothing back that anybody waits for: a worker repeats reports only after seconds.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

WAIT_SECONDS = 0.005


class Confirmations:
    """Numbers of batches by worker, until `send` is called with them."""

    def __init__(self, send: Callable[[str, Sequence[int]], None]) -> None:
        self._send = send
        self._waiting: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, worker_id: str, batches: Sequence[int]) -> None:
        """Send these with whatever comes within the next moment."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(WAIT_SECONDS, self._send_all)
        self._waiting[worker_id] += batches

    def send_now(self, worker_id: str, batches: Sequence[int]) -> None:
        """Send these at once, with those that wait."""
        self._send(worker_id, [*self._waiting.get(worker_id, ()), *batches])
        if worker_id in self._waiting:
            self._waiting[worker_id].clear()

    def _send_all(self) -> None:
        waiting = [(worker_id, batches) for worker_id, batches in self._waiting.items() if batches]
        self._waiting.clear()
        for worker_id, batches in waiting:
            self._send(worker_id, batches)
