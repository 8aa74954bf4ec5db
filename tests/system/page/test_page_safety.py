"""What strangers say stays text, changes need a form of ours, and keys say who sees what."""

from __future__ import annotations

import tomllib
from typing import Any

import httpx
import pytest

from shunter.client import Client
from system.page.hostile import HOSTILE
from system.yard import PATIENCE, Station, Yard, until


def test_what_jobs_say_stays_text(tab: Any, client: Client, station: Station) -> None:
    """In payload, result, log, error, key and note: nothing of it becomes markup or runs."""
    text = "\n".join(HOSTILE)
    answer = httpx.post(
        f"{station.url}/dispatcher/jobs/",
        json={"type": "echo", "payload": [{text: [text]}], "unique_key": text[:500]},
        trust_env=False,
        timeout=PATIENCE,
    )
    said, failed = answer.json()["id"], client.submit("fail", text).id
    until(lambda: client.job(said).status.word == "completed")
    until(lambda: client.job(failed).status.word == "failed")

    with client.workflow(text[:200]) as run:
        run.job("nobody_does_this", text, after=run.job("nobody_does_this", text))
    places = (f"/jobs/{said}", f"/jobs/{failed}", f"/workflows/{run.id}")
    for path in (*places, "/jobs", "/jobs?status=failed", "/workflows", "/"):
        tab.goto(path)
        tab.locator("#state.live").wait_for()
        assert tab.evaluate("window.hacked") is None
        assert tab.locator("main script, main img, main [onerror], main [onload]").count() == 0
        assert tab.locator("a[href^='javascript:']").count() == 0
    tab.goto(f"/jobs/{failed}?edit=1")
    assert "window.hacked" in tab.locator("textarea").input_value()
    assert tab.evaluate("window.hacked") is None


def test_what_a_person_types_stays_text(tab: Any) -> None:
    fields = ("type", "worker", "error", "workflow", "run", "key", "since", "after")
    for text in HOSTILE[:6]:
        for path in ("/jobs", "/workflows", "/schedules/x"):
            tab.goto(f"{path}?{httpx.QueryParams(dict.fromkeys(fields, text))}")
            assert tab.evaluate("window.hacked") is None
            assert tab.locator("main script, main img, main svg").count() == 0


def test_an_order_without_the_token_of_a_page_is_refused(station: Station, client: Client) -> None:
    job = client.submit("nobody_does_this", 1)
    order = {"order": f"cancel {job.id}", "token": "0" * 64}
    for fields in (order, {"order": order["order"]}):
        answer = httpx.post(f"{station.url}/act", data=fields, trust_env=False, timeout=PATIENCE)
        assert answer.status_code == 403
    elsewhere = {"Origin": "http://evil.example"}
    answer = httpx.post(
        f"{station.url}/act", data=order, headers=elsewhere, trust_env=False, timeout=PATIENCE
    )
    assert answer.status_code == 403
    assert client.job(job.id).status.word == "queued"


def test_every_page_forbids_scripts_and_frames_of_others(station: Station) -> None:
    for path in (
        "/",
        "/jobs",
        "/jobs/unknown",
        "/sign-in",
        "/page/page.js",
        "/page/../settings.py",
    ):
        answer = httpx.get(f"{station.url}{path}", trust_env=False, timeout=PATIENCE)
        policy = answer.headers.get("content-security-policy", "")
        if answer.status_code != 404 or path.startswith("/jobs"):
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
        assert "<script>" not in answer.text
        assert " style=" not in answer.text


