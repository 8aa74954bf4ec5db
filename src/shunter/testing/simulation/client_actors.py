"""Clients and receivers of callbacks, in simulated processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from shunter.client.async_client import AsyncClient
from shunter.client.handle import AsyncJob
from shunter.client.udp_client import AsyncTask, AsyncUdpClient
from shunter.errors import DispatcherBusy, JobRefused, ResultTimeout, ShunterError
from shunter.model.job import Job
from shunter.model.retry import Retry
from shunter.model.unique import Unique
from shunter.testing.simulation.actors import HTTP_PORT, UDP_PORT, World, frontend, web_address
from shunter.testing.simulation.callback_judge import CLIENT_PORT, given_up, is_settled
from shunter.testing.simulation.processes import Process
from shunter.testing.simulation.scenario import PlannedJob, PlannedSchedule
from shunter.testing.simulation.stepped_runs import SIGNAL
from shunter.wire.messages import Outcome
from shunter.wire.udp.job_names import unique_key
from shunter.wire.udp.methods import Packed

ASK_AGAIN_SECONDS = 0.5
TIMEOUT_SECONDS = 4.0
LOOK_SECONDS = 2.0


class _Submitter:
    """What clients of all kinds share: their jobs, one after the other, until each has ended."""

    def __init__(self, process: Process, world: World) -> None:
        self.process = process
        self._world = world
        self._jobs = [job for job in world.scenario.jobs if job.client == process.name]

    def terminate(self) -> None:
        self._main.cancel()

    def died(self) -> None:
        """Its jobs go on."""

    def _remember_main(self) -> None:
        self._main = cast(asyncio.Task[None], asyncio.current_task())

    def _open_jobs(self) -> list[PlannedJob]:
        return [job for job in self._jobs if job.id not in self._world.settled]

    async def _until(self, plan: PlannedJob) -> None:
        await asyncio.sleep(max(0.0, plan.at - self.process.time.now))

    def _tell(self, what: str) -> None:
        self._world.tell(self.process.name, what)

    def _settle(self, plan: PlannedJob, how: str, what: str) -> None:
        self._world.settled[plan.id] = how
        self._tell(what)

    def _heard(self, plan: PlannedJob, job_id: str, outcome: Outcome) -> None:
        self._world.judge.told(job_id, outcome)
        word = outcome.status.word
        self._settle(plan, word, f"hears that {job_id} is {word}")


class ClientActor(_Submitter):
    """A client that repeats what has no receipt, and waits for the end of what has one."""

    def __init__(self, process: Process, world: World) -> None:
        super().__init__(process, world)
        names = world.scenario.dispatchers
        at = world.scenario.clients.index(process.name) % len(names)
        self._client = AsyncClient(
            *(frontend(name) for name in (*names[at:], *names[:at])),
            timeout=TIMEOUT_SECONDS,
            environment=process.environment,
        )

    async def main(self) -> None:
        self._remember_main()
        async with self._client, asyncio.TaskGroup() as group:
            for schedule in self._world.scenario.schedules:
                if schedule.client == self.process.name:
                    group.create_task(self._keep(schedule))
            if self._world.scenario.is_workflow and self._open_jobs():
                await self._submit_graph()
                for job in self._open_jobs():
                    group.create_task(self._follow(job, self._client.job_handle(job.id, job.type)))
                return
            for job in self._open_jobs():
                group.create_task(self._see_through(job))

    async def _see_through(self, plan: PlannedJob) -> None:
        await self._until(plan)
        handle = await self._submitted(plan)
        if handle is not None:
            await self._follow(plan, handle)

    async def _keep(self, plan: PlannedSchedule) -> None:
        """Put a schedule, if no app declares it, and pause it when it has caught up."""
        schedules, time = self._world.schedules, self.process.time
        if not plan.is_declared and not schedules.is_known(plan):
            await asyncio.sleep(max(0.0, plan.at - time.now))
            await self._insist(lambda: self._put(plan), f"schedule {plan.name} is put")
        quiet_from = self._world.scenario.quiet_from
        await asyncio.sleep(max(0.0, quiet_from - time.now))
        while not schedules.is_caught_up(plan, quiet_from):
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        if not schedules.is_paused(plan):
            pause = self._client.schedules.pause
            await self._insist(lambda: pause(plan.name), f"schedule {plan.name} is paused")

    async def _put(self, plan: PlannedSchedule) -> object:
        return await self._client.schedules.put(
            plan.name,
            plan.name,
            schedule=plan.timing,
            overlap=plan.overlap,
            catch_up=plan.catch_up,
            jitter=plan.jitter,
        )

    async def _insist(self, ask: Callable[[], Awaitable[object]], what: str) -> None:
        """Ask for something until it is done."""
        while True:
            try:
                await ask()
            except ShunterError as error:
                self._tell(f"does not know whether {what}: {error}")
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                self._tell(f"knows that {what}")
                return

    async def _submit_graph(self) -> None:
        """Submit all jobs at once, until there is a receipt."""
        await self._until(self._jobs[0])
        submissions = [
            replace(
                self._client.template(plan.type, msgspec.msgpack.encode(plan.task)),
                id=plan.id,
                after=plan.after or None,
                when=plan.when or None,
                run="run",
            )
            for plan in self._jobs
        ]
        while True:
            try:
                await self._client.send_graph(submissions)
            except ShunterError as error:
                self._tell(f"has no receipt for its graph yet: {error}")
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                self._tell("has the receipt for its graph")
                return

    async def _follow(self, plan: PlannedJob, handle: AsyncJob[Any]) -> None:
        self._world.judge.receipt(handle.id)
        async with asyncio.TaskGroup() as group:
            if plan.cancel_after is not None:
                group.create_task(self._cancel(handle, plan.cancel_after))
            if plan.task.told_after is not None:
                group.create_task(self._signal(handle, plan.task.told_after))
            outcome = await handle.wait()
        self._heard(plan, handle.id, outcome)

    async def _signal(self, handle: AsyncJob[Any], after: float) -> None:
        """Send a job what it waits for, until somebody has said that it is kept."""
        await asyncio.sleep(after)
        while True:
            try:
                await handle.signal(SIGNAL, 1, id="the one")
            except JobRefused:
                return
            except ShunterError as error:
                self._tell(f"does not know whether {handle.id} has its signal: {error}")
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                self._tell(f"knows that {handle.id} has its signal")
                return

    async def _submitted(self, plan: PlannedJob) -> AsyncJob[Any] | None:
        options: dict[str, Any] = {
            "timeout": plan.timeout,
            "retry": Retry(limit=plan.retries, delay=0.5) if plan.retries else None,
            "delay": plan.delay,
            "unique_key": plan.unique_key,
            "effects": "at_most_once" if plan.at_most_once else None,
            "expires_in": plan.expires_in,
            "unique": Unique("debounced", then="postpone") if plan.is_debounced else None,
            "callback": web_address(plan.callback) if plan.callback else None,
            "keys": {"tenant": plan.tenant} if plan.tenant else None,
        }
        view = self._client.with_options(**options)
        payload = msgspec.msgpack.encode(plan.task)
        while True:
            try:
                handle = await view.submit_raw(plan.type, payload, job_id=plan.id)
            except JobRefused as error:
                self._settle(plan, "refused", f"is refused: {error}")
                return None
            except ShunterError as error:
                self._tell(f"has no receipt for {plan.id} yet: {error}")
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                also = "" if handle.id == plan.id else f", which is {handle.id}"
                self._tell(f"has the receipt for {plan.id}{also}")
                return handle

    async def _cancel(self, handle: AsyncJob[Any], after: float) -> None:
        await asyncio.sleep(after)
        while not handle.is_done:
            try:
                await handle.cancel()
            except JobRefused:
                return
            except ShunterError:
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                self._tell(f"has asked for {handle.id} to be cancelled")
                return


class UdpClientActor(_Submitter):
    """A client of one dispatcher, over UDP."""

    def __init__(self, process: Process, world: World) -> None:
        super().__init__(process, world)
        hosts, names = world.network.datagrams, world.scenario.dispatchers
        at = world.scenario.udp_clients.index(process.name) % len(names)
        self._address = hosts.host_of(process.name), CLIENT_PORT
        self._client = AsyncUdpClient(
            (hosts.host_of(names[at]), UDP_PORT),
            timeout=TIMEOUT_SECONDS,
            bind=self._address,
            environment=process.environment,
        )

    async def main(self) -> None:
        self._remember_main()
        async with self._client, asyncio.TaskGroup() as group:
            for job in self._open_jobs():
                group.create_task(self._see_through(job))
            await asyncio.Event().wait()  # it stays, to confirm what it is told again

    async def _see_through(self, plan: PlannedJob) -> None:
        await self._until(plan)
        task = await self._added(plan)
        if task is None:
            return
        job = self._stored(plan)
        self._world.judge.receipt(plan.id if job is None else job.id)
        if job is None:
            return
        while not task.is_done:
            try:
                await task.wait(LOOK_SECONDS)
            except ResultTimeout:
                if why := self._will_never_hear(plan):
                    self._settle(plan, "unheard", f"will not hear of {plan.id}: {why}")
                    return
        assert task.outcome is not None
        self._heard(plan, job.id, task.outcome)

    async def _added(self, plan: PlannedJob) -> AsyncTask | None:
        payload = Packed(msgspec.msgpack.encode(plan.task))
        while True:
            try:
                task = await self._client.add_task(plan.type, payload, task_id=plan.id)
            except ShunterError as error:
                if isinstance(error, JobRefused) and not isinstance(error, DispatcherBusy):
                    self._settle(plan, "refused", f"is refused: {error}")
                    return None
                self._tell(f"has no confirmation for {plan.id} yet: {error}")
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            else:
                self._tell(f"has {plan.id} confirmed")
                return task

    def _stored(self, plan: PlannedJob) -> Job | None:
        return self._world.truth.keyed(unique_key(self._address, plan.id))

    def _will_never_hear(self, plan: PlannedJob) -> str:
        """Say why no notice can come any more, where the protocol allows for that."""
        job = self._stored(plan)
        if job is None or not is_settled(job):
            return ""
        if given_up(job):
            return "its notice was given up"
        return "an earlier life confirmed its notice" if self.process.life > 1 else ""


class ReceiverActor:
    """Takes callbacks."""

    def __init__(self, process: Process, world: World) -> None:
        self.process = process
        self._world = world
        self._server = process.environment.http_server(
            self._take, process.name, HTTP_PORT, key="", remedy=""
        )

    async def main(self) -> None:
        await self._server.serve()

    def terminate(self) -> None:
        self._server.stop()

    def died(self) -> None:
        """Dispatchers call again."""

    async def _take(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        body: bytes = (await receive())["body"]
        job_id = self._world.callbacks.called(body, int(headers[b"shunter-try"]))
        self._world.tell(self.process.name, f"is called back for {job_id}")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})
