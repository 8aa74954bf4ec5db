"""Where the order of events is open, so that a class might see another one on each runner. Pure.

What one worker sends to another stays in order. So the order in which events come to a stage is
followed from the sources down, as what is fixed of it at the stage's workers:

- EVERYTHING: each worker gets its events in one fixed order. That of a source with one worker, or
  with none told, is that of its file. Several workers divide them by a key, or each has a part.
- EQUAL_KEYS: only events of one key are in a fixed order; those of different keys mingle.
- NOTHING: the order is open.

What comes next changes that:

- a source told several workers has a part in each, and the order is open where parts meet;
- key_by out of one worker divides by that key; out of several, by the same key (the same field,
  position or function) it stays fixed for equal keys, and by another key it is open;
- balanced, and a local edge that shares events out among more workers: open;
- a local edge to as many workers changes nothing; to fewer, and anything into one worker, leaves
  it fixed for equal keys where workers divide by key, and open where they have parts;
- to_all out of one worker gives each worker everything; out of several: open;
- several inputs, and a function of a DataFrame: open;
- an aggregate's results don't depend on the order: fixed for equal keys;
- key_by(order_by=…) divides by that key, and has everything in the order of time.

A field is taken to mean the same wherever a flow names it: a stage between two `key_by("user")`
keeps the user of its events. A stage without a number of workers may have one or several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.distinct import Distinct
from shunter.flow.graph.routes import FieldKey, RouteKind
from shunter.flow.graph.stages import Edge, Stage, StageKind, key_name

if TYPE_CHECKING:
    from shunter.flow.graph.flow_graph import FlowGraph


class Extent(Enum):
    """Of which events at a stage the order is fixed."""

    EVERYTHING = "everything"
    EQUAL_KEYS = "equal keys"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class OpenOrder:
    """Why an order is open, or would be where workers' events meet; `stage` is where it begins."""

    stage: Stage
    why: str


@dataclass(frozen=True, slots=True)
class KnownOrder:
    """What is fixed of the order in which events come to the workers of a stage.

    `key` divides them among workers, or is that of which the order is fixed; None where each
    worker has a part, or everything. `cause` says why there are several workers, if there are, or
    why the order is open.
    """

    extent: Extent
    key: Any = None
    cause: OpenOrder | None = None

    @property
    def is_of_one_worker(self) -> bool:
        return self.cause is None


Known = dict[Stage, KnownOrder]
"""The order in which events come to stages, as far as it was worked out."""

_IN_ORDER = KnownOrder(Extent.EVERYTHING)


def open_order(stage: Stage, known: Known | None = None) -> OpenOrder | None:
    """Say why the order in which a stage with state gets its events is open; None where it isn't.

    The graph must be free of cycles. `known` is for asking about many stages.
    """
    order = _arrival(stage, {} if known is None else known)
    wanted = (Extent.EVERYTHING, Extent.EQUAL_KEYS) if stage.keyed else (Extent.EVERYTHING,)
    return None if order.extent in wanted else order.cause


def check_order(flow: FlowGraph, stages: Iterable[Stage]) -> None:
    """Raise where a stage asks for an order that can't be had, or needs one and has none.

    `stages` are those of the flow, each behind those that feed it.
    """
    known: Known = {}
    for stage in stages:
        _check_order_by(flow, stage)
        found = open_order(stage, known)
        if found is not None and stage.kind is StageKind.STATEFUL and not stage.any_order:
            raise _fault(
                stage,
                f"the order in which it gets events is open ({found.why}, {found.stage.where}), "
                f"and results would differ from run to run; {_remedies(stage)}",
            )


def _remedies(stage: Stage) -> str:
    if isinstance(stage.what, Distinct):
        return (
            "say distinct(…, order_by=…) to have each sender's events by a time or number in "
            "them, or distinct(…, any_order=True) if none may be dropped for coming later"
        )
    return (
        "say key_by(…, order_by='…') before it to have each key's events by their time, or "
        "stateful(…, any_order=True) if their order does not matter"
    )


