"""Only what changed is sent."""

from __future__ import annotations

from shunter.page.changes import Snapshot, changes, essence


def test_nothing_is_sent_when_nothing_changed() -> None:
    shown = Snapshot({"a": "<p>1</p>"}, {"jobs": {"x": "<tr>x</tr>"}})
    assert changes(shown, Snapshot(dict(shown.regions), dict(shown.lists))) == {}


def test_how_long_ago_something_was_is_no_change() -> None:
    first = Snapshot({"a": '<time data-since="5">3 s</time>'})
    later = Snapshot({"a": '<time data-since="5">4 s</time>'})
    other = Snapshot({"a": '<time data-since="6">4 s</time>'})
    assert changes(first, later) == {}
    assert first.digest == later.digest != other.digest
    assert list(changes(first, other)["regions"]) == ["a"]


def test_a_row_that_changed_is_sent_with_the_order_of_all() -> None:
    before = Snapshot({}, {"jobs": {"x": "1", "y": "1"}})
    after = Snapshot({}, {"jobs": {"z": "1", "x": "2", "y": "1"}})
    assert changes(before, after) == {
        "lists": {"jobs": {"order": ["z", "x", "y"], "rows": {"z": "1", "x": "2"}}}
    }


def test_rows_that_went_or_moved_need_no_markup() -> None:
    before = Snapshot({}, {"jobs": {"x": "1", "y": "1"}})
    assert changes(before, Snapshot({}, {"jobs": {"y": "1"}})) == {
        "lists": {"jobs": {"order": ["y"], "rows": {}}}
    }
    assert changes(before, Snapshot({}, {"jobs": {"y": "1", "x": "1"}})) == {
        "lists": {"jobs": {"order": ["y", "x"], "rows": {}}}
    }


def test_an_empty_region_is_sent_the_first_time() -> None:
    assert changes(Snapshot(), Snapshot({"a": ""}, {"jobs": {}})) == {
        "regions": {"a": ""},
        "lists": {"jobs": {"order": [], "rows": {}}},
    }


def test_only_the_text_of_a_time_is_left_out() -> None:
    assert essence("<times>1</times><p>2</p>") == "<times>1</times><p>2</p>"
