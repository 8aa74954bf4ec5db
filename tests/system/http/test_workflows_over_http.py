"""Runs of workflows over HTTP: stored as a whole, shown, cancelled, done again."""

from __future__ import annotations

from system.http.conftest import JOBS, Web, refused

WORKFLOWS = "/dispatcher/workflows/"


def add(name: str, left: int, *after: str) -> dict[str, object]:
    waits = {"after": list(after)} if after else {}
    return {"id": name, "type": "add", "payload": [left, 1], **waits}


def test_a_graph_is_stored_done_in_order_and_shown(web: Web) -> None:
    jobs = [add("g/last", 3, "g/left", "g/right"), add("g/left", 1), add("g/right", 2)]

    stored = web.raw.post(WORKFLOWS, json={"jobs": jobs, "workflow": "sums", "run": "run-1"})

    assert stored.status_code == 201, stored.text
    last = web.when("g/last", "c")
    assert last["result"] == 4
    begun = last["execution"]["started"]
    assert all(web.job(each)["execution"]["ended"] <= begun + 0.5 for each in ("g/left", "g/right"))
    shown = web.raw.get(f"{WORKFLOWS}run-1").json()
    assert (shown["run"], shown["workflow"], shown["next"]) == ("run-1", "sums", None)
    assert {job["id"] for job in shown["jobs"]} == {"g/last", "g/left", "g/right"}
    edges = {(edge["child"], edge["parent"]) for edge in shown["edges"]}
    assert edges == {("g/last", "g/left"), ("g/last", "g/right")}


def test_a_graph_that_is_sent_again_is_answered_with_the_run_that_it_is_in(web: Web) -> None:
    graph = {"jobs": [add("twice/1", 1), add("twice/2", 2, "twice/1")]}
    first = web.raw.post(WORKFLOWS, json=graph)

    again = web.raw.post(WORKFLOWS, json=graph)

    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert again.json()["run"] == first.json()["run"]
    assert again.headers["location"] == first.headers["location"]


def test_runs_are_listed_by_pages(web: Web) -> None:
    for number in (1, 2):
        graph = {"jobs": [add(f"p/{number}", 1)], "workflow": "pages", "run": f"page-{number}"}
        assert web.raw.post(WORKFLOWS, json=graph).status_code == 201
    web.when("p/2", "c")

    asked = {"workflow": "pages", "limit": 1}
    first = web.raw.get(WORKFLOWS, params=asked).json()
    second = web.raw.get(WORKFLOWS, params={**asked, "before": first["next"]}).json()

    assert [it["run"] for page in (first, second) for it in page["runs"]] == ["page-2", "page-1"]
    assert first["runs"][0]["jobs"] == {"c": 1}
    assert second["next"] in (None, "page-1")


def test_a_run_is_done_again_from_a_job_on(web: Web) -> None:
    jobs = [add("a/first", 1), add("a/next", 2, "a/first")]
    web.raw.post(WORKFLOWS, json={"jobs": jobs, "run": "run-2"})
    web.when("a/next", "c")

    again = web.raw.post(f"{WORKFLOWS}run-2/rerun", json={"first": "a/next"})

    assert again.status_code == 201, again.text
    (new,) = again.json()["jobs"]
    assert new["rerun_of"] == "a/next"
    assert web.when(new["id"], "c")["result"] == 3


def test_a_run_that_waits_is_cancelled_as_a_whole(web: Web) -> None:
    late = {**add("c/first", 1), "not_before": 4_000_000_000.0}
    web.raw.post(WORKFLOWS, json={"jobs": [late, add("c/next", 2, "c/first")], "run": "run-3"})

    cancelled = web.raw.delete(f"{WORKFLOWS}run-3")

    assert cancelled.status_code == 200, cancelled.text
    assert {job["id"] for job in cancelled.json()["jobs"]} == {"c/first", "c/next"}
    assert web.when("c/first", "x")
    assert web.when("c/next", "x")


def test_a_graph_that_cannot_be_is_refused_and_nothing_of_it_is_stored(web: Web) -> None:
    cycle = [add("bad/1", 1, "bad/2"), add("bad/2", 1, "bad/1")]

    refused(web.raw.post(WORKFLOWS, json={"jobs": cycle}), 422, "invalid", "after")
    refused(
        web.raw.post(WORKFLOWS, json={"jobs": [add("bad/3", 1, "nobody")]}), 422, "invalid", "after"
    )
    refused(
        web.raw.post(WORKFLOWS, json={"jobs": [add("bad/3", 1)], "run": "two words"}),
        422,
        "invalid",
        "run",
    )
    refused(web.raw.get(f"{WORKFLOWS}no-such-run"), 404, "not_found", "id")
    for name in ("bad/1", "bad/2", "bad/3"):
        refused(web.raw.get(JOBS + name), 404, "not_found", "id")
