"""The page as a person uses it: a real browser, a dispatcher and a worker of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from shunter.client import Client
from system.yard import PATIENCE, Station, Yard, until

LIVE_SECONDS = 2.0


def is_live(tab: Any) -> None:
    tab.locator("#state.live").wait_for()


def test_the_overview_shows_what_runs_and_moves_by_itself(tab: Any, client: Client) -> None:
    tab.goto("/")
    is_live(tab)
    client.submit("nobody_does_this", 1)

    began = time.monotonic()
    row = tab.locator("tr[data-row=nobody_does_this]")
    row.wait_for()
    took = time.monotonic() - began

    assert "no worker" in row.inner_text()
    assert took < LIVE_SECONDS + 3.0  # the machine may be busy; an idle one needs a second
    assert tab.locator(".plot").count() == 3


def test_a_job_is_followed_from_its_start_to_its_end_without_a_reload(
    tab: Any, client: Client, tmp_path: Path
) -> None:
    job = client.submit("hold", str(tmp_path))
    tab.goto(f"/jobs/{job.id}")
    tab.locator(".status", has_text="in progress").wait_for()
    tab.locator("progress").wait_for()
    tab.evaluate("window.same = true")

    (tmp_path / "go").touch()
    tab.locator(".head .status", has_text="completed").wait_for()
    tab.locator(".tree", has_text="held").wait_for()

    assert tab.evaluate("window.same") is True


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


def test_the_worker_and_the_dispatcher_are_shown(tab: Any, station: Station) -> None:
    tab.goto("/workers")
    row = tab.locator("tr", has_text="1.4.2")
    row.wait_for()
    assert "ZeroMQ" in row.inner_text()
    tab.goto("/dispatchers")
    tab.locator("tr", has_text="serves this page").wait_for()


def test_a_page_says_that_its_dispatcher_is_gone_and_comes_back(
    tab: Any, client: Client, station: Station, page_yard: Yard
) -> None:
    tab.goto("/jobs")
    is_live(tab)
    station.process.kill()
    tab.locator("#trouble", has_text="does not answer").wait_for()

    station.start()
    is_live(tab)
    assert tab.locator("#trouble").is_hidden()
    job = client.submit("echo", "after the crash")
    tab.locator(f"tr[data-row='{job.id}']").wait_for()


@pytest.mark.parametrize("path", ["/", "/jobs", "/workers", "/dispatchers"])
def test_everything_can_be_read_without_a_script(browser: Any, station: Station, path: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=station.url)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE * 1000)
    tab.goto(path)
    assert tab.locator("table").count() >= 1
    assert tab.locator("main").inner_text().strip()
    context.close()
