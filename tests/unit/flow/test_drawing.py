"""Pictures of flows."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given

from shunter.flow.flow import Flow
from shunter.flow.pictures.drawing import as_mermaid, as_svg, as_text
from shunter.flow.pictures.layout import laid_out
from unit.flow.flow_strategies import flows

SVG = "{http://www.w3.org/2000/svg}"


class Watch:
    def on_event(self, event: Any) -> Any:
        return event


def parse(event: Any) -> Any:
    return event


def temperatures() -> Flow:
    flow = Flow("temperatures", on_error="skip", instructions=["day_ended"])
    readings = flow.source([1], name="readings")
    changes = readings.map(parse).key_by("machine").stateful(Watch, name="watch")
    changes.sink(print, name="changes")
    slow = changes.balanced().flat_map(list, name="slow", workers=4)
    flow.merge(slow, readings.to_all()).sink(print, name="all")
    return flow


def texts_in(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_flow_as_text_is_a_tree() -> None:
    assert as_text(temperatures()) == (
        """\
temperatures (on error: skip; instructions: day_ended)

readings (source)
├─ parse (map)
│  └─ by key machine → watch (stateful)
│     ├─ changes (sink)
│     └─ balanced → slow (flat_map, 4 workers)
│        └─ all (sink)
└─ to all → all (see above)
"""
    )


def test_a_flow_as_mermaid_is_a_flowchart() -> None:
    assert as_mermaid(temperatures()) == (
        """\
flowchart LR
    stage0(["readings<br>source"])
    stage1["parse<br>map"]
    stage2[["watch<br>stateful"]]
    stage3[("changes<br>sink")]
    stage4[/"slow<br>flat_map, 4 workers"/]
    stage5[("all<br>sink")]
    stage0 --> stage1
    stage1 -->|"by key machine"| stage2
    stage2 --> stage3
    stage2 -->|"balanced"| stage4
    stage4 --> stage5
    stage0 -->|"to all"| stage5
"""
    )


def test_a_flow_as_svg_has_a_box_for_each_stage_and_a_line_for_each_edge() -> None:
    flow = temperatures()
    svg = as_svg(flow)
    root = ElementTree.fromstring(svg)

    assert len(list(root.iter(f"{SVG}rect"))) == 1 + len(flow.stages)
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class")]) == len(flow.edges)
    assert sorted(texts_in(svg)) == sorted(
        [
            "temperatures (on error: skip; instructions: day_ended)",
            *(stage.name for stage in flow.stages),
            "source",
            "map",
            "stateful",
            "sink",
            "flat_map, 4 workers",
            "sink",
            "by key machine",
            "balanced",
            "to all",
        ]
    )


@pytest.mark.parametrize("field", ['a"b', "<script>", "a|b&c", "a\nb\x00", "]]>"])
def test_what_users_write_can_not_break_a_picture(field: str) -> None:
    flow = Flow("odd")
    flow.source([1]).key_by(field).map(parse).sink(print)

    svg, mermaid = as_svg(flow), as_mermaid(flow)

    shown = re.sub(r"[\n\x00]", "�", field)
    assert f"by key {shown}" in texts_in(svg)
    assert "<script" not in svg
    (label,) = re.findall(r'-->\|"(.*)"\| stage1', mermaid)
    assert not set('"<>|\n') & set(label)


def test_a_long_key_is_cut_short() -> None:
    flow = Flow("long")
    flow.source([1]).key_by("x" * 500).map(parse).sink(print)

    assert "x" * 32 + "…" in as_text(flow)
    assert "x" * 50 not in as_text(flow) + as_mermaid(flow) + as_svg(flow)


def test_bad_events_that_go_to_a_sink_are_told_of() -> None:
    assert as_text(Flow("careful", on_error=print)) == "careful (on error: to a sink)\n"


def test_a_flow_that_is_not_finished_or_not_right_can_be_drawn() -> None:
    empty, wrong = Flow("empty"), Flow("wrong")
    first = wrong.source([1], name="numbers").map(parse, name="first")
    second = first.map(parse, name="second")
    wrong.connect(second, first)

    ElementTree.fromstring(as_svg(empty))
    assert {"first", "second"} <= set(texts_in(as_svg(wrong)))
    assert "second (map)\n      └─ first (see above)" in as_text(wrong)


@given(flows())
def test_boxes_lie_behind_what_feeds_them_and_not_on_each_other(flow: Flow) -> None:
    layout = laid_out(flow, width_of=lambda _: 80.0, gap_before=lambda _: 50.0)

    for edge in flow.edges:
        before, after = layout.boxes[edge.upstream], layout.boxes[edge.downstream]
        assert before.x + before.width + 50.0 <= after.x
    for one, two in combinations(layout.boxes.values(), 2):
        apart = one.y + one.height <= two.y or two.y + two.height <= one.y
        assert one.column != two.column or apart
    for box in layout.boxes.values():
        assert 0 < box.x < box.x + box.width < layout.width
        assert 0 < box.y < box.y + box.height < layout.height


@given(flows())
def test_lines_do_not_run_through_boxes(flow: Flow) -> None:
    layout = laid_out(flow, width_of=lambda _: 80.0, gap_before=lambda _: 50.0)

    for way in layout.ways.values():
        assert way == sorted(way, key=lambda point: point[0])
        for (x, y), (to_x, _) in zip(way[1::2], way[2::2], strict=False):
            assert to_x - x == 80.0
            for box in layout.boxes.values():
                assert box.x != x or not box.y <= y <= box.y + box.height


@given(flows())
def test_any_flow_has_all_pictures(flow: Flow) -> None:
    text, mermaid, svg = as_text(flow), as_mermaid(flow), as_svg(flow)

    assert mermaid.count("-->") == len(flow.edges)
    for stage in flow.stages:
        assert text.count(f"{stage.name} ({stage.kind}") == 1
        assert f'"{stage.name}<br>' in mermaid
        assert stage.name in texts_in(svg)
