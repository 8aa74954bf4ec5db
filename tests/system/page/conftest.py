"""One browser, one dispatcher and one worker for all tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.client import Client
from system.yard import PATIENCE, Station, Yard

APP = f"{Path(__file__).parent / 'page_app.py'}:app"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO_BROWSER = "the page is tried in Chromium: apt-get install chromium, pip install playwright"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason=NO_BROWSER)
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER)
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=2 * PATIENCE * 1000
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def page_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    place = Yard(tmp_path_factory.mktemp("page"))
    try:
        yield place
    finally:
        place.close()


@pytest.fixture(scope="module")
def station(page_yard: Yard, browser: Any) -> Station:
    shutil.copytree(Path(__file__).parent / "flows", page_yard.folder / "flows")
    made = page_yard.dispatcher(udp__enabled=False)
    page_yard.worker(made, slots=2, app=APP)
    return made


@pytest.fixture(scope="module")
def client(page_yard: Yard, station: Station) -> Client:
    return page_yard.client(station)


@pytest.fixture
def tab(browser: Any, station: Station) -> Iterator[Any]:
    """A tab of a person who sees light, on a wide screen; what goes wrong in it fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=station.url)
    context.set_default_timeout(PATIENCE * 1000)
    tab = context.new_page()
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    tab.on(
        "console",
        lambda message: (
            faults.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    yield tab
    context.close()
    assert faults == []
