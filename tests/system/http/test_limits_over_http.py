"""Limits are seen and changed over HTTP."""

from __future__ import annotations

from system.http.conftest import refused

LIMITS = "/dispatcher/limits/"


def test_limits_are_put_shown_and_taken_back(web):
    wanted = {
        "limit": {"at_once": 5, "by": "tenant", "total": 40},
        "rate": {"count": 60, "per": 60},
    }

    put = web.raw.put(f"{LIMITS}report", json=wanted)
    shown = web.raw.get(f"{LIMITS}report")
    listed = web.raw.get(LIMITS)
    back = web.raw.delete(f"{LIMITS}report")

    assert put.status_code == 200, put.text
    assert put.json() == shown.json()
    assert shown.json() in listed.json()["types"]
    assert put.json()["limits"] == {
        "limit": {"at_once": 5, "by": "tenant", "total": 40},
        "rate": {"count": 60, "per": 60.0, "by": ""},
        "fair": "",
    }
    assert put.json()["is_changed"]
    assert not back.json()["is_changed"]
    assert back.json()["limits"]["limit"] is None


def test_limits_that_cannot_be_are_refused_and_change_nothing(web):
    by_two_keys = {"limit": {"at_once": 5, "by": "tenant"}, "fair": "customer"}

    refused(web.raw.get(f"{LIMITS}never-limited"), 404, "not_found", "id")
    refused(web.raw.put(f"{LIMITS}bad", json=by_two_keys), 422, "invalid", "fair")
    refused(web.raw.put(f"{LIMITS}bad", json={"rate": {"count": 0}}), 422, "invalid", "rate.count")
    refused(web.raw.put(f"{LIMITS}b@d name", json={}), 404, "not_found", "id")
    refused(web.raw.get(f"{LIMITS}bad"), 404, "not_found", "id")