def test_an_address_that_is_not_there_leads_a_person_back_and_tells_a_program_so(
    tab: Any, station: Station
) -> None:
    for path in ("/nope", "/jobsx", "/%3Cimg%20src=x%20onerror=window.hacked=1%3E", "/page/a/b.js"):
        tab.goto(path)
        tab.get_by_role("heading", name="Not found").wait_for()
        assert tab.evaluate("window.hacked") is None
    tab.get_by_role("main").get_by_role("link", name="Overview").click()
    tab.locator("#state.live").wait_for()

    person = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with httpx.Client(base_url=station.url, trust_env=False, timeout=PATIENCE) as asking:
        page = asking.get("/nope", headers=person)
        assert (page.status_code, page.headers["content-type"][:9]) == (404, "text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for path, headers in (("/nope", {}), ("/dispatcher/nope", person)):
            refused = asking.get(path, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
        assert asking.post("/nope", headers=person).json()
        assert asking.get("/act", headers=person).status_code == 405


def test_a_link_from_another_site_opens_a_page_and_nothing_else(station: Station) -> None:
    link = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    framed = {**link, "Sec-Fetch-Dest": "iframe"}
    with httpx.Client(base_url=station.url, trust_env=False, timeout=PATIENCE) as asking:
        assert asking.get("/jobs", headers=link).status_code == 200
        assert asking.get("/jobs", headers=framed).status_code == 403
        assert asking.get("/dispatcher/jobs/", headers=link).status_code == 403
        assert asking.post("/act", headers=link).status_code == 403


@pytest.fixture(scope="module")
def guarded(page_yard: Yard) -> Station:
    """A dispatcher that demands keys."""
    store = f"sqlite:///{page_yard.folder}/guarded.db"
    for name, role, more in (
        ("dispatchers", "dispatcher", ()),
        ("boss", "operator", ()),
        ("shop", "client", ("--namespace", "shop")),
        ("hand", "worker", ()),
    ):
        made = page_yard.shunter("key", "new", name, "--role", role, *more, "--store", store)
        assert made.returncode == 0, made.stderr
    return page_yard.dispatcher(
        "guarded",
        store__url=store,
        auth__key_file=str(page_yard.folder / "dispatchers.key"),
        udp__enabled=False,
    )


def _token(yard: Yard, name: str) -> str:
    return str(tomllib.loads((yard.folder / f"{name}.key").read_text())["token"])


def test_a_person_signs_in_with_the_token_of_a_key(
    browser: Any, guarded: Station, page_yard: Yard
) -> None:
    context = browser.new_context(base_url=guarded.url)
    context.set_default_timeout(PATIENCE * 1000)
    tab = context.new_page()
    tab.goto("/workers")
    tab.locator("input[name=token]").fill("wrong")
    tab.get_by_role("button", name="Sign in").click()
    tab.get_by_text("does not count").wait_for()

    tab.locator("input[name=token]").fill(_token(page_yard, "boss"))
    tab.get_by_role("button", name="Sign in").click()
    tab.get_by_role("heading", name="Workers").wait_for()
    tab.locator("#state.live").wait_for()
    [cookie] = context.cookies()
    assert (cookie["sameSite"], cookie["httpOnly"]) == ("Lax", True)
    assert _token(page_yard, "boss") not in cookie["value"]

    tab.get_by_role("button", name="Sign out").click()
    tab.locator("input[name=token]").wait_for()
    tab.goto("/")
    tab.locator("input[name=token]").wait_for()
    context.close()


def test_a_key_of_a_namespace_sees_its_jobs_alone_and_a_worker_nothing(
    guarded: Station, page_yard: Yard
) -> None:
    for name, seen in (
        ("shop", {"/jobs": 200, "/workflows": 200, "/": 403, "/workers": 403, "/limits": 403}),
        ("hand", {"/jobs": 403, "/": 403, "/flows": 403}),
    ):
        with httpx.Client(base_url=guarded.url, trust_env=False, timeout=PATIENCE) as asking:
            asking.post("/sign-in", data={"token": _token(page_yard, name)})
            assert {path: asking.get(path).status_code for path in seen} == seen
            assert asking.get("/live?view=overview").status_code == 403


def test_nobody_gets_in_without_a_session(guarded: Station, page_yard: Yard) -> None:
    forged = {"shunter_session": f"boss:9999999999:{'0' * 64}"}
    for cookies in ({}, forged, {"shunter_session": "x"}):
        with httpx.Client(
            base_url=guarded.url, cookies=cookies, trust_env=False, timeout=PATIENCE
        ) as asking:
            for path in ("/", "/jobs", "/jobs/x", "/live?view=jobs", "/limits/x", "/workflows/x"):
                answer = asking.get(path)
                assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
            assert asking.post("/act", data={"order": "cancel x"}).status_code == 303


def test_a_read_only_page_changes_nothing_and_one_that_is_off_is_not_there(
    page_yard: Yard, station: Station, client: Client
) -> None:
    """Both on the store of the dispatcher that has a page."""
    store = station.settings["store.url"]
    job = client.submit("nobody_does_this", 2)
    shown = page_yard.dispatcher(
        "shown", store__url=store, http__page="read-only", udp__enabled=False
    )
    with httpx.Client(base_url=shown.url, trust_env=False, timeout=PATIENCE) as asking:
        page = asking.get(f"/jobs/{job.id}").text
        assert "Cancel</button>" not in page
        token = page.partition('name="token" value="')[2].partition('"')[0]
        order = {"order": f"cancel {job.id}", "token": token}
        assert asking.post("/act", data=order).status_code == 403
        for verb in ("cancel-run", "rerun-run", "change-schedule", "set-limits", "drain"):
            refused = asking.post("/act", data={"order": f"{verb} x", "token": token})
            assert refused.status_code == 403
    assert client.job(job.id).status.word == "queued"
    # the same order, with the same token, counts where the page may change things
    done = httpx.post(f"{station.url}/act", data=order, trust_env=False, timeout=PATIENCE)
    assert done.status_code == 303
    assert client.job(job.id).status.word == "cancelled"

    off = page_yard.dispatcher("off", store__url=store, http__page="off", udp__enabled=False)
    assert httpx.get(f"{off.url}/", trust_env=False, timeout=PATIENCE).status_code == 404
    assert (
        httpx.get(f"{off.url}/dispatcher/jobs/", trust_env=False, timeout=PATIENCE).status_code
        == 200
    )
