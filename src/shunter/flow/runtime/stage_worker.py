"""One worker of a flow: takes a batch, has its stages work on it, and hands on what came out.

It has no thread and no clock: somebody calls `step` again and again. Each step offers what waits
to be delivered, and takes in more only where little of that is left: so a slow receiver slows
down its senders, and these theirs, up to the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.instructions import BUILT_IN, CHECKPOINT, END_OF_STREAM, Instruction
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runtime.aggregator import Aggregator
from shunter.flow.runtime.bad_events import BadEvents, blamed_on
from shunter.flow.runtime.in_out import Needs, chained
from shunter.flow.runtime.inbox import EventInbox
from shunter.flow.runtime.operators import Keyed, Operator, operator
from shunter.flow.runtime.ordered import Ordered, Types
from shunter.flow.runtime.plan import edge_of
from shunter.flow.runtime.sender import Bad, Sender
from shunter.flow.runtime.states import NOT_KEPT, KeyedStates
from shunter.flow.sinks.port import Sink
from shunter.flow.sources.port import BadInput, Source, WithBadInput

BATCH = 2_048
"""How many events are worked on at once; as many may wait to be delivered."""


@dataclass(slots=True)
class Tally:
    """What one stage has done in one worker."""

    taken: int = 0
    given: int = 0


@dataclass(slots=True)
class _Step:
    stage: Stage
    operator: Operator
    tally: Tally


class SinkOutbox:
    """A sink, as the last stage of a worker sees it."""

    def __init__(self, sink: Sink, stage: Stage, tally: Tally) -> None:
        self._sink, self._stage, self._tally = sink, stage, tally

    def room(self, _: str) -> int:
        return BATCH

    def enqueue(self, _: str, __: int, events: Sequence[Any]) -> int:
        with blamed_on(self._stage, "write"):
            taken = self._sink.write(events)
        if not 0 <= taken <= len(events):
            raise FlowError(
                f"write() was given {len(events)} events and returned {taken!r}; return how many "
                "of them were taken",
                stage=self._stage.name,
                place=str(self._stage.where),
            )
        self._tally.taken += taken
        return taken

    def instruct(self, _: str, __: int, instruction: Instruction) -> int:
        on_instruction = getattr(self._sink, "on_instruction", None)
        if on_instruction is not None and instruction.name != CHECKPOINT:
            with blamed_on(self._stage, "on_instruction"):
                on_instruction(instruction)
        return 1


class StageWorker:
    """`source` or `inbox` is where events come from; a sink's own `Sender` leads to it.

    By `late_senders` go the events that are too late for their windows, or for their turn; where
    there are none, such events count as failed. `types` are the flow's types of events.
    `on_checkpoint` is called with the number of a checkpoint and what to keep for it.
    `instructions` counts those that the source has given. `stored` are the states of
    stages, by their names, that are kept by key outside of the worker.
    """

    def __init__(
        self,
        worker_id: str,
        stages: Sequence[Stage],
        sendings: dict[str, Sender],
        bad_events: BadEvents,
        tallies: dict[str, Tally],
        *,
        source: Source | None = None,
        inbox: EventInbox | None = None,
        sink: Sink | None = None,
        known: frozenset[str] = frozenset(),
        late_senders: frozenset[str] = frozenset(),
        types: Types = dict,
        on_checkpoint: Callable[[int, Any], None] = lambda _, __: None,
        stored: Mapping[str, KeyedStates] | None = None,
    ) -> None:
        self.id = worker_id
        self.inbox = inbox
        self.is_done = False
        self.tallies = tallies
        self._bad_events = bad_events
        self._source, self._sink = source, sink
        self._sendings = sendings
        self._known = BUILT_IN | known
        self._on_checkpoint = on_checkpoint
        self._steps = [
            _Step(
                stage,
                operator(stage, bad_events.of(stage), types, (stored or {}).get(stage.name)),
                tallies[stage.name],
            )
            for stage in stages
            if stage.kind not in (StageKind.SOURCE, StageKind.SINK)
        ]
        first = self._steps[0].operator if self._steps else None
        has_ways = len(stages[0].inputs) > 1
        self._keyed = (
            first if isinstance(first, Keyed | Aggregator | Ordered) and has_ways else None
        )
        self._telling_late = first if isinstance(first, Aggregator | Ordered) else None
        self._ordered = first if isinstance(first, Ordered) else None
        self._late_senders = late_senders
        self._stages = stages
        self._head = stages[0].name
        self._owed = dict.fromkeys(sendings, 0)
        self._acting: Instruction | None = None
        self._asked_for: int | None = None
        self.instructions = 0
        self._has_ended = False
        self._is_quiet = False

    @property
    def waiting(self) -> int:
        """How many outputs wait to be delivered, on the edge where they are most."""
        return max((sending.waiting for sending in self._sendings.values()), default=0)

    def is_head(self, stage: str) -> bool:
        """True if a stage is the one that takes from the inbox."""
        return stage == self._head

    def failed(self, stage: str) -> int:
        """How many events could not be processed by a stage."""
        return self._bad_events.counts[stage]

    def last_error(self, stage: str) -> str:
        """What the last event failed of that a stage could not process; "" if there was none."""
        return self._bad_events.errors.get(stage, "")

    def blame(self, stage: Stage) -> Bad:
        """Return what is to be called with the bad events of a stage."""
        return self._bad_events.of(stage)

    def ask_for_checkpoint(self, number: int) -> None:
        """Have a source send a checkpoint between two batches; others get it from theirs."""
        if self._source is not None:
            self._asked_for = number

    def be_quiet(self) -> None:
        """Have a source end here."""
        self._is_quiet = True

    def step(self) -> bool:
        """Do what can be done now; tell whether that was anything."""
        if self.is_done:
            return False
        before = sum(sending.waiting for sending in self._sendings.values())
        self._deliver()
        moved = before != sum(sending.waiting for sending in self._sendings.values())
        if self._has_ended:
            self.is_done = not self.waiting
            return moved or self.is_done
        if self.waiting >= BATCH:
            return moved
        if self._acting is not None:
            return self._act(self._acting) or moved
        taken = self._read() if self._source is not None else self._take()
        if taken is None:
            return moved
        if isinstance(taken, Instruction):
            self._act(taken)
        else:
            self._work_on(taken)
        self._deliver()
        return True

    # ---- what comes in

    def _take(self) -> list[Any] | Instruction | None:
        assert self.inbox is not None
        taken = self.inbox.take(BATCH)
        if self._keyed is not None and type(taken) is list:
            self._keyed.expect_by(edge_of(self.inbox.taken_from))
        return taken

    def _read(self) -> list[Any] | Instruction | None:
        assert self._source is not None
        if self._asked_for is not None:
            number, self._asked_for = self._asked_for, None
            return Instruction(CHECKPOINT, number=number)
        with blamed_on(self._stages[0], "read"):
            events = None if self._is_quiet else self._source.read(BATCH)
        if events is None:
            return Instruction(END_OF_STREAM)
        if len(events) == 1 and type(events[0]) is Instruction:
            return self._own(events[0])
        if isinstance(events, WithBadInput):
            return self._without_bad_input(events)
        self.tallies[self._head].given += len(events)
        return events or None

    def _without_bad_input(self, items: list[Any]) -> list[Any]:
        """Return the events; what is none is a bad event of the source, also if it is alone."""
        events = []
        for item in items:
            if type(item) is BadInput:
                self._bad_events.found_in_input(self._stages[0], item)
            else:
                events.append(item)
        self.tallies[self._head].given += len(events)
        return events

    def _own(self, given: Instruction) -> Instruction:
        """Number an instruction that the source has given."""
        if given.name in (END_OF_STREAM, CHECKPOINT) or given.name not in self._known:
            known = ", ".join(map(repr, sorted(self._known - {END_OF_STREAM, CHECKPOINT})))
            raise FlowError(
                f"the source of {self.id} gave the instruction {given.name!r}, which nobody "
                f"knows; name it in Flow(instructions=...), or give one of {known}"
            )
        self.instructions += 1
        return Instruction(given.name, given.data, self.id, self.instructions)

    # ---- working

    def _work_on(self, events: list[Any], *, start: int = 0, is_input: bool = True) -> None:
        inputs = len(events) if is_input else 0
        needs: Needs | None = None
        for step in self._steps[start:]:
            step.tally.taken += len(events)
            events, of_step = step.operator.process(events)
            step.tally.given += len(events)
            needs = chained(needs, of_step)
        self._put(events, inputs, needs if is_input else None)

    def _put(self, events: list[Any], inputs: int, needs: Needs | None) -> None:
        bad, late = self._bad_events, self._take_late()
        for sender, sending in self._sendings.items():
            if sender in self._late_senders:
                sending.put(late, inputs=inputs, bad=bad.of_key(sender))
            elif sender != bad.sender:
                sending.put(events, inputs=inputs, needs=needs, bad=bad.of_key(sender))
        if bad.sender is not None:
            self._sendings[bad.sender].put(bad.letters(), inputs=inputs)

    def _take_late(self) -> list[Any]:
        late = [] if self._telling_late is None else self._telling_late.late()
        if late and not self._late_senders:
            self._bad_events.counts[self._head] += len(late)
        return late

    def _act(self, instruction: Instruction) -> bool:
        """Act on an instruction, unless something before it waits for a sink."""
        if instruction.name == CHECKPOINT and self._sink is not None and self.waiting:
            self._acting = instruction
            return False
        self._acting = None
        if instruction.name == CHECKPOINT:
            self._pass_on(instruction)
            self._on_checkpoint(instruction.number, self.snapshot())
            return True
        if self._release(instruction):
            self._acting = instruction
            return True
        for at, step in enumerate(self._steps):
            for made in _instructed(step, instruction):
                self._give(at, made)
                self._deliver()
            if at == 0 and self._ordered is not None:
                instruction = self._ordered.passed_on(instruction)
        if self._bad_events.has_letters:  # an outbox could not have the key of an event
            self._put([], 0, None)
        self._pass_on(instruction)
        self._has_ended = instruction.name == END_OF_STREAM
        return True

    def _release(self, instruction: Instruction) -> bool:
        """Work on some of the events that were held until now; False if there are no more."""
        made = None if self._ordered is None else self._ordered.released(instruction)
        if made is not None:
            self._give(0, made)
        return made is not None

    def _give(self, at: int, made: list[Any]) -> None:
        """Hand on what a step has made of no input."""
        self._steps[at].tally.given += len(made)
        if made or self._bad_events.has_letters:
            self._work_on(made, start=at + 1, is_input=False)

    def _pass_on(self, instruction: Instruction) -> None:
        for sending in self._sendings.values():
            sending.put_instruction(instruction)

    def _deliver(self) -> None:
        """Offer what waits, and acknowledge the inputs of which everything was taken."""
        for sender, sending in self._sendings.items():
            self._owed[sender] += sending.deliver()
        if self.inbox is not None and (done := min(self._owed.values(), default=0)):
            self.inbox.acknowledge(done)
            for sender in self._owed:
                self._owed[sender] -= done

    # ---- checkpoints

    def snapshot(self) -> Any:
        """Return what a worker needs to go on from here, in another process."""
        return {
            "position": None if self._source is None else self._source.position(),
            "states": [step.operator.snapshot() for step in self._steps],
            "sink": None if self._sink is None else self._sink.checkpoint(),
            "numbers": {name: sending.next_number for name, sending in self._sendings.items()},
            "inbox": None if self.inbox is None else self.inbox.snapshot(),
            "instructions": self.instructions,
            "has_ended": self._has_ended,
        }

    def restore(self, saved: Any) -> None:
        """Become what a snapshot says; source and sink are opened with it by their owner."""
        for step, state in zip(self._steps, saved["states"], strict=True):
            if state is not NOT_KEPT:
                step.operator.restore(state)
        for sender, number in saved["numbers"].items():
            self._sendings[sender].next_number = number
        if self.inbox is not None:
            self.inbox.restore(saved["inbox"])
        self.instructions = saved["instructions"]
        self._has_ended = self.is_done = saved["has_ended"]


def _instructed(step: _Step, instruction: Instruction) -> Iterator[list[Any]]:
    """Have a stage act on an instruction, and return what it makes, part by part."""
    with blamed_on(step.stage, "on_instruction"):
        made = step.operator.instruct(instruction)
        yield from filter(None, [made] if isinstance(made, list) else made)
