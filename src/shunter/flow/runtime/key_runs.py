"""A keyed stage that gets its events key by key: an object lives as long as its key's events.

Where only the end can come between events, what comes of a key does not depend on other keys. So a
bucket of whole keys is worked on at once: an object is made, fed, told of the end, and dropped. A
bucket that is too large comes in parts, in each of which there may be more of the same keys; its
objects are kept until the last part, within the same bounds as elsewhere. Pure.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import Any, cast

from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.runtime.bad_events import blamed_on
from shunter.flow.runtime.bounded_instances import BoundedKeyed, Handler
from shunter.flow.runtime.operators import FlatMap, Outcome, handler_of, in_bulk, instructed

_END = Instruction(END_OF_STREAM)
_STOPPED: Exception = StopIteration("the function has raised StopIteration")


@dataclass(frozen=True)
class KeyRuns:
    """Some events of a bucket by key, each key's in order; `is_last` is of the last of a bucket."""

    groups: Mapping[Any, list[Any]]
    count: int
    is_last: bool

    def __len__(self) -> int:
        return self.count


class KeyByKey(BoundedKeyed):
    """Feeds one object after the other, and ends each behind the last event of its key."""

    def process(self, events: Any) -> Outcome:
        if not isinstance(events, KeyRuns):
            return super().process(events)
        results: list[Any] = []
        with blamed_on(self._stage, "on_instruction"):
            if events.is_last and not self._instances.made:
                self._feed_whole(events.groups, results)
            else:
                self._feed_part(events.groups, results)
            if events.is_last and self._instances.made:
                self._end_all(results)
        outputs = [result for result in results if result is not None]
        return outputs, lambda: [len(outputs)] * len(events)

    def _feed_whole(self, groups: Mapping[Any, list[Any]], results: list[Any]) -> None:
        """Give each key an object of its own, which is dropped again.

        Most keys have few events, so that what is done for each is written out here.
        """
        new, extend, is_many = self._instances.new, results.extend, None
        for key, events in groups.items():
            try:
                instance = new(key)
                handler = handler_of(self._stage, instance)
            except Exception:
                self._feed_singly(key, events, results)
                continue
            if is_many is None:
                is_many = inspect.isgeneratorfunction(handler)
            if is_many:
                extend(FlatMap(handler, self._bad).process(events)[0])
            else:
                before, fault = len(results), _STOPPED
                try:
                    extend(map(handler, events))
                except Exception as error:
                    fault = error
                if len(results) - before < len(events):
                    self._go_on(handler, events, results, before, fault)
            act = getattr(instance, "on_instruction", None)
            if act is not None:
                result = act(_END)
                if type(result) is GeneratorType:
                    extend(result)
                elif result is not None:
                    results.append(result)

    def _feed_part(self, groups: Mapping[Any, list[Any]], results: list[Any]) -> None:
        """Feed objects that stay, for more of their keys may come."""
        for key, events in groups.items():
            try:
                handler = self._instances[key]
            except Exception:
                self._feed_singly(key, events, results)
                continue
            self._feed(handler, events, results)

    def _feed(self, handler: Handler, events: list[Any], results: list[Any]) -> None:
        if self._instances.is_many:
            results.extend(FlatMap(handler, self._bad).process(events)[0])
        else:
            results.extend(in_bulk(partial(map, handler), [events], events, self._bad)[0])

    def _go_on(
        self, handler: Handler, events: list[Any], results: list[Any], before: int, fault: Exception
    ) -> None:
        """Leave out the event at which a handler failed, and feed it those behind."""
        at = len(results) - before
        self._bad(events[at], fault)
        if rest := events[at + 1 :]:
            results += in_bulk(partial(map, handler), [rest], rest, self._bad)[0]

    def _feed_singly(self, key: Any, events: list[Any], results: list[Any]) -> None:
        """Try to make the object of a key for each event anew: its class has raised."""

        def listed(event: Any) -> Iterable[Any]:
            result = self._instances[key](event)
            if self._instances.is_many:
                return cast(Iterable[Any], result)
            return () if result is None else (result,)

        results.extend(FlatMap(listed, self._bad).process(events)[0])

    def _end_all(self, results: list[Any]) -> None:
        if self._bounded.has_stored:
            for part in self._instructed_in_parts(_END):
                results += part
        else:
            results += instructed(self._instances.made.values(), _END)
        self._bounded.forget()
