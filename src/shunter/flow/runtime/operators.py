"""What stages do with a batch of events: the user's functions and classes, called in bulk.

An event at which a function fails is given to `bad`, which raises where that stops the flow;
else the event is left out, and the batch goes on behind it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from operator import call
from types import GeneratorType
from typing import Any, Protocol, cast

from shunter.errors import FlowError
from shunter.flow.graph.distinct import Distinct
from shunter.flow.graph.instructions import Instruction
from shunter.flow.graph.keys import as_key
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runtime.aggregator import Aggregator
from shunter.flow.runtime.in_out import Needs
from shunter.flow.runtime.ordered import Ordered, Types
from shunter.flow.runtime.sender import Bad
from shunter.flow.runtime.states import KeyedStates, saved_state, set_state

Outcome = tuple[list[Any], Needs | None]
"""Outputs, and for each input how many of them it needs delivered; None is one to one."""


class Operator(Protocol):
    """One stage at work in one worker."""

    def process(self, events: list[Any]) -> Outcome:
        """Make outputs of events."""

    def instruct(self, instruction: Instruction) -> list[Any] | Iterator[list[Any]]:
        """Act on an instruction; return the outputs that come before it, maybe in parts."""

    def snapshot(self) -> Any:
        """Return what `restore` needs, in another process."""

    def restore(self, saved: Any) -> None:
        """Become what a snapshot has kept."""


@dataclass(frozen=True)
class OperatedBy:
    """What a runner puts in the place of a stage's class, to have its own operator at work."""

    what: Any
    operator: Callable[[Stage, Bad], Operator]


def operator(
    stage: Stage, bad: Bad, types: Types = dict, stored: KeyedStates | None = None
) -> Operator:
    """Return what does the work of a stage, other than sources and sinks.

    `stored` are the states of its keys, where they are kept outside of the worker.
    """
    if isinstance(stage.what, OperatedBy):
        return stage.what.operator(replace(stage, what=stage.what.what), bad)
    if stage.kind is StageKind.AGGREGATE:
        return Aggregator(stage, bad, stored)
    if stage.kind is StageKind.STATEFUL:
        if not stage.keyed:
            return Stateful(stage, bad)
        keyed = Keyed(stage, bad, stored)
        return Ordered(stage, bad, keyed, types) if stage.is_ordered else keyed
    return _STATELESS[stage.kind](stage.what, bad)


class _Stateless:
    def __init__(self, function: Callable[[Any], Any], bad: Bad) -> None:
        self._function, self._bad = function, bad

    def instruct(self, _: Instruction) -> list[Any]:
        return []

    def snapshot(self) -> Any:
        return None

    def restore(self, saved: Any) -> None:
        assert saved is None


class Map(_Stateless):
    def process(self, events: list[Any]) -> Outcome:
        results, failed = _applied(self._function, events, self._bad)
        return results, _all_but(failed, len(events)) if failed else None


class Filter(_Stateless):
    def process(self, events: list[Any]) -> Outcome:
        wanted, failed = _applied(self._function, events, self._bad)
        for at in failed:
            wanted.insert(at, False)
        return list(compress(events, wanted)), lambda: list(accumulate(map(bool, wanted)))


class FlatMap(_Stateless):
    def process(self, events: list[Any]) -> Outcome:
        outputs: list[Any] = []
        needs: list[int] = []
        for event in events:
            try:
                outputs.extend(self._function(event))
            except Exception as error:
                del outputs[needs[-1] if needs else 0 :]
                self._bad(event, error)
            needs.append(len(outputs))
        return outputs, lambda: needs


_STATELESS: dict[StageKind, Callable[[Any, Bad], Operator]] = {
    StageKind.MAP: Map,
    StageKind.FILTER: Filter,
    StageKind.FLAT_MAP: FlatMap,
}


class Stateful:
    """One instance of the user's class for the whole worker."""

    def __init__(self, stage: Stage, bad: Bad) -> None:
        self._stage, self._bad = stage, bad
        self._instance = stage.what()
        self._on_event = handler_of(stage, self._instance)
        self._is_many = inspect.isgeneratorfunction(self._on_event)

    def process(self, events: list[Any]) -> Outcome:
        if self._is_many:
            return FlatMap(self._on_event, self._bad).process(events)
        return _without_none(*_applied(self._on_event, events, self._bad))

    def instruct(self, instruction: Instruction) -> list[Any]:
        return instructed([self._instance], instruction)

    def snapshot(self) -> Any:
        return saved_state(self._instance, self._stage)

    def restore(self, saved: Any) -> None:
        set_state(self._instance, saved)


class Instances(dict[Any, Callable[[Any], Any]]):
    """The `on_event` of the instance of each key; made when a key first comes.

    `waiting` are states of keys that have not come since they were restored: few of many may.
    """

    def __init__(self, stage: Stage, stored: KeyedStates | None = None) -> None:
        self._stage, self._stored = stage, stored
        self._wants_key = is_given_key(stage.what)
        self.made: dict[Any, Any] = {}
        self.waiting: dict[Any, Any] = {}
        self.is_many = False

    def new(self, key: Any) -> Any:
        """Return an instance for a key, which nothing has come to yet."""
        return self._stage.what(key) if self._wants_key else self._stage.what()

    def __missing__(self, key: Any) -> Callable[[Any], Any]:
        instance = self.new(key)
        if key in self.waiting:
            set_state(instance, self.waiting.pop(key))
        elif self._stored is not None:
            try:
                state = self._stored.load(key)
            except KeyError:
                pass
            else:
                set_state(instance, state)
        self.made[key] = instance
        self[key] = on_event = handler_of(self._stage, instance)
        self.is_many = inspect.isgeneratorfunction(on_event)
        return on_event