# ---- what was asked for


def _check_order_by(flow: FlowGraph, stage: Stage) -> None:
    ordered = [edge for edge in stage.inputs if edge.route.order is not None]
    if not ordered:
        return
    if stage.kind is not StageKind.STATEFUL:
        raise _fault(
            stage,
            f"its events come with order_by, which is for stateful(…), and it is a {stage.kind}; "
            "leave order_by out, or put a stateful class there",
        )
    if len(ordered) < len(stage.inputs):
        [plain, *_] = [edge for edge in stage.inputs if edge.route.order is None]
        raise _fault(
            stage,
            f"some events come with order_by, and those from {plain.upstream.name!r} without; say "
            "order_by for all of them, or for none",
        )
    _check_marks(flow, stage, [source for source in _before(stage) if not source.inputs])


def _check_marks(flow: FlowGraph, stage: Stage, sources: list[Stage]) -> None:
    silent = [source for source in sources if not sends_watermarks(source)]
    asks = any(edge.route.order and edge.route.order.lateness for edge in stage.inputs)
    if silent and (asks or len(silent) < len(sources)):
        fact = (
            f"it holds events for lateness, and {silent[0].name!r} does not say how far time has "
            "come"
            if len(silent) == len(sources)
            else f"some of its sources say how far time has come, and {silent[0].name!r} does not"
        )
        raise _fault(
            stage,
            f"{fact}; wrap it, as in Watermarked({silent[0].name}, time='…'), or leave "
            f"{'lateness' if len(silent) == len(sources) else 'Watermarked'} out to hold events "
            "until the end",
        )
    if flow.instructions and (len(sources) > 1 or (sources[0].workers or 1) > 1):
        raise _fault(
            stage,
            "it gets events by order_by from several workers of sources, and the flow has "
            f"instructions of its own ({', '.join(flow.instructions)}), which come between other "
            "events on each run; let one worker read, take the instructions out, or say "
            "stateful(…, any_order=True) in place of order_by",
        )


def sends_watermarks(source: Stage) -> bool:
    """True if a source says of itself that it sends watermarks."""
    return bool(getattr(source.what, "sends_watermarks", False))


def _before(stage: Stage) -> list[Stage]:
    """Return all stages that lead to one."""
    found: dict[Stage, None] = {}
    waiting = [stage]
    while waiting:
        for edge in waiting.pop().inputs:
            if edge.upstream not in found:
                found[edge.upstream] = None
                waiting.append(edge.upstream)
    return list(found)


# ---- what is fixed, from stage to stage


def _arrival(stage: Stage, known: Known) -> KnownOrder:
    if stage not in known:
        known[stage] = _worked_out(stage, known)
    return known[stage]


def _worked_out(stage: Stage, known: Known) -> KnownOrder:
    if not stage.inputs:
        if stage.workers is None or stage.workers == 1:
            return _IN_ORDER
        why = f"{stage.name!r} reads with {stage.workers} workers"
        return KnownOrder(Extent.EVERYTHING, cause=OpenOrder(stage, why))
    [edge, *others] = stage.inputs
    if edge.route.order is not None:
        keys = {_identity(each.route.key) for each in stage.inputs}
        return _divided(edge) if len(keys) == 1 else replace(_divided(edge), key=None)
    if others:
        names = " and ".join(dict.fromkeys(repr(each.upstream.name) for each in stage.inputs))
        ways = "come together" if " and " in names else "come by two ways"
        return _open(stage, f"events of {names} {ways} at {stage.name!r}")
    before = _late(edge, known) if edge.is_late else _departure(edge.upstream, known)
    if before.extent is Extent.NOTHING:
        return before
    return _WAYS[edge.route.kind](edge, before)


