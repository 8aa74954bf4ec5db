"""Any flow: several sources, any routes, any numbers of workers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shunter.flow.flow import Flow
from shunter.flow.graph.routes import RouteKind
from shunter.flow.graph.stages import Outlet, Stage


class Numbers:
    """A source that can be split."""

    def read(self, limit: int) -> list[Any]:
        return []

    def part(self, index: int, count: int) -> Numbers:
        return self


def same(event: Any) -> Any:
    return event


def routed(stage: Stage, route: RouteKind) -> Outlet:
    match route:
        case RouteKind.LOCAL:
            return stage.local()
        case RouteKind.BALANCED:
            return stage.balanced()
        case RouteKind.TO_ALL:
            return stage.to_all()
        case RouteKind.BY_KEY:
            return stage.key_by(abs)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    flow = Flow("any")
    counts = st.integers(1, 5)
    for number in range(draw(st.integers(1, 3))):
        flow.source(Numbers(), name=f"source-{number}", workers=draw(counts))
    for number in range(draw(st.integers(0, 6))):
        upstreams = draw(st.lists(st.sampled_from(flow.stages), min_size=1, max_size=3))
        ends = [routed(stage, draw(st.sampled_from(RouteKind))) for stage in upstreams]
        flow.merge(*ends).map(same, name=f"map-{number}", workers=draw(st.none() | counts))
    for stage in [stage for stage in flow.stages if not stage.outputs]:
        end = routed(stage, draw(st.sampled_from(RouteKind)))
        end.sink(print, name=f"{stage.name}-out", workers=draw(st.none() | counts))
    return flow
