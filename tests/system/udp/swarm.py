"""Many calculators in one loop, each with a socket of its own; they do nothing, and count it."""

from __future__ import annotations

import asyncio
from collections import Counter

from shunter.net.dialogue import Dialogue
from shunter.wire.udp.methods import CompletedTask, Heartbeat, PerformTask
from shunter.wire.udp.packets import Command, Confirmation
from shunter.wire.udp.peers import UdpAddress


class Idler:
    """A calculator that completes each task at once; `runs` counts how often each was done."""

    def __init__(self, dispatcher: UdpAddress, runs: Counter[str]) -> None:
        self._runs = runs
        self._unconfirmed = 0
        self._dialogue: Dialogue[None] = Dialogue(
            dispatcher, ("127.0.0.1", 0), on_command=self._perform, on_answer=self._confirmed
        )

    def beat(self) -> None:
        self._dialogue.tell(Heartbeat(status="busy" if self._unconfirmed else "ready"))

    def close(self) -> None:
        self._dialogue.close()

    def _perform(self, command: Command) -> None:
        task = command.params
        assert isinstance(task, PerformTask)
        self._dialogue.confirm(command)
        self._runs[str(task.task_id)] += 1
        self._unconfirmed += 1
        done = CompletedTask(task_id=task.task_id, attempt=task.attempt, result=task.payload)
        self._dialogue.ask(done, None)

    def _confirmed(self, about: None, answer: Confirmation | None) -> None:
        self._unconfirmed -= 1


class Swarm:
    """Calculators with a heartbeat a second, spread over it."""

    def __init__(self, dispatcher: UdpAddress, size: int) -> None:
        self.runs: Counter[str] = Counter()
        self._idlers = [Idler(dispatcher, self.runs) for _ in range(size)]
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            for idler in self._idlers:
                idler.beat()
                await asyncio.sleep(1.0 / len(self._idlers))

    def close(self) -> None:
        self._beating.cancel()
        for idler in self._idlers:
            idler.close()
