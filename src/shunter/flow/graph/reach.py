"""What can reach a stage, and what depends on the order in which it gives its events.

An instruction reaches a stage from any source upstream that may send one. A stage that works key
by key gives all of one key before all of the next; that is allowed where nobody behind it can
tell. Pure: which sources never send an instruction is told by whoever knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shunter.flow.graph.routes import RouteKind
from shunter.flow.graph.stages import Stage, StageKind

_PASSING = (StageKind.MAP, StageKind.FILTER, StageKind.FLAT_MAP)


def instructing_source(stage: Stage, is_silent: Callable[[Any], bool]) -> Stage | None:
    """Return a source upstream whose instructions may reach a stage; None if there is none.

    Instructions end at a frame.
    """
    seen, waiting = {stage}, [stage]
    while waiting:
        for edge in waiting.pop().inputs:
            before = edge.upstream
            if before.kind is StageKind.SOURCE and not is_silent(before.what):
                return before
            if before not in seen and before.kind is not StageKind.FRAME:
                seen.add(before)
                waiting.append(before)
    return None


def works_key_by_key(stage: Stage, is_silent: Callable[[Any], bool]) -> bool:
    """True if a stage may have one key's events after the other's, and each object for its key's.

    Its events all come by key, nothing but the end can come between them, and no stage behind it
    depends on the order across keys.
    """
    return (
        stage.kind is StageKind.STATEFUL
        and all(edge.route.kind is RouteKind.BY_KEY for edge in stage.inputs)
        and not stage.is_ordered
        and instructing_source(stage, is_silent) is None
        and not _is_order_minded_behind(stage)
    )


def _is_order_minded_behind(stage: Stage) -> bool:
    """True if a stage behind this one may have other results when the events' order changes.

    Sinks and frames have not: they promise the order of each key, which stays. A stage with a
    state may, whatever its key: what it gets of one key of its own may be of several here.
    """
    seen, waiting = {stage}, [stage]
    while waiting:
        for edge in waiting.pop().outputs:
            behind = edge.downstream
            if behind.kind in (StageKind.STATEFUL, StageKind.AGGREGATE):
                return True
            if behind not in seen and behind.kind in _PASSING:
                seen.add(behind)
                waiting.append(behind)
    return False
