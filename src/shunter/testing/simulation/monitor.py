"""Listens on the wires between workers and dispatchers: what is confirmed must be stored.

A PONG says that a heartbeat has been committed, a TAKEN that reports have been. The monitor knows
when each heartbeat was sent and what each batch held, and looks into the store when the answer
arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from shunter.model.job import Job, Status
from shunter.model.report import Report
from shunter.testing.simulation.judge import Judge
from shunter.testing.simulation.links import Frames
from shunter.wire.messages import Beat, Hello, Kind, Pong, Reports, Taken, decode
from shunter.wire.udp.job_names import task_id_of, worker_id
from shunter.wire.udp.methods import CompletedTask
from shunter.wire.udp.packets import Command, Confirmation, parse
from shunter.wire.udp.peers import UdpAddress

_UP = {Kind.READY.value.encode(), Kind.PING.value.encode(), Kind.RESULTS.value.encode()}
_PONG, _TAKEN = Kind.PONG.value.encode(), Kind.TAKEN.value.encode()


class Monitor:
    """One for a run. Peers are the connections' identities, which are never used again."""

    def __init__(
        self,
        judge: Judge,
        now: Callable[[], float],
        stored: Callable[[str], Job | None],
        stored_beat: Callable[[str], float],
    ) -> None:
        self._judge = judge
        self._now, self._stored, self._stored_beat = now, stored, stored_beat
        self._ids: dict[bytes, str] = {}
        self._beats: dict[tuple[str, int], float] = {}
        self._batches: dict[tuple[str, int], tuple[Report, ...]] = {}

    def sent_up(self, peer: bytes, frames: Frames) -> None:
        """A worker sends something."""
        if len(frames) != 3 or frames[1] not in _UP:
            return
        match frames[1]:
            case b"READY":
                hello = decode(frames[2], Hello)
                self._ids[peer] = hello.worker_id
                self._beats[hello.worker_id, hello.beat] = self._now()
            case b"PING":
                if worker_id := self._ids.get(peer):
                    self._beats[worker_id, decode(frames[2], Beat).beat] = self._now()
            case b"RESULTS":
                if worker_id := self._ids.get(peer):
                    reports = decode(frames[2], Reports)
                    self._batches[worker_id, reports.batch] = reports.reports

    def came_down(self, peer: bytes, frames: Frames) -> None:
        """A worker hears something."""
        worker_id = self._ids.get(peer)
        if worker_id is None or len(frames) != 3:
            return
        if frames[1] == _PONG:
            self._check_pong(worker_id, decode(frames[2], Pong).beat)
        elif frames[1] == _TAKEN:
            for batch in decode(frames[2], Taken).batches:
                self._check_taken(worker_id, batch)

    def _check_pong(self, worker_id: str, beat: int) -> None:
        sent_at = self._beats.get((worker_id, beat))
        if sent_at is not None and self._stored_beat(worker_id) < sent_at:
            detail = f"{worker_id} has a PONG for heartbeat {beat}, which is not stored"
            self._judge.accuse("a heartbeat is answered after its commit", detail)

    def _check_taken(self, worker_id: str, batch: int) -> None:
        for report in self._batches.get((worker_id, batch), ()):
            job = self._stored(report.job_id)
            if (
                job is not None
                and job.status is Status.IN_PROGRESS
                and job.attempt == report.attempt
                and job.execution.worker_id == worker_id
            ):
                detail = f"{worker_id} has a TAKEN for {job.id}, which is still in progress"
                self._judge.accuse("a report is confirmed after its commit", detail, job.id)


class PacketMonitor:
    """The same for calculators: the answer to a completion says that it has been committed."""

    def __init__(self, judge: Judge, jobs: Callable[[], list[Job]]) -> None:
        self._judge, self._jobs = judge, jobs
        self._completions: dict[tuple[UdpAddress, int | str | None], CompletedTask] = {}

    def packet_sent(self, source: UdpAddress, target: UdpAddress, packet: bytes) -> None:
        if b'"completed_task"' in packet:
            command = parse(packet)
            if isinstance(command, Command) and isinstance(command.params, CompletedTask):
                self._completions[source, command.transmission_id] = command.params
        elif self._completions and b'"packet_type":2' in packet:
            answer = parse(packet)
            if isinstance(answer, Confirmation):
                self._check(target, answer)

    def _check(self, calculator: UdpAddress, answer: Confirmation) -> None:
        key = calculator, answer.transmission_id
        if key not in self._completions or answer.error is not None:
            return
        ended = self._completions[key]
        run = Status.IN_PROGRESS, worker_id(calculator), ended.attempt, ended.task_id
        for job in self._jobs():
            if (job.status, job.execution.worker_id, job.attempt, task_id_of(job)) == run:
                detail = f"a completion of {job.id} was confirmed, which is still in progress"
                self._judge.accuse("a report is confirmed after its commit", detail, job.id)
