"""Performs the faults of a scenario, and their ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shunter.testing.simulation.actors import Actor
from shunter.testing.simulation.scenario import Fault, FaultKind
from shunter.testing.simulation.worker_actors import WorkerActor

if TYPE_CHECKING:
    from shunter.testing.simulation.simulator import Simulator

RESTART_SECONDS = 0.5
"""How soon a process that has not ended yet is looked at again."""

_OF_PACKETS = {
    FaultKind.PACKET_LOSS: ("lost", "get lost"),
    FaultKind.DUPLICATION: ("duplicated", "arrive twice"),
    FaultKind.REORDERING: ("late", "are late"),
}


class Faults:
    """All that goes wrong in one run. `covered` counts what really came about."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._time = simulator.time
        self.covered: Counter[FaultKind] = Counter()

    def begin(self, fault: Fault) -> None:
        self.covered[fault.kind] += 1
        match fault.kind:
            case FaultKind.KILL:
                self._kill(fault)
            case FaultKind.TERMINATE:
                self._terminate(fault)
            case FaultKind.FREEZE | FaultKind.FREEZE_PARENT:
                self._freeze(fault)
            case FaultKind.SLOW_DEATH:
                actor = self._simulator.actors[fault.target]
                assert isinstance(actor, WorkerActor)
                self._tell(fault, f"has children that take up to {fault.amount:g} s to die")
                actor.pool.dying_seconds = fault.amount
            case FaultKind.LATE_PACKETS:
                self._simulator.wires.has_late_packets = True
            case FaultKind.CUT | FaultKind.ISOLATE:
                self._cut(fault)
            case FaultKind.RESET:
                self._tell(fault, f"loses its connections with {fault.other}")
                self._simulator.network.reset(fault.target, fault.other)
            case FaultKind.DELAY | FaultKind.SLOW:
                self._slow_down(fault)
            case FaultKind.PACKET_LOSS | FaultKind.DUPLICATION | FaultKind.REORDERING:
                self._spoil_packets(fault)
            case FaultKind.HANG | FaultKind.REFUSE:
                self._spoil_server(fault)
            case FaultKind.LOST_ANSWERS:
                self._lose_answers(fault)
            case FaultKind.CLOCK_OFF | FaultKind.CLOCK_JUMP:
                self._tell(fault, f"has its clock set by {fault.amount:+g} s")
                self._simulator.clocks[fault.target].offset += fault.amount
                if fault.target in self._simulator.scenario.dispatchers:
                    # nothing that is promised goes by the clock of anybody else
                    self._simulator.judge.clocks_differ += abs(fault.amount)
            case _:
                self._spoil_store(fault)

    def _tell(self, fault: Fault, what: str) -> None:
        self._simulator.tell(fault.target, what)

    def _after(self, fault: Fault, call: object, *args: object) -> None:
        assert callable(call)
        self._time.at(self._time.now + fault.seconds, call, *args)

    # ---- processes

    def _kill(self, fault: Fault) -> None:
        name, simulator = fault.target, self._simulator
        actor = simulator.actors[name]

        def kill() -> None:
            if simulator.actors[name] is actor:
                simulator.kill(name)

        if fault.amount and actor.process.is_alive:
            actor.process.loop.end_after(int(fault.amount), kill)
        else:
            kill()
        self._after(fault, self._back, actor)

    def _terminate(self, fault: Fault) -> None:
        actor = self._simulator.actors[fault.target]
        if actor.process.is_alive:
            self._tell(fault, "gets SIGTERM")
            actor.process.loop.call_soon(actor.terminate)
        self._after(fault, self._back, actor)

    def _back(self, actor: Actor) -> None:
        """Start a process again once this life of it is over, unless somebody has already."""
        name = actor.process.name
        if self._simulator.actors[name] is not actor:
            return
        if actor.process.is_alive:
            self._time.at(self._time.now + RESTART_SECONDS, self._back, actor)
        else:
            self._simulator.start(name)

    def _freeze(self, fault: Fault) -> None:
        simulator, name = self._simulator, fault.target
        actor = simulator.actors[name]
        if not actor.process.is_alive or actor.process.loop.is_frozen:
            return
        is_whole = fault.kind is FaultKind.FREEZE
        self._tell(fault, "stands still" if is_whole else "stands still, its children do not")
        actor.process.loop.freeze()
        if is_whole and isinstance(actor, WorkerActor):
            actor.pool.is_host_frozen = True
            simulator.witness.frozen(name)

        def thaw() -> None:
            if actor.process.is_alive:
                self._tell(fault, "goes on")
                if isinstance(actor, WorkerActor):
                    actor.pool.is_host_frozen = False
                actor.process.loop.thaw()

        self._after(fault, thaw)

    # ---- the network

    def _cut(self, fault: Fault) -> None:
        wires, name = self._simulator.wires, fault.target
        if fault.kind is FaultKind.CUT:
            self._tell(fault, f"can't reach {fault.other} any more")
            pairs = [(name, fault.other)]
        else:
            self._tell(fault, "is cut off")
            others = [other for other in self._simulator.actors if other != name]
            pairs = [pair for other in others for pair in ((name, other), (other, name))]
        for pair in pairs:
            wires.cut(*pair)

        def heal() -> None:
            self._tell(fault, "gets through again")
            for pair in pairs:
                wires.heal(*pair)

        self._after(fault, heal)

    def _slow_down(self, fault: Fault) -> None:
        there = self._simulator.wires.between(fault.target, fault.other)
        back = self._simulator.wires.between(fault.other, fault.target)
        if fault.kind is FaultKind.DELAY:
            self._tell(fault, f"and {fault.other} hear each other {fault.amount:g} s later")
            there.extra_latency = back.extra_latency = fault.amount
        else:
            self._tell(fault, f"gets {fault.amount:g} bytes a second to {fault.other}")
            there.bytes_per_second = fault.amount

        def heal() -> None:
            self._tell(fault, f"has its old line to {fault.other} again")
            there.extra_latency = back.extra_latency = 0.0
            there.bytes_per_second = None

        self._after(fault, heal)

    def _spoil_packets(self, fault: Fault) -> None:
        effect, what = _OF_PACKETS[fault.kind]
        self._tell(fault, f"and {fault.other}: {fault.amount:.0%} of their packets {what}")
        pairs = (fault.target, fault.other), (fault.other, fault.target)
        both = [self._simulator.wires.between(*pair) for pair in pairs]
        for wire in both:
            setattr(wire, effect, fault.amount)

        def heal() -> None:
            self._tell(fault, f"and {fault.other} get their packets again")
            for wire in both:
                setattr(wire, effect, 0.0)

        self._after(fault, heal)

    def _spoil_server(self, fault: Fault) -> None:
        trouble = self._simulator.network.http.trouble(fault.target)
        until = self._time.now + fault.seconds
        if fault.kind is FaultKind.HANG:
            self._tell(fault, f"takes requests and does nothing for {fault.seconds:g} s")
            trouble.hangs_until = until
        else:
            how = f"answers requests with {fault.amount:g}" if fault.amount else "takes no calls"
            self._tell(fault, f"{how} for {fault.seconds:g} s")
            trouble.refuses_until, trouble.refuses_with = until, int(fault.amount)

    def _lose_answers(self, fault: Fault) -> None:
        self._tell(fault, f"answers {fault.other}, and the connections break")
        wire = self._simulator.wires.between(fault.target, fault.other)
        wire.loses_answers += 1

        def heal() -> None:
            self._tell(fault, f"gets its answers to {fault.other} again")
            wire.loses_answers -= 1

        self._after(fault, heal)

    # ---- the store

    def _spoil_store(self, fault: Fault) -> None:
        faults = self._simulator.store_faults[fault.target]
        until = self._time.now + fault.seconds
        match fault.kind:
            case FaultKind.STORE_STALL | FaultKind.STORE_LONG_STALL:
                self._tell(fault, f"gets no answer from the store for {fault.seconds:g} s")
                faults.stalled_until = max(faults.stalled_until, until)
            case FaultKind.STORE_ERROR:
                self._tell(fault, f"gets errors from the store for {fault.seconds:g} s")
                faults.fails_until = max(faults.fails_until, until)
            case FaultKind.STORE_LOST_ANSWER:
                self._tell(fault, f"loses the store's answers for {fault.seconds:g} s")
                faults.loses_answers_until = max(faults.loses_answers_until, until)
            case FaultKind.STORE_SLOW:
                self._tell(fault, f"waits {fault.amount:g} s longer for the store")
                faults.extra_latency = fault.amount
                self._after(fault, self._store_is_fast, fault.target)

    def _store_is_fast(self, name: str) -> None:
        self._simulator.store_faults[name].extra_latency = 0.0