def _departure(stage: Stage, known: Known) -> KnownOrder:
    """Return what is fixed of what a stage gives."""
    order = _arrival(stage, known)
    if stage.kind is StageKind.FRAME:
        return _open(stage, f"{stage.name!r} is a function of a DataFrame, whose rows have none")
    if stage.kind is not StageKind.AGGREGATE:
        return order
    key = ("field", key_name(stage.inputs))
    if order.extent is Extent.NOTHING:
        cause = OpenOrder(stage, f"results of different keys come in any order from {stage.name!r}")
        return KnownOrder(Extent.EQUAL_KEYS, key, cause)
    return replace(order, key=key)


def _late(edge: Edge, known: Known) -> KnownOrder:
    stage = edge.upstream
    if stage.kind is StageKind.AGGREGATE:
        return _arrival(stage, known)
    return _open(stage, f"late events of {stage.name!r} come as they arrive")


def _by_key(edge: Edge, before: KnownOrder) -> KnownOrder:
    if before.is_of_one_worker and before.extent is Extent.EVERYTHING:
        return _divided(edge)
    if before.key is None or before.key != _identity(edge.route.key):
        return _meeting(edge, before)
    return _for_equal_keys(before)


def _local(edge: Edge, before: KnownOrder) -> KnownOrder:
    up, down = edge.upstream.workers, edge.downstream.workers
    is_one = before.is_of_one_worker
    if up == down or (is_one and down in (None, 1)):
        return before
    if is_one or (down is not None and down != 1 and (up is None or down > up)):
        return _shared_out(edge)
    return _converged(edge, before)


def _balanced(edge: Edge, before: KnownOrder) -> KnownOrder:
    return _converged(edge, before) if edge.downstream.workers == 1 else _shared_out(edge)


def _to_all(edge: Edge, before: KnownOrder) -> KnownOrder:
    if edge.downstream.workers == 1:
        return _converged(edge, before)
    if before.extent is Extent.EVERYTHING and before.is_of_one_worker:
        why = f"all workers of {edge.downstream.name!r} get every event"
        return KnownOrder(Extent.EVERYTHING, cause=OpenOrder(edge.downstream, why))
    return _meeting(edge, before)


_WAYS = {
    RouteKind.LOCAL: _local,
    RouteKind.BALANCED: _balanced,
    RouteKind.BY_KEY: _by_key,
    RouteKind.TO_ALL: _to_all,
}


def _converged(edge: Edge, before: KnownOrder) -> KnownOrder:
    """Return what is left of an order where events of several workers come to fewer."""
    if before.is_of_one_worker:
        return before
    return _meeting(edge, before) if before.key is None else _for_equal_keys(before)


def _for_equal_keys(before: KnownOrder) -> KnownOrder:
    return replace(before, extent=Extent.EQUAL_KEYS)


def _divided(edge: Edge) -> KnownOrder:
    """Return the order of events that are divided by key and that all are in order."""
    down, key = edge.downstream, _identity(edge.route.key)
    if down.workers == 1:
        return _IN_ORDER
    why = f"the workers of {down.name!r} have them {edge.route}"
    return KnownOrder(Extent.EVERYTHING, key, OpenOrder(down, why))


def _meeting(edge: Edge, before: KnownOrder) -> KnownOrder:
    """Events of several workers, which nothing puts in order, come together."""
    assert before.cause is not None, "there is more than one worker"
    return KnownOrder(Extent.NOTHING, cause=before.cause)


def _shared_out(edge: Edge) -> KnownOrder:
    how = "balanced" if edge.route.kind is RouteKind.BALANCED else "shared out"
    return _open(edge.downstream, f"events are {how} among the workers of {edge.downstream.name!r}")


def _open(stage: Stage, why: str) -> KnownOrder:
    return KnownOrder(Extent.NOTHING, cause=OpenOrder(stage, why))


def _identity(key: Any) -> Any:
    """Return what is equal for two keys that are the same part of an event."""
    if isinstance(key, FieldKey):
        return "field", key.name
    if isinstance(key, itemgetter):
        return "position", key.__reduce__()[1]
    return "function", key


def _fault(stage: Stage, reason: str) -> FlowError:
    return FlowError(reason, stage=stage.name, place=str(stage.where))
