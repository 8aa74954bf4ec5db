"""The page as a person uses it: a real browser, a dispatcher and a worker of their own.

All views with real jobs, a flow, a workflow, a schedule and a limit; they can be used by everybody.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from shunter.client import Client
from system.page.tabs import is_live
from system.yard import PATIENCE, Station, Yard, until

PICTURES = Path(__file__).parents[3] / "docs" / "guide" / "pictures"
TAKES_PICTURES = bool(os.environ.get("SHUNTER_PICTURES"))
"""With SHUNTER_PICTURES=1 the pictures of docs/guide/page.md are made anew."""

PATHS = (
    "/",
    "/jobs",
    "/workflows",
    "/flows",
    "/schedules",
    "/schedules/nightly",
    "/limits",
    "/workers",
    "/dispatchers",
)

RULES = {
    ("light", 1280): None,
    ("dark", 1280): ["color-contrast"],
    ("light", 390): ["scrollable-region-focusable", "target-size", "meta-viewport"],
}
"""By colours and width, which rules of axe are asked: all, or those that may come out otherwise."""


def test_jobs_are_found_by_what_is_said_of_them(tab: Any, client: Client) -> None:
    gone = client.submit("fail", "the mill is broken")
    until(lambda: client.job(gone.id).status.is_final)

    tab.goto("/jobs")
    tab.get_by_label("Error has").fill("MILL is")
    tab.get_by_role("button", name="Show").click()
    tab.locator(f"tr[data-row='{gone.id}']").wait_for()
    assert tab.locator("tbody tr").count() == 1

    tab.goto("/jobs")
    tab.get_by_label("Id or unique key").fill(gone.id)
    tab.keyboard.press("Enter")
    tab.locator(f"tr[data-row='{gone.id}'] a.id").click()
    tab.locator("pre", has_text="RuntimeError").wait_for()


def test_a_job_is_cancelled_and_run_again_from_the_page(
    tab: Any, client: Client, tmp_path: Path
) -> None:
    job = client.submit("hold", str(tmp_path))
    tab.goto(f"/jobs/{job.id}")
    tab.get_by_role("button", name="Cancel").click()
    tab.locator(".head .status", has_text="cancelled").wait_for()
    assert client.job(job.id).status.word == "cancelled"

    (tmp_path / "go").touch()
    tab.get_by_role("button", name="Rerun", exact=True).click()
    tab.locator("dd", has_text=job.id).wait_for()
    tab.locator(".head .status", has_text="completed").wait_for()


def test_a_parked_job_says_what_it_waits_for_and_which_steps_it_has_kept(
    tab: Any, client: Client
) -> None:
    job = client.submit("order", 7)
    tab.goto(f"/jobs/{job.id}")
    tab.locator(".head .status", has_text="waiting").wait_for()
    tab.locator(".why", has_text="waits for the signal 'approved'").wait_for()
    tab.locator("tr", has_text="pay").get_by_text("receipt of 7").wait_for()

    tab.goto("/jobs?type=order")
    tab.get_by_label("Status").select_option("waiting")
    tab.get_by_role("button", name="Show").click()
    tab.locator(f"tr[data-row='{job.id}']").wait_for()

    job.signal("approved")
    tab.goto(f"/jobs/{job.id}")
    tab.locator(".head .status", has_text="completed").wait_for()


def test_an_order_that_is_refused_leads_back_to_where_it_was_given(tab: Any) -> None:
    tab.goto("/jobs?type=echo")
    tab.get_by_role("button", name="Cancel chosen").click()
    tab.get_by_role("heading", name="Not done").wait_for()
    tab.locator(".fault", has_text="no job was chosen").wait_for()
    tab.get_by_role("link", name="Back").click()
    assert tab.url.endswith("/jobs?type=echo")


def test_a_slash_leads_into_the_field_to_search_in_from_anywhere(tab: Any) -> None:
    for path in ("/", "/jobs"):
        tab.goto(path)
        is_live(tab)
        tab.keyboard.press("/")
        tab.locator("input[name=key]:focus").wait_for()


def test_on_a_phone_the_menu_shows_where_one_is(tab: Any) -> None:
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.goto("/dispatchers")
    is_live(tab)
    box = tab.locator(".top nav [aria-current]").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_the_worker_and_the_dispatcher_are_shown(tab: Any, station: Station) -> None:
    tab.goto("/workers")
    row = tab.locator("tr", has_text="1.4.2")
    row.wait_for()
    assert "ZeroMQ" in row.inner_text()
    tab.goto("/dispatchers")
    tab.locator("tr", has_text="serves this page").wait_for()


@pytest.fixture(scope="module")
def flow_run(client: Client, page_yard: Yard, station: Station) -> str:
    """A flow that runs, and a schedule and a limit beside it."""
    put = page_yard.shunter(
        "schedule", "put", "nightly", "add", "1", "2", "--cron", "0 3 * * *", station=station
    )
    assert put.returncode == 0, put.stderr
    set_ = page_yard.shunter("limits", "set", "add", "--total", "3", station=station)
    assert set_.returncode == 0, set_.stderr
    job = client.submit("shunter.flow", "readings.py", on="local", every=0.5)
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
    tab.locator("tr", has_text="ValueError: every tenth can't be read").wait_for()
    tab.locator("dt", has_text="Last checkpoint").wait_for()
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


def test_a_schedule_is_changed(tab: Any, flow_run: str) -> None:
    tab.goto("/schedules")
    tab.get_by_role("link", name="nightly", exact=True).click()
    tab.get_by_label("Cron:").fill("30 25 * * *")
    tab.get_by_role("button", name="Change").click()
    tab.locator(".fault").wait_for()
    tab.goto("/schedules/nightly")
    tab.get_by_label("Cron:").fill("30 4 * * *")
    tab.get_by_role("button", name="Change").click()
    tab.locator(".notice", has_text="schedule changed").wait_for()
    assert tab.locator("ol.ticks li").all_inner_texts()[-1].endswith("04:30:00")
    assert "30 4 * * *" in tab.locator("dl.facts").inner_text()


@pytest.fixture(scope="module")
def workflow_run(client: Client) -> Any:
    """A run that ends, with a job that fails and one that turns out not to be needed."""
    with client.workflow("thumbnails") as run:
        first = run.job("add", 1, 2)
        parts = [run.job("echo", part, after=first) for part in ("small", "large")]
        broken = run.job("fail", "disk 7 is full", after=first)
        run.job("add", 3, 4, after=[*parts, broken])
    until(lambda: all(client.job(job.id).status.is_final for job in run.jobs))
    return run


def test_a_run_is_found_drawn_and_done_again(tab: Any, workflow_run: Any) -> None:
    first, last = workflow_run.jobs[0].id, workflow_run.jobs[-1].id
    tab.goto("/workflows")
    row = tab.locator(f"tr[data-row='{workflow_run.id}']")
    assert "3 completed" in row.inner_text()
    row.locator("a.id").click()
    tab.locator("svg.graph.run rect.failed").wait_for()
    assert tab.locator("svg.graph.run path.edge").count() == 6
    assert tab.locator("svg.graph.run rect.completed").count() == 3
    _picture(tab, "workflow")

    tab.locator(f"svg.graph.run a[href='/jobs/{last}']").click()
    tab.locator("h2", has_text="Parents and children").wait_for()
    tab.locator("tr", has_text=workflow_run.jobs[3].id).locator("a").click()
    tab.locator("tr", has_text=first).wait_for()
    tab.locator("dd a", has_text=workflow_run.id).click()
    tab.get_by_role("button", name="Rerun").click()
    tab.locator(".notice", has_text="5 submitted again").wait_for()
    tab.locator(".status", has_text="6 completed").wait_for()


def test_a_run_is_cancelled_as_a_whole(tab: Any, client: Client) -> None:
    with client.workflow("left alone") as run:
        run.job("left_alone_too", 2, after=run.job("left_alone_too", 1))
    tab.goto(f"/workflows/{run.id}")
    tab.get_by_role("button", name="Cancel").click()
    tab.locator(".notice", has_text="2 cancelled").wait_for()
    tab.locator(".head .status", has_text="cancelled").wait_for()
    tab.goto(f"/jobs?run={run.id}&status=cancelled")
    assert tab.locator("tbody tr").count() == 2


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


@pytest.mark.parametrize(("scheme", "width"), list(RULES))
def test_no_view_has_a_serious_fault_of_accessibility(
    browser: Any,
    station: Station,
    client: Client,
    flow_run: str,
    workflow_run: Any,
    scheme: str,
    width: int,
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    job = client.submit("fail", "as it should")
    until(lambda: client.job(job.id).status.is_final)
    context = browser.new_context(
        base_url=station.url, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    context.set_default_timeout(PATIENCE * 1000)
    tab = context.new_page()
    found = []
    rules = RULES[scheme, width]
    options = None if rules is None else {"runOnly": {"type": "rule", "values": rules}}
    some = (f"/jobs/{job.id}", f"/workflows/{workflow_run.id}", f"/flows/{flow_run}")
    for path in (*PATHS, *some, "/limits/add", "/sign-in"):
        tab.goto(path)
        if path != "/sign-in":
            tab.locator("#state.live").wait_for()
        found += [
            (path, it["id"], [node["html"][:200] for node in it["nodes"][:3]])
            for it in axe.run(tab, options=options).response["violations"]
            if it["impact"] in ("serious", "critical")
        ]
        is_wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
        assert not is_wide, f"{path} is wider than the screen"
        if path == "/":
            _picture(tab, f"overview-{scheme}-{width}")
    context.close()
    assert found == []


def test_everything_can_be_read_and_done_without_a_script(
    browser: Any, station: Station, client: Client, flow_run: str, workflow_run: Any
) -> None:
    job = client.submit("nobody_does_this", "without a script")
    context = browser.new_context(java_script_enabled=False, base_url=station.url)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE * 1000)
    some = (f"/workflows/{workflow_run.id}", f"/flows/{flow_run}", "/limits/add")
    for path in (*PATHS, *some, f"/jobs/{job.id}"):
        tab.goto(path)
        tab.locator("main h1").first.wait_for()
        assert tab.locator("main table, main svg.graph, main dl.facts").count() >= 1, path
        assert tab.locator("main [hidden]").count() == 0, path

    tab.get_by_role("button", name="Cancel").click()
    tab.locator(".notice", has_text="cancelled").wait_for()
    tab.locator(".head .status", has_text="cancelled").wait_for()
    tab.goto("/jobs?type=nobody_does_this")
    tab.get_by_role("button", name="Rerun all found").click()
    tab.get_by_role("heading", name="Rerun").wait_for()
    tab.get_by_role("button", name="Rerun").click()
    tab.locator(".notice", has_text="submitted again").wait_for()
    tab.get_by_role("button", name="Pause nobody_does_this").click()
    tab.locator(".notice", has_text="paused").wait_for()
    context.close()


def test_the_keyboard_leads_from_view_to_view(tab: Any) -> None:
    def heads() -> str:
        return str(tab.locator("main h1").first.inner_text())

    tab.goto("/")
    for letter, view in (("w", "Workflows"), ("w", "Workers"), ("j", "Jobs"), ("l", "Limits")):
        is_live(tab)
        tab.keyboard.press("g")
        tab.keyboard.press(letter)
        tab.get_by_role("heading", name=view, exact=True).wait_for()
        assert heads() == view
    tab.goto("/jobs")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


def test_a_page_says_that_its_dispatcher_is_gone_and_comes_back(
    tab: Any, client: Client, station: Station, page_yard: Yard
) -> None:
    tab.goto("/jobs")
    is_live(tab)
    station.process.kill()
    tab.locator("#trouble", has_text="does not answer").wait_for()
    tab.get_by_role("button", name="Cancel all found").click()
    tab.locator("#trouble", has_text="Nothing was sent").wait_for()
    assert tab.url.endswith("/jobs")

    station.start()
    is_live(tab)
    assert tab.locator("#trouble").is_hidden()
    job = client.submit("echo", "after the crash")
    tab.locator(f"tr[data-row='{job.id}']").wait_for()


def _picture(tab: Any, name: str) -> None:
    if TAKES_PICTURES:
        PICTURES.mkdir(exist_ok=True)
        tab.wait_for_timeout(1200)
        tab.screenshot(path=PICTURES / f"page-{name}.png")
