"""Which of the due callbacks are made next, so that no host holds up the others. Pure.

So many calls may be under way at once. A host that nobody knows yet gets a quarter of these
places, and more as it answers, up to three quarters. One that is slow, because a call has been
under way for a while or the last one took so long, gets a single place, and all slow ones together
no more than half of them. Hosts with something to be called for take turns. Each host's queue is
bounded; what does not fit stays in the store.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

from shunter.model.job import Job

SLOW_SECONDS = 0.5
"""A host that takes longer to answer is slow."""
MOST_QUEUED = 64
"""So many due callbacks of one host are kept in mind."""
MOST_HOSTS = 1024
"""Of so many hosts it is known how they answer; of the rest it is learnt again."""


def host_of(job: Job) -> str:
    """Return whom a callback goes to: scheme, name and port."""
    assert job.callback is not None
    scheme, _, rest = job.callback.url.partition("://")
    return f"{scheme}://{re.split('[/?#]', rest, maxsplit=1)[0]}".lower()


class _Host:
    __slots__ = ("calling", "limit", "queue", "was_slow")

    def __init__(self, limit: int) -> None:
        self.queue: dict[str, Job] = {}
        self.calling: dict[str, float] = {}
        """Since when; the oldest comes first."""
        self.limit = limit
        self.was_slow = False

    def is_slow(self, now: float) -> bool:
        oldest = next(iter(self.calling.values()), now)
        return self.was_slow or now - oldest >= SLOW_SECONDS


class CallbackPlaces:
    """The places of one dispatcher, and who waits for them."""

    def __init__(self, at_once: int, *, jitter: Callable[[], float]) -> None:
        self._at_once, self._jitter = at_once, jitter
        self._first_limit = max(1, at_once // 4)
        self._limit = max(1, at_once * 3 // 4)
        self._most_slow = max(1, at_once // 2)
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._calling: dict[str, str] = {}
        self._queued = 0
        self._now = 0.0

    @property
    def room(self) -> int:
        """How many more calls may be made at once."""
        return self._at_once - len(self._calling)

    @property
    def has_next(self) -> bool:
        """True if a call can be made now."""
        return self._able() > 0

    @property
    def is_hungry(self) -> bool:
        """True if more calls could be made than are known of."""
        return self._able() < self.room

    def _able(self) -> int:
        """Return how many calls could be made now, of those that wait here."""
        if not self._queued or self.room <= 0:
            return 0
        quick = slow = 0
        for host in self._hosts.values():
            able = min(len(host.queue), self._room_of(host))
            if host.is_slow(self._now):
                slow += able
            else:
                quick += able
        return min(quick + min(slow, self._room_of_slow()), self.room)

    def _room_of_slow(self) -> int:
        hosts, now = self._hosts.values(), self._now
        return max(0, self._most_slow - sum(len(h.calling) for h in hosts if h.is_slow(now)))

    def add(self, job: Job, *, now: float) -> bool:
        """Take note of a due callback; False if so many of its host wait already."""
        self._now = now
        host = self._host(host_of(job))
        if job.id in host.queue:
            return True
        if len(host.queue) >= MOST_QUEUED:
            return False
        host.queue[job.id] = job
        self._queued += 1
        return True

    def is_slow(self, job: Job, *, now: float) -> bool:
        """True if whom this callback goes to is slow to answer."""
        host = self._hosts.get(host_of(job))
        return host is not None and host.is_slow(now)

    def next_calls(self, *, now: float) -> list[Job]:
        """Take what can be called for now, one of each host in turn."""
        self._now = now
        chosen: list[Job] = []
        if not self._queued:
            return chosen
        rooms = {name: self._room_of(host) for name, host in self._hosts.items() if host.queue}
        slow_room = self._room_of_slow()
        while rooms and len(chosen) < self.room:
            name, room = next(iter(rooms.items()))
            del rooms[name]
            host = self._hosts[name]
            is_slow = host.is_slow(now)
            if not host.queue or not room or (is_slow and not slow_room):
                continue
            chosen.append(self._drawn(host))
            slow_room -= is_slow
            rooms[name] = room - 1
            self._hosts.move_to_end(name)
        return chosen

    def begin(self, job: Job, *, now: float) -> None:
        """Note that a call is being made."""
        self._now = now
        name = host_of(job)
        self._calling[job.id] = name
        self._host(name).calling[job.id] = now

    def end(self, job_id: str, *, now: float) -> None:
        """Note that a call is over, however it went: what counts is how long it took."""
        self._now = now
        name = self._calling.pop(job_id, None)
        if name is None:
            return
        host = self._hosts[name]
        took = now - host.calling.pop(job_id)
        host.was_slow = took >= SLOW_SECONDS
        host.limit = self._first_limit if host.was_slow else min(host.limit + 1, self._limit)

    def _room_of(self, host: _Host) -> int:
        limit = 1 if host.is_slow(self._now) else host.limit
        return max(0, limit - len(host.calling)) if host.queue else 0

    def _drawn(self, host: _Host) -> Job:
        """Take one by chance: other dispatchers have read the same list."""
        self._queued -= 1
        ids = list(host.queue)
        return host.queue.pop(ids[int(self._jitter() * len(ids))])

    def _host(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(self._first_limit)
            if len(self._hosts) > MOST_HOSTS:
                self._forget_one(name)
        return host

    def _forget_one(self, newest: str) -> None:
        for name, host in self._hosts.items():
            if not host.queue and not host.calling and name != newest:
                del self._hosts[name]
                return
