"""Tells dispatchers that this worker is there, and again where in doubt; and that it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import structlog
from msgspec.structs import replace

from shunter.net.environment import Environment
from shunter.net.http_calls import Answer, Caller, CallFailed
from shunter.worker.http import schedule
from shunter.worker.http.offers import Introduction, Registered
from shunter.worker.http.schedule import DispatcherRing
from shunter.worker.http.verdicts import SHOWN_CHARACTERS, fault_in

COLLECTION = "/dispatcher/workers/"
ANSWER_SECONDS = 10.0


class Registrar:
    """`on_registered` hears the id that dispatchers know this worker by."""

    def __init__(
        self,
        caller: Caller,
        circle: DispatcherRing,
        introduction: Introduction,
        environment: Environment,
        *,
        on_registered: Callable[[str], None],
    ) -> None:
        self._caller, self._circle = caller, circle
        self._now, self._spread = environment.monotonic, environment.random
        self._introduction = introduction
        self._on_registered = on_registered
        self._due = asyncio.Event()
        self._is_failing = False
        self.is_busy = False
        self.id: str | None = None
        self._log = structlog.get_logger("shunter.worker")

    def again(self) -> None:
        """Register, now or as soon as somebody answers."""
        self._due.set()

    @property
    def max_jobs(self) -> int:
        """How many jobs dispatchers are told that they may give."""
        return self._introduction.maxJobs

    def offer(self, max_jobs: int) -> None:
        """Register with another number of jobs."""
        self._introduction = replace(self._introduction, maxJobs=max_jobs)
        self.again()

    async def run(self) -> None:
        """Register each time that it is due."""
        while True:
            await self._due.wait()
            self._due.clear()
            self.is_busy = True
            await self._register()
            self.is_busy = False

    async def _register(self) -> None:
        failures = 0
        while True:
            place = self._circle.current
            answer = await self._ask(
                "PUT", place, COLLECTION, msgspec.json.encode(self._introduction)
            )
            found = answer if isinstance(answer, str) else self._take(place, answer)
            if found is None:
                return
            if not self._is_failing:
                self._is_failing = True
                self._log.warning(
                    "can't register, trying again; start a dispatcher, or name one that serves "
                    "HTTP with --dispatcher",
                    action="register",
                    dispatcher=place,
                    found=found,
                )
            failures += 1
            self._circle.failed(place)
            await asyncio.sleep(schedule.pause(failures, len(self._circle), spread=self._spread()))

    def _take(self, place: str, answer: Answer) -> str | None:
        """Take the id out of an answer, or say what is wrong with it."""
        if not answer.is_success:
            return f"{answer.status} {fault_in(answer.body).message[:SHOWN_CHARACTERS]}".rstrip()
        try:
            registered = msgspec.json.decode(answer.body, type=Registered)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"{answer.status}, and no document with an id"
        worker_id = registered.id
        for note in registered.notes:
            self._log.warning(note, action="schedule", dispatcher=place)
        if self._is_failing or worker_id != self.id:
            self._log.info("registered", action="register", dispatcher=place, worker=worker_id)
        self._is_failing = False
        self.id = worker_id
        self._on_registered(worker_id)
        return None

    async def resign(self, *, within: float) -> bool:
        """Tell a dispatcher that this worker has no jobs any more and leaves."""
        if self.id is None:
            return True
        deadline, failures = self._now() + within, 0
        while (left := deadline - self._now()) > 0:
            place = self._circle.current
            path = COLLECTION + quote(self.id, safe="")
            found = await self._ask("DELETE", place, path, None, seconds=left)
            if isinstance(found, Answer) and found.status < 500:
                return True
            failures += 1
            self._circle.failed(place)
            wait = schedule.pause(failures, len(self._circle), spread=self._spread())
            await asyncio.sleep(min(wait, left))
        return False

    async def _ask(
        self,
        method: str,
        place: str,
        path: str,
        document: bytes | None,
        *,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer | str:
        """Return the answer, or why there is none."""
        try:
            return await self._caller.call(method, place + path, seconds=seconds, json=document)
        except CallFailed as error:
            return str(error)
