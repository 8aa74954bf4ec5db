"""Dispatchers that look at schedules on one store, on a virtual clock, and die at any call."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.dispatch.schedule_records import change_schedule
from shunter.dispatch.tick_sweep import TickSweep
from shunter.model.identity import timed_id
from shunter.model.schedule import Overlap, ScheduleDraft, ScheduleTerms, put
from shunter.model.submission import Submission
from shunter.model.timing import Timing
from shunter.store.memory import MemoryStore
from shunter.testing.finish import finish

FATAL = ("records", "swap_records", "commit", "get")
"""Calls that a dispatcher may die before, or after which it may die before it hears the answer."""


class Died(BaseException):
    """The process is gone."""


class MortalStore:
    """A store as one process sees it: what it did is done, though the process may be dead."""

    def __init__(self, truth: MemoryStore, dies: Callable[[], bool]) -> None:
        self._truth, self._dies = truth, dies

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._truth, name)
        if name not in FATAL:
            return call

        async def mortal(*args: Any, **kwargs: Any) -> Any:
            if self._dies():
                raise Died
            answer: Awaitable[Any] = await call(*args, **kwargs)
            if self._dies():
                raise Died
            return answer

        return mortal


class Node:
    """One dispatcher process, with a clock that is off by `skew`."""

    def __init__(self, world: ScheduleWorld, name: str, skew: float) -> None:
        self.skew, self._world = skew, world
        store: Any = MortalStore(world.store, world.draws_death)
        self.dispatcher = Dispatcher(
            store,
            dispatcher_id=name,
            rules=Rules(),
            now=lambda: world.now + skew,
            jitter=world.random.random,
        )
        self.ticks = TickSweep(self.dispatcher, new_id=world.new_id, tell=world.tell)

    def step(self) -> None:
        """Sweep and take a turn, as the loop of a dispatcher does."""
        finish(self.ticks.sweep())
        while self.dispatcher.has_arrivals:
            finish(self.dispatcher.turn())
        finish(self.ticks.sweep())

    @property
    def next_look(self) -> float | None:
        look = self.ticks.timetable.next_look
        return None if look is None else look - self.skew


class ScheduleWorld:
    """Some dispatchers and what they share. `deaths` is how likely each store call is the last."""

    def __init__(self, seed: int, *, now: float, nodes: int = 3, deaths: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.now, self.deaths, self.died = now, deaths, 0
        self.told: list[tuple[str, str]] = []
        self.store = MemoryStore()
        finish(self.store.open())
        self._born = 0
        self._down: list[float] = []
        self.nodes = [self._node() for _ in range(nodes)]

    def new_id(self) -> str:
        return timed_id(self.now, self.random.getrandbits(80))

    def tell(self, name: str, text: str) -> None:
        self.told.append((name, text))

    def draws_death(self) -> bool:
        return self.random.random() < self.deaths

    def put(self, name: str, timing: Timing, **terms: Any) -> None:
        wanted = ScheduleTerms(timing=timing, **{"overlap": Overlap.ALL, **terms})
        draft = ScheduleDraft(terms=wanted, job=Submission("", name, b"\xc0"))
        now = self.now
        finish(
            change_schedule(
                self.store, "", name, lambda it: put(it, name, draft, namespace="", now=now)
            )
        )

    def run(self, until: float, *, outage: float = 0.0, every: float = 86400.0) -> None:
        """Let time pass from tick to tick; who dies is back within `outage` seconds."""
        while self.now < until:
            for node in self.random.sample(self.nodes, len(self.nodes)):
                try:
                    node.step()
                except Died:
                    self.died += 1
                    self.nodes.remove(node)
                    self._down.append(self.now + self.random.random() * outage)
            self.now = min([until, *self._events(every)])
            back = [at for at in self._down if at <= self.now]
            self._down = [at for at in self._down if at > self.now]
            self.nodes += [self._node() for _ in back]

    def ticks(self) -> Counter[tuple[str, float | None]]:
        """Return how many jobs there are of each tick."""
        return Counter((job.type, job.scheduled) for job in self.store._jobs.values())

    def _events(self, every: float) -> list[float]:
        looks = (it for node in self.nodes if (it := node.next_look) is not None)
        return [*(max(at, self.now + 0.1) for at in looks), *self._down, self.now + every]

    def _node(self) -> Node:
        self._born += 1
        return Node(self, f"d-{self._born}", self.random.uniform(-60, 60) if self.deaths else 0.0)