class Keyed:
    """One instance of the user's class for each key, whichever edge an event comes by."""

    def __init__(self, stage: Stage, bad: Bad, stored: KeyedStates | None = None) -> None:
        self._stage, self._bad, self._stored = stage, bad, stored
        self._routes = {edge.number: edge.route for edge in stage.inputs}
        self._route = stage.inputs[0].route
        self._instances = Instances(stage, stored)
        self._are_alike = inspect.isclass(stage.what) or isinstance(stage.what, Distinct)
        self._has_all = False

    def expect_by(self, edge: int) -> None:
        """Take the keys of the next events as they are on this edge."""
        self._route = self._routes[edge]

    def process(self, events: list[Any]) -> Outcome:
        try:
            keys = self._route.keys_of(events)
            self._instances[keys[0]]  # now it is known what they return
        except Exception:
            return FlatMap(self._listed, self._bad).process(events)
        if self._instances.is_many:
            return FlatMap(self._called, self._bad).process(events)
        handler = self._instances.__getitem__
        return _without_none(
            *in_bulk(
                lambda keys, events: map(call, map(handler, keys), events),
                [keys, events],
                events,
                self._bad,
            )
        )

    def instruct(self, instruction: Instruction) -> list[Any] | Iterator[list[Any]]:
        if self._stored is not None and not self._has_all:
            self._load_all(self._stored)
        for key in list(self._instances.waiting):
            self._instances[key]  # makes it
        return instructed(self._instances.made.values(), instruction)

    def _load_all(self, stored: KeyedStates) -> None:
        """Load the states of all keys, unless objects of this class don't act on instructions."""
        made, waiting = self._instances.made, self._instances.waiting
        for key, state in stored.items():
            if key not in made:
                waiting[key] = state
                if not made:
                    self._instances[key]
            if self._are_alike and not _acts(next(iter(made.values()))):
                return
        self._has_all = True

    def snapshot(self) -> Any:
        made = self._instances.made.items()
        if self._stored is not None:
            for key, instance in made:
                self._stored.put(key, saved_state(instance, self._stage))
            return None
        saved = [[key, saved_state(instance, self._stage)] for key, instance in made]
        return saved + [[key, state] for key, state in self._instances.waiting.items()]

    def restore(self, saved: Any) -> None:
        self._instances.waiting = {as_key(listed): state for listed, state in saved or ()}

    def _called(self, event: Any) -> Any:
        key = self._route.key
        assert key is not None
        return self._instances[key(event)](event)

    def _listed(self, event: Any) -> Iterable[Any]:
        result = self._called(event)
        if self._instances.is_many:
            return cast(Iterable[Any], result)
        return () if result is None else (result,)


def _applied(
    function: Callable[[Any], Any], events: list[Any], bad: Bad
) -> tuple[list[Any], list[int]]:
    """Call a function with each event; return its results, and the places of those it failed at."""
    return in_bulk(lambda events: map(function, events), [events], events, bad)


def in_bulk(
    run: Callable[..., Iterator[Any]], columns: Sequence[list[Any]], events: list[Any], bad: Bad
) -> tuple[list[Any], list[int]]:
    """Run over columns of equal length, and again behind each event at which it failed."""
    results: list[Any] = []
    failed: list[int] = []
    while True:
        fault: Exception = StopIteration("the function has raised StopIteration")
        try:
            results.extend(run(*columns))
        except Exception as error:
            fault = error
        at = len(results) + len(failed)
        if at == len(events):
            return results, failed
        bad(events[at], fault)
        failed.append(at)
        behind = at + 1 - len(events)
        if not behind:
            return results, failed
        columns = [column[behind:] for column in columns]


def _all_but(failed: Iterable[int], count: int) -> Needs:
    def needs() -> Sequence[int]:
        is_there = [1] * count
        for at in failed:
            is_there[at] = 0
        return list(accumulate(is_there))

    return needs


def _without_none(results: list[Any], failed: list[int]) -> Outcome:
    outputs = [result for result in results if result is not None]
    if len(outputs) == len(results) and not failed:
        return outputs, None
    for at in failed:
        results.insert(at, None)
    return outputs, lambda: list(accumulate(result is not None for result in results))


def instructed(instances: Iterable[Any], instruction: Instruction) -> list[Any]:
    outputs: list[Any] = []
    for instance in instances:
        act = getattr(instance, "on_instruction", None)
        result = None if act is None else act(instruction)
        if isinstance(result, GeneratorType):
            outputs.extend(result)
        elif result is not None:
            outputs.append(result)
    return outputs


def _acts(instance: Any) -> bool:
    return getattr(instance, "on_instruction", None) is not None


def handler_of(stage: Stage, instance: Any) -> Callable[[Any], Any]:
    on_event = getattr(instance, "on_event", None)
    if not callable(on_event):
        raise FlowError(
            f"{type(instance).__name__} has no method on_event(event); give it one that returns "
            "an event, or None, or yields several",
            stage=stage.name,
            place=str(stage.where),
        )
    handler: Callable[[Any], Any] = on_event
    return handler


def is_given_key(what: Any) -> bool:
    """True if a class or factory must be given the key that its instance is for."""
    try:
        parameters = inspect.signature(what).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is each.empty for each in parameters)
