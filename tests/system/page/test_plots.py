"""The plots of the overview in a real browser: they move, and everybody can read them."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from shunter.client import Client
from shunter.page.plots import value_text
from system.yard import PATIENCE, Station, until

MOST_BYTES = 150_000
HOUR = 3580
"""From the first of 359 points, which are ten seconds apart, to the last."""

PLOT = ".plot-box[data-plot=throughput] .uplot"
PICTURE = f"document.querySelector('{PLOT} canvas').toDataURL()"


def value(tab: Any) -> str:
    return str(tab.locator(PLOT).get_attribute("aria-valuetext"))


def seconds_shown(tab: Any) -> int:
    plot = tab.locator(PLOT)
    return int(plot.get_attribute("aria-valuemax")) - int(plot.get_attribute("aria-valuemin"))


def hide(tab: Any, is_hidden: bool) -> None:
    now = f"{{value: {str(is_hidden).lower()}, configurable: true}}"
    tab.evaluate(f"Object.defineProperty(document, 'hidden', {now})")
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def opened(tab: Any) -> None:
    tab.goto("/")
    tab.locator("#state.live").wait_for()
    tab.locator(PLOT).wait_for()


def test_a_plot_moves_by_new_points_alone(tab: Any, client: Client) -> None:
    opened(tab)
    tab.evaluate("window.seen = []")
    tab.evaluate("document.addEventListener('points', (it) => seen.push(it.detail))")
    before = tab.evaluate(PICTURE)
    shown = tab.locator("[data-plot=throughput] .key.ended strong")
    jobs = [client.submit("add", number, 1) for number in range(7)]

    until(lambda: shown.inner_text() != "0 /s", what="jobs that ended are in the plot")
    until(lambda: shown.inner_text() in value(tab), what="both are of one look")
    assert all(job.result(timeout=PATIENCE) for job in jobs)
    assert tab.evaluate(PICTURE) != before
    assert seconds_shown(tab) == HOUR
    last = next(it["throughput"] for it in reversed(tab.evaluate("seen")) if "throughput" in it)
    assert [len(column) <= 3 for column in last[2:]] == [True, True]


def test_a_plot_says_what_it_shows_and_follows_the_keys_and_the_pointer(tab: Any) -> None:
    opened(tab)
    plot = tab.get_by_role("slider", name="Jobs a second, the last hour")
    said = re.compile(r"(now|\d\d:\d\d:\d\d UTC): ended [\d.,]+ /s, came in [\d.,]+ /s")
    assert said.fullmatch(value(tab))
    assert value(tab).startswith("now: ")

    plot.focus()
    tab.keyboard.press("Home")
    first = value(tab)
    tab.keyboard.press("ArrowRight")
    assert said.fullmatch(first)
    assert first < value(tab) < "now"
    assert tab.locator("[data-plot=throughput] .plot-top").inner_text() in value(tab)
    tab.keyboard.press("Escape")
    assert value(tab).startswith("now: ")

    plot.hover()
    assert not value(tab).startswith("now: ")
    tab.mouse.move(1, 1)
    until(lambda: value(tab).startswith("now: "))


def test_a_plot_takes_the_width_of_a_phone_and_the_colours_of_the_night(tab: Any) -> None:
    opened(tab)
    assert tab.locator(PLOT).bounding_box()["width"] > 360
    tab.set_viewport_size({"width": 360, "height": 740})
    until(lambda: 250 < tab.locator(PLOT).bounding_box()["width"] <= 340)
    assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")

    hide(tab, True)  # nothing is drawn for new points any more
    light = tab.evaluate(PICTURE)
    tab.emulate_media(color_scheme="dark")
    until(lambda: tab.evaluate(PICTURE) != light)
    assert tab.evaluate(COLOURS) == [127, 176, 255]


COLOURS = f"""() => {{
  const canvas = document.querySelector('{PLOT} canvas');
  const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4)
    if (data[at + 3] === 255 && data[at + 2] === 255) return [...data.slice(at, at + 3)];
}}"""
"""The first pixel of the plot that is as blue as its line in the dark."""


def test_a_tab_that_was_hidden_shows_the_whole_hour_when_it_is_seen(tab: Any) -> None:
    opened(tab)
    hide(tab, True)
    tab.evaluate("document.addEventListener('points', (it) => { window.seen = it.detail; })")
    hide(tab, False)
    until(lambda: tab.evaluate("'throughput' in (window.seen ?? {})"))
    assert seconds_shown(tab) == HOUR


def test_without_a_script_plots_are_pictures_with_their_values_beside(
    browser: Any, station: Station
) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=station.url)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE * 1000)
    tab.goto("/")
    for name in ("throughput", "failures", "turns"):
        box = tab.locator(f"[data-plot={name}]")
        assert box.locator("svg[role=img]").is_visible()
        label = box.locator("svg").get_attribute("aria-label")
        for text in box.locator(".key").all_inner_texts():
            assert text in label
    context.close()


def test_the_library_is_loaded_where_plots_are_and_the_first_page_is_light(
    station: Station,
) -> None:
    with httpx.Client(base_url=station.url, trust_env=False, timeout=PATIENCE) as asking:
        page = asking.get("/")
        parts = re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text)
        weight = len(page.content) + sum(len(asking.get(it).content) for it in {*parts})
        assert "/page/uPlot.iife.min.js" in parts
        assert weight < MOST_BYTES
        for path in ("/jobs", "/workers", "/sign-in"):
            assert "uPlot" not in asking.get(path).text


@pytest.mark.parametrize("figure", [0, 0.05, 0.3, 12.25, 1234.5, 45678.9])
def test_the_script_writes_values_as_the_server_does(tab: Any, figure: float) -> None:
    opened(tab)
    said = tab.evaluate(
        """(value) => {
          const detail = {throughput: [4e9, 10, [value], [0]]};
          document.dispatchEvent(new CustomEvent('points', {detail}));
          return document.querySelector('[data-plot=throughput] .key.ended strong').innerText;
        }""",  # at once: the next look has points of its own
        figure,
    )
    assert said == value_text(figure, "/s")
