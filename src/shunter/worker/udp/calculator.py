"""A worker over UDP: calculators that share one pool, as many as it has slots or more.

A task that a dispatcher takes away is not stopped here, since the dialogue has no word for that:
its own `timeout` ends it, and its completion is refused by its attempt.
Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from shunter.app import App
from shunter.errors import AppError
from shunter.model.job_log import LIVE_LOG_BYTES
from shunter.model.journal import LiveLog
from shunter.model.report import Advance, Held, Report
from shunter.net.dialogue import (
    DEFAULT_DISPATCHER,
    Dialogue,
    peer_name,
    place_to_bind,
    resolved,
    seal_of,
)
from shunter.net.environment import REAL, Environment
from shunter.wire.udp.keys import UdpKey
from shunter.wire.udp.methods import CompletedTask, Heartbeat, PerformTask
from shunter.wire.udp.packets import (
    MAX_PACKET_BYTES,
    Command,
    Confirmation,
    PacketFault,
    PacketReason,
    notice,
)
from shunter.wire.udp.peers import UdpAddress
from shunter.worker.host import HostSettings, WorkerHost
from shunter.worker.pool.process_pool import ProcessPool
from shunter.worker.pool.shared_pool import new_pool
from shunter.worker.udp.calculator_session import AlreadyHere, Begin, CalculatorSession, RefuseTask
from shunter.worker.udp.completions import after_refusal, completion, smaller, task_logs
from shunter.worker.udp.session_count import MOST_SESSIONS, SessionCount

FAREWELL_SECONDS = 5.0
LINGER_SECONDS = 0.2
"""How long a calculator that gives up a task stays, to refuse what it may be sent meanwhile."""

RETIRING_SECONDS = 3.0
"""For how long a calculator says that it takes nothing more, before it is gone."""


class CalculatorSettings(HostSettings, frozen=True, kw_only=True):
    """Where the dispatcher is, and how patient to be; there is a calculator for each slot."""

    dispatcher: UdpAddress = DEFAULT_DISPATCHER
    heartbeat: float = 1.0
    max_packet_bytes: int = MAX_PACKET_BYTES
    key: UdpKey | None = None


class _Place:
    """A session and its dialogue with the dispatcher."""

    __slots__ = ("completed_as", "dialogue", "gone_at", "has_rights", "session")

    def __init__(self, session: CalculatorSession, *, has_rights: bool) -> None:
        self.session = session
        self.gone_at = math.inf
        self.has_rights = has_rights
        """Nobody has to be asked first whether its key may do what it does."""
        self.completed_as: int | str = ""
        """The transmission id of the completion that is under way, or was last."""
        self.dialogue: Dialogue[CompletedTask | Heartbeat | None]

    def tell(self, *, now: float) -> None:
        heartbeat = self.session.heartbeat(now=now)
        if self.has_rights:
            self.dialogue.tell(heartbeat)
        else:
            self.has_rights = True
            self.dialogue.ask(heartbeat, None, give_up_after=RETIRING_SECONDS)

    def give_back(self) -> None:
        """Say that the task is not here any more: who is ready has none."""
        self.session.settled()
        self._say_surely(Heartbeat(status="ready"))

    def take_leave(self) -> None:
        """Say that nothing more is taken here."""
        self._say_surely(Heartbeat(status="busy"))

    def _say_surely(self, heartbeat: Heartbeat) -> None:
        """Say something that is not said again, until it is confirmed."""
        self.dialogue.ask(heartbeat, heartbeat, give_up_after=RETIRING_SECONDS)


class Calculator(WorkerHost):
    """One worker over UDP."""

    def __init__(
        self,
        app_spec: str,
        app: App,
        settings: CalculatorSettings = CalculatorSettings(),  # noqa: B008
        environment: Environment = REAL,
        pool: Callable[..., ProcessPool] = new_pool,
    ) -> None:
        self._log_bytes = min(LIVE_LOG_BYTES, settings.max_packet_bytes // 2)
        told = replace(settings.pool, live_log_bytes=self._log_bytes)
        super().__init__(app_spec, app, replace(settings, pool=told), environment, pool)
        self._tell_undeclared_limits(app, "UDP")
        self._settings, self._now = settings, environment.monotonic
        self._places: list[_Place] = []
        self._retiring: list[_Place] = []
        self._under_way: dict[Held, _Place] = {}
        self._seating = SessionCount(settings.pool.slots)
        if scheduled := [it.type for it in self._handlers if it.schedule is not None]:
            self._log.warning(
                "a heartbeat over UDP has no room for the schedules that the app declares; have a "
                "worker declare them, or put them by `shunter schedule put`",
                action="schedule",
                handlers=scheduled,
            )
        self._begun = 0
        self._is_refused = False
        self._check_heartbeat()

    @property
    def addresses(self) -> list[UdpAddress]:
        """Where dispatchers see the calculators."""
        return [place.dialogue.address for place in self._places]

    async def _prepare(self) -> None:
        self._dispatcher = await resolved(self._settings.dispatcher, self._environment)

    async def _open(self, tasks: asyncio.TaskGroup) -> None:
        self._seat(self._slots())
        self._log.info(
            "started", action="start", dispatcher=self._dispatcher, addresses=self.addresses
        )

    async def _close(self) -> None:
        for place in (*self._places, *self._retiring):
            place.dialogue.close()

    def _new_place(self) -> _Place:
        settings, dispatcher = self._settings, self._dispatcher
        session = CalculatorSession(
            self._types, heartbeat=settings.heartbeat, has_hooks=self._has_hooks
        )
        place = _Place(session, has_rights=settings.key is None)
        name = peer_name("calc", self._environment)
        place.dialogue = Dialogue(
            dispatcher,
            place_to_bind(dispatcher),
            on_command=partial(self._take_command, place),
            on_answer=partial(self._answered, place),
            seal=seal_of(settings.key, name, self._environment),
            max_packet_bytes=settings.max_packet_bytes,
            packets_at_once=1,  # it has one task at a time
            environment=self._environment,
        )
        return place

    def _check_heartbeat(self) -> None:
        most = self._settings.max_packet_bytes // 2  # a signature needs room, too
        size = len(notice(Heartbeat(status="ready", handlers=self._types)))
        if size > most:
            raise AppError(
                f"the names of its {len(self._types)} handlers take {size} bytes, a heartbeat has "
                f"room for {most}; spread the handlers over several apps, or use shorter names"
            )

    # ---- by the clock

    def _tick(self, now: float) -> None:
        for place in (*self._places, *self._retiring):
            if place.session.is_heartbeat_due(now=now):
                place.tell(now=now)
        if not self._is_leaving:
            self._look_around(now)

    def _look_around(self, now: float) -> None:
        """See to it that there are as many calculators as it needs to keep the pool busy."""
        self._seating.slots = slots = self._slots()
        if len(self._under_way) > slots:
            for run in self._pool.overdue(now):
                self._give_back(self._under_way.pop(run))
        begun, self._begun = self._begun, 0
        idle = sum(place.session.task is None for place in self._places)
        wanted = self._seating.wanted(
            len(self._places), begun=begun, idle=idle, window=self._pool.window
        )
        self._seat(wanted)
        for place in [place for place in self._retiring if place.gone_at <= now]:
            self._retiring.remove(place)
            place.dialogue.close()

    def _slots(self) -> int:
        """Return how many tasks can run at a time, as far as there may be sessions for them."""
        return min(self._pool.slots, max(MOST_SESSIONS, self._settings.pool.slots))

    def _seat(self, count: int) -> None:
        """Open calculators, or retire some of those that have no task."""
        while len(self._places) < count:
            self._places.append(self._new_place())
        idle = [place for place in self._places if place.session.task is None]
        for place in idle[: len(self._places) - count]:
            self._retire(place)
            place.take_leave()

    def _give_back(self, place: _Place) -> None:
        """Let another do a task that waits here behind a long one."""
        self._retire(place)
        place.give_back()

    def _retire(self, place: _Place) -> None:
        self._places.remove(place)
        self._retiring.append(place)
        place.gone_at = self._now() + RETIRING_SECONDS
        place.session.leave()

    # ---- from the dispatcher

    def _take_command(self, place: _Place, command: Command) -> None:
        task = command.params
        if not isinstance(task, PerformTask):
            message = "not for a calculator to receive; send perform_task"
            place.dialogue.refuse(command, PacketReason.METHOD, message, "method")
            return
        if place.session.is_confirmed_by(task):
            place.dialogue.stop_asking(place.completed_as)
            self._settle(place)
        match place.session.offered(task, under_way=self._under_way.keys()):
            case Begin(run):
                place.dialogue.confirm(command)
                self._under_way[Held(run.job_id, run.attempt)] = place
                self._begun += 1
                self._start([run])
            case AlreadyHere():
                place.dialogue.confirm(command)
            case RefuseTask(code, message, field):
                place.dialogue.refuse(command, code, message, field)

    # ---- to the dispatcher

    def _send(self, reports: Sequence[Report], advances: Sequence[Advance]) -> None:
        """Complete all tasks whose runs have ended; of progress this dialogue says nothing."""
        for report in reports:
            self._complete(report)

    def _tell_log(self, run: Held, log: LiveLog) -> None:
        """Tell as much of a log as a packet holds; what gets lost, the next one has as well."""
        place = self._under_way.get(run)
        task = None if place is None or place.session.has_ended else place.session.task
        if place is not None and task is not None and task.attempt is not None:
            for told in task_logs(task, log):
                if place.dialogue.has_room_for(told):
                    place.dialogue.tell(told)
                    return

    def _return_runs(self, runs: Sequence[Held], reason: str) -> None:
        for run in runs:
            if (place := self._under_way.pop(run, None)) is not None:
                self._give_back(place)

    def _complete(self, report: Report) -> None:
        place = self._under_way.get(Held(report.job_id, report.attempt))
        if place is not None and (task := place.session.task) is not None:
            place.session.ended(now=self._now())
            self._ask(place, task, completion(task, report, most_log=self._log_bytes))

    def _ask(self, place: _Place, task: PerformTask, completed: CompletedTask | None) -> None:
        """Send a completion; where it is too large, send that, and as much as there is room for."""
        while completed is not None:
            try:
                place.completed_as = place.dialogue.ask(completed, completed)
                return
            except PacketFault as fault:
                completed = smaller(task, completed, str(fault))
        self._settle(place, "no packet has room even for the error")

    def _answered(
        self, place: _Place, about: CompletedTask | Heartbeat | None, answer: Confirmation | None
    ) -> None:
        if about is None:
            self._check_rights(place, answer)
        elif isinstance(about, Heartbeat):
            if about.status == "ready" and answer is not None:
                place.take_leave()
        else:
            self._completion_answered(place, about, answer)

    def _check_rights(self, place: _Place, answer: Confirmation | None) -> None:
        """Say so where a dispatcher does not let this key do what it is here for."""
        if answer is None:
            place.has_rights = False  # nobody has answered: ask with the next heartbeat
        elif (error := answer.error) is not None and not self._is_refused:
            self._is_refused = True
            self._log.error(
                "the dispatcher gives this key no tasks", action="refused", reason=error.message
            )

    def _completion_answered(
        self, place: _Place, completed: CompletedTask, answer: Confirmation | None
    ) -> None:
        task = place.session.task
        if task is None:
            return  # given up while it was on its way
        if answer is None:
            # Nobody is there. The result may have cost hours: keep it until somebody is.
            self._ask(place, task, completed)
        elif (error := answer.error) is None:
            self._settle(place)
        elif (instead := after_refusal(task, completed, error.code, error.message or "")) is None:
            self._settle(place, error.message or error.code)
        else:
            self._ask(place, task, instead)

    def _settle(self, place: _Place, refusal: str = "") -> None:
        run = place.session.run
        if refusal:
            self._log.warning("a completion was dropped", action="refused", run=run, reason=refusal)
        if run is not None:
            self._under_way.pop(run, None)
        place.session.settled()
        if self._is_leaving:
            place.tell(now=self._now())  # it takes nothing more, though it is free

    # ---- leaving

    def _say_leaving(self) -> None:
        running = [run.job_id for run in self._under_way]
        self._log.info("leaving", action="resign", running=running)
        for place in self._places:
            place.session.leave()
            place.tell(now=self._now())

    async def _give_up(self, undone: Sequence[Held]) -> None:
        if undone:
            await self._hand_back_all(undone)
        await self._wait_until(
            lambda: not any(len(place.dialogue) for place in self._places), within=FAREWELL_SECONDS
        )

    async def _hand_back_all(self, runs: Sequence[Held]) -> None:
        """Let the dispatcher know that these will not be done, so that another does them now.

        A calculator that says that it is ready has no task. That holds for one that is leaving,
        too; what it is offered until it has said that it is busy, it declines. The first pause
        keeps the word apart from a confirmation that was sent just before.
        """
        self._log.warning("tasks given up", action="resign", runs=[run.job_id for run in runs])
        places = [self._under_way.pop(run) for run in runs if run in self._under_way]
        await asyncio.sleep(LINGER_SECONDS)
        for place in places:
            place.give_back()
        await asyncio.sleep(LINGER_SECONDS)
        for place in places:
            place.tell(now=self._now())
        await asyncio.sleep(LINGER_SECONDS)
