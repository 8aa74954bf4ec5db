"""All views with real jobs, a real flow, a schedule and a limit; they can be used by everybody."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from shunter.client import Client
from system.yard import Station, Yard, until

PICTURES = Path(__file__).parents[3] / "docs" / "guide" / "pictures"
TAKES_PICTURES = bool(os.environ.get("SHUNTER_PICTURES"))
"""With SHUNTER_PICTURES=1 the pictures of docs/guide/page.md are made anew."""

PATHS = ("/", "/jobs", "/flows", "/schedules", "/limits", "/workers", "/dispatchers")


@pytest.fixture(scope="module")
def flow_run(client: Client, page_yard: Yard, station: Station) -> str:
    """A flow that runs, and a schedule and a limit beside it."""
    put = page_yard.shunter(
        "schedule", "put", "nightly", "add", "1", "2", "--cron", "0 3 * * *", station=station
    )
    assert put.returncode == 0, put.stderr
    set_ = page_yard.shunter("limits", "set", "add", "--total", "3", station=station)
    assert set_.returncode == 0, set_.stderr
    job = client.submit("shunter.flow", "readings.py", on="local")
    if TAKES_PICTURES:
        _do_some_work(client)
    return str(job.id)


def _do_some_work(client: Client) -> None:
    """Give pictures something to show."""
    until_then = time.monotonic() + 100
    while time.monotonic() < until_then:
        for number in range(random.randrange(1, 30)):
            client.submit("add", number, 1)
        client.submit("echo", {"to": "anna@example.com", "parts": [1, 2, 3]})
        if random.random() < 0.3:
            client.submit("fail", random.choice(["disk 7 is full", "no route to mail-2"]))
        time.sleep(0.5)


def test_a_running_flow_is_drawn_and_stopped(tab: Any, flow_run: str, client: Client) -> None:
    tab.goto("/flows")
    tab.locator(f"tr[data-row='{flow_run}'] a.id").click()
    tab.locator("svg.graph text", has_text="by_sensor").wait_for()
    tab.locator("svg.graph text.bad", has_text="failed").wait_for()
    assert tab.locator("svg.graph path.edge").count() == 5
    before = tab.locator("tr", has_text="ticks").first.inner_text()
    until(lambda: tab.locator("tr", has_text="ticks").first.inner_text() != before)
    _picture(tab, "flow")

    tab.get_by_role("button", name="Stop").click()
    tab.locator(".head .status", has_text="cancelled").wait_for()


def test_a_schedule_is_paused_resumed_and_run_now(tab: Any, flow_run: str) -> None:
    tab.goto("/schedules")
    row = tab.locator("tr", has_text="nightly")
    row.get_by_role("button", name="Pause").click()
    row.locator(".tag", has_text="paused").wait_for()
    row.get_by_role("button", name="Resume").click()
    row.locator(".tag", has_text="paused").wait_for(state="detached")
    row.get_by_role("button", name="Run").click()
    tab.locator(".notice", has_text="made a job").wait_for()
    row.get_by_role("link", name="nightly").click()


def test_limits_are_changed(tab: Any, flow_run: str) -> None:
    tab.goto("/limits")
    tab.get_by_role("link", name="add").click()
    tab.get_by_label("At once in all").fill("nonsense")
    tab.get_by_role("button", name="Change").click()
    tab.locator(".fault", has_text="whole number").wait_for()
    tab.goto("/limits/add")
    tab.get_by_label("At once in all").fill("7")
    tab.get_by_role("button", name="Change").click()
    tab.locator("dd", has_text="7 at once").wait_for()


def test_a_worker_is_drained_and_a_type_paused(tab: Any, client: Client) -> None:
    tab.goto("/workers")
    tab.get_by_role("button", name="Drain").click()
    tab.locator(".tag", has_text="drained").wait_for()
    tab.get_by_role("button", name="Let").click()
    tab.locator("td .tag", has_text="drained").wait_for(state="detached")
    tab.goto("/")
    row = tab.locator("tr[data-row=echo]")
    row.get_by_role("button").click()
    row.locator(".tag", has_text="paused").wait_for()
    row.get_by_role("button", name="Resume").click()
    row.locator(".tag", has_text="paused").wait_for(state="detached")


def test_all_that_a_filter_finds_is_cancelled_after_a_count(tab: Any, client: Client) -> None:
    jobs = [client.submit("left_alone", n) for n in range(3)]
    tab.goto("/jobs?type=left_alone")
    tab.get_by_role("button", name="Cancel all found").click()
    tab.get_by_role("heading", name="Cancel 3 jobs?").wait_for()
    tab.get_by_role("button", name="Cancel 3 jobs").click()
    tab.locator(".notice", has_text="3 cancelled").wait_for()
    assert {client.job(job.id).status.word for job in jobs} == {"cancelled"}

    tab.get_by_label("Choose all on this page").check()
    tab.get_by_role("button", name="Rerun chosen").click()
    tab.locator(".notice", has_text="3 submitted again").wait_for()


def test_a_job_is_changed_and_run_again(tab: Any, client: Client) -> None:
    job = client.submit("add", 1, 2)
    until(lambda: client.job(job.id).status.is_final)
    tab.goto(f"/jobs/{job.id}")
    tab.get_by_role("link", name="Edit and rerun").click()
    tab.locator("textarea").fill("[40, 2]")
    tab.get_by_role("button", name="Run with this payload").click()
    tab.locator(".tree", has_text="42").wait_for()
    _picture(tab, "job")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_no_view_has_a_serious_fault_of_accessibility(
    browser: Any, station: Station, client: Client, flow_run: str, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    job = client.submit("fail", "as it should")
    until(lambda: client.job(job.id).status.is_final)
    context = browser.new_context(
        base_url=station.url, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    tab = context.new_page()
    found = []
    for path in (*PATHS, f"/jobs/{job.id}", f"/flows/{flow_run}", "/limits/add", "/sign-in"):
        tab.goto(path)
        if path != "/sign-in":
            tab.locator("#state.live").wait_for()
        found += [
            (path, it["id"], [node["html"][:200] for node in it["nodes"][:3]])
            for it in axe.run(tab).response["violations"]
            if it["impact"] in ("serious", "critical")
        ]
        is_wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
        assert not is_wide, f"{path} is wider than the screen"
        if path == "/":
            _picture(tab, f"overview-{scheme}-{width}")
    context.close()
    assert found == []


def _picture(tab: Any, name: str) -> None:
    if TAKES_PICTURES:
        PICTURES.mkdir(exist_ok=True)
        tab.wait_for_timeout(1200)
        tab.screenshot(path=PICTURES / f"page-{name}.png")
