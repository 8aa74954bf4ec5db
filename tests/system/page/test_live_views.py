"""Views that move by themselves, in a real browser: what happens is seen within two seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shunter.client import Client
from system.page.tabs import is_live
from system.yard import PATIENCE, until

LIVE_SECONDS = 2.0
ROUNDS = 8
"""So many events happen, of which one at least is seen in time."""

NOBODYS = "tr[data-row=nobody_does_this]"


def test_the_overview_shows_what_runs_and_moves_by_itself(tab: Any, client: Client) -> None:
    tab.goto("/")
    is_live(tab)
    tab.evaluate("window.same = true")
    seconds = seconds_until_each_is_seen(tab, client)
    next(seconds)  # happened at any moment

    assert any(took < LIVE_SECONDS for took in seconds)  # on a busy machine not each time
    assert "no worker" in tab.locator(NOBODYS).inner_text()
    assert tab.evaluate("window.same") is True
    assert tab.locator(".uplot").count() == 3


def seconds_until_each_is_seen(tab: Any, client: Client) -> Iterator[float]:
    """Submit one job after the other, each right after a look at the store has shown the last.

    Were looks further apart, all but the first would be seen late, and none in time by chance.
    """
    waiting = tab.locator(NOBODYS).locator("td").first
    for number in range(1, ROUNDS):
        client.submit("nobody_does_this", number)  # returns when it is committed
        began = time.monotonic()
        waiting.filter(has_text=re.compile(f"^{number}$")).wait_for()
        yield time.monotonic() - began


def test_a_job_is_followed_from_its_start_to_its_end_without_a_reload(
    tab: Any, client: Client, tmp_path: Path
) -> None:
    folders = (tmp_path / str(number) for number in range(ROUNDS))

    assert any(
        seconds_until_the_end_is_seen(tab, client, folder) < LIVE_SECONDS for folder in folders
    )


def seconds_until_the_end_is_seen(tab: Any, client: Client, folder: Path) -> float:
    """Follow a job from its start; return how long it has ended when the page says so.

    It is told to end right after a look has shown more of its log.
    """
    folder.mkdir()
    job = client.submit("hold", str(folder))
    tab.goto(f"/jobs/{job.id}")
    tab.locator(".status", has_text="in progress").wait_for()
    tab.locator("progress").wait_for()
    tab.evaluate("window.same = true")
    log = tab.locator("[data-region=log_part] pre", has_text="held for 9 steps")
    log.wait_for()
    before = log.inner_text()
    until(lambda: log.inner_text() != before)

    (folder / "go").touch()
    until(lambda: client.job(job.id).status.is_final)
    began = time.monotonic()
    tab.locator(".head .status", has_text="completed").wait_for()
    tab.locator(".tree", has_text="held").wait_for()

    took = time.monotonic() - began
    assert tab.evaluate("window.same") is True
    return took


def test_the_log_of_a_job_that_shares_its_process_grows_as_text_with_nothing_of_its_neighbours(
    tab: Any, client: Client, tmp_path: Path
) -> None:
    hostile = "<img src=x onerror='window.hacked = 1'>\x1b]8;;http://evil\x07"
    jobs = [client.submit("hold_together", word, str(tmp_path)) for word in (hostile, "bob")]
    tab.goto(f"/jobs/{jobs[0].id}")
    log = tab.locator("[data-region=log_part] pre", has_text="held for 9 steps")
    log.wait_for()
    before = log.inner_text()
    until(lambda: log.inner_text() != before)

    assert "<img src=x" in log.inner_text()
    assert "bob" not in log.inner_text()
    assert tab.locator("main img").count() == 0
    assert tab.evaluate("window.hacked") is None
    (tmp_path / "go").touch()
    for job in jobs:
        job.result(PATIENCE)
    tab.locator(".head .status", has_text="completed").wait_for()


def test_a_hidden_tab_asks_for_nothing_and_catches_up_when_it_is_seen(
    tab: Any, client: Client
) -> None:
    tab.goto("/jobs?type=seen_later")
    is_live(tab)
    tab.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    tab.locator("#state", has_text="paused").wait_for()
    job = client.submit("seen_later", 1)

    tab.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
    with tab.expect_request("**/live?**"):
        tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    tab.locator(f"tr[data-row='{job.id}']").wait_for()
