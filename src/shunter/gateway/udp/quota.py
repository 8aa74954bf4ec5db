"""How many tasks each UDP client has under way, so that none takes more than its part."""

from __future__ import annotations

import asyncio
from collections import Counter

from shunter.errors import StoreError
from shunter.store.port import Store
from shunter.wire.udp.peers import Peer


class Quota:
    """Counts what this dispatcher accepted, or is about to accept.

    What another one ended is noticed at the limit.
    """

    def __init__(self, most: int, store: Store) -> None:
        self._most = most
        self._store = store
        self._tasks: dict[Peer, dict[str, str]] = {}
        self._unanswered: Counter[Peer] = Counter()
        self._looking: set[asyncio.Task[None]] = set()

    def has_room(self, client: Peer) -> bool:
        """True if a client may add a task."""
        if len(self._tasks.get(client, ())) + self._unanswered[client] < self._most:
            return True
        if not self._looking:
            look = asyncio.get_running_loop().create_task(self._look(client))
            self._looking.add(look)
            look.add_done_callback(self._looking.discard)
        return False

    def asked(self, client: Peer) -> None:
        """Note a task that is about to be stored."""
        self._unanswered[client] += 1

    def answered(self, client: Peer) -> None:
        """Note that it is known what became of such a task."""
        self._unanswered[client] -= 1
        if not self._unanswered[client]:
            del self._unanswered[client]

    def took(self, client: Peer, unique_key: str, job_id: str) -> None:
        """Note a task that was stored, by its unique key."""
        self._tasks.setdefault(client, {})[unique_key] = job_id

    def is_under_way(self, client: Peer, unique_key: str) -> bool:
        """True if a task is known to be stored and not to have ended."""
        return unique_key in self._tasks.get(client, ())

    def ended(self, client: Peer, unique_key: str) -> None:
        tasks = self._tasks.get(client)
        if tasks is not None:
            tasks.pop(unique_key, None)
            if not tasks:
                del self._tasks[client]

    async def _look(self, client: Peer) -> None:
        """Drop what has ended without our doing."""
        tasks = sorted(self._tasks.get(client, {}).items())
        try:
            found = await self._store.get([job_id for _, job_id in tasks])
        except StoreError:
            return  # the next task that comes asks again
        for (unique_key, _), job in zip(tasks, found, strict=True):
            if job is None or job.status.is_final:
                self.ended(client, unique_key)
