"""`why` in all its forms, shell, HTTP and page; and the commands that it names do what it says."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from shunter.client import Client
from shunter.client.sync_client import SubmittedJob
from shunter.errors import ResultTimeout
from system.yard import Station, Yard, until

APP = f"{Path(__file__).parent / 'why_app.py'}:app"

PASSES, STUCK = 4, 5
"""What the command exits with where a job waits for what passes, or until somebody acts."""

HEEDED_SECONDS = 4.0
"""All dispatchers have heeded an order of people by then: they look each second."""

Ask = Callable[[str], dict[str, Any]]


@pytest.fixture
def station(yard: Yard, store_url: str) -> Station:
    """The dispatcher that is asked; another one, on the same store, has the worker."""
    asked = yard.dispatcher("asked", store__url=store_url, udp__enabled=False)
    other = yard.dispatcher("other", store__url=store_url, udp__enabled=False)
    yard.worker(other, app=APP, slots=2)
    until(lambda: [it for it in yard.client(other).workers() if it.state == "alive"])
    return asked


@pytest.fixture
def client(yard: Yard, station: Station) -> Client:
    return yard.client(station)


def timeless(text: str) -> str:
    """Return a text without spans: seconds go by between two questions."""
    return re.sub(r"[0-9.,]+ (ms|s|min|h|d)\b", "-", text)


@pytest.fixture
def ask(yard: Yard, station: Station) -> Ask:
    def asked(job_id: str) -> dict[str, Any]:
        """Ask in all three forms, which must say the same; return what programs get."""
        told = yard.shunter("why", job_id, station=station)
        as_json = json.loads(yard.shunter("why", job_id, "--json", station=station).stdout)
        url = f"{station.url}/dispatcher/jobs/{job_id}/why"
        found: dict[str, Any] = httpx.get(url, trust_env=False).json()
        page = httpx.get(f"{station.url}/jobs/{job_id}", trust_env=False).text
        shown = html.unescape(re.sub(r"<[^>]+>", "", page))

        kinds = [it["kind"] for it in found.get("reasons", ())]
        assert [it["kind"] for it in as_json.get("reasons", ())] == kinds
        said = [it["text"] for it in found.get("reasons", ())]
        if change := found.get("change"):
            said += [change["text"], change.get("command", "")]
        for text in map(timeless, said):
            assert text in timeless(told.stdout)
            assert text in timeless(shown)
        return {**found, "exit": told.returncode, "kinds": kinds}

    return asked


def kept_by(station: Station, job_id: str) -> list[str]:
    """Return the kinds of what keeps a job just now."""
    said = httpx.get(f"{station.url}/dispatcher/jobs/{job_id}/why", trust_env=False).json()
    return [it["kind"] for it in said.get("reasons", ())]


@pytest.fixture
def first_kept(station: Station, client: Client) -> Callable[[str], SubmittedJob[Any]]:
    def first(kind: str) -> SubmittedJob[Any]:
        """Return the first job that is kept by this, and for so long that all have heeded it."""

        def is_kept(job_id: str) -> bool:
            return kind in kept_by(station, job_id)

        def found() -> SubmittedJob[Any] | None:
            job = client.submit("add", 1, 2)
            with suppress(ResultTimeout):
                job.result(HEEDED_SECONDS)
            return job if is_kept(job.id) else None

        job = until(found)
        assert job is not None
        return job

    return first


@pytest.mark.parametrize("store_url", ["sqlite", "mongodb"], indirect=True)
def test_why_says_the_same_everywhere_and_its_commands_start_the_job(
    yard: Yard,
    station: Station,
    client: Client,
    ask: Ask,
    first_kept: Callable[[str], SubmittedJob[Any]],
) -> None:
    def obey(said: dict[str, Any]) -> None:
        """Type what it says."""
        command, *words = shlex.split(said["change"]["command"])
        assert command == "shunter"
        done = yard.shunter(*words, station=station)
        assert done.returncode == 0, done.stderr

    misspelt = client.submit("ad", 1, 2)
    said = ask(misspelt.id)
    assert (said["exit"], said["kinds"]) == (STUCK, ["unserved"])
    assert said["reasons"][0]["similar"] == "add"

    assert yard.shunter("pause", "add", station=station).returncode == 0
    paused = first_kept("paused")
    said = ask(paused.id)
    assert (said["exit"], said["kinds"]) == (STUCK, ["paused"])
    obey(said)
    assert paused.result() == 3

    later = client.with_options(delay=3600).submit("add", 1, 2)
    said = ask(later.id)
    assert (said["exit"], said["kinds"]) == (PASSES, ["time"])

    parked = client.submit("signed")
    until(lambda: client.job(parked.id).status.word == "waiting")
    said = ask(parked.id)
    assert (said["exit"], said["kinds"]) == (STUCK, ["signal"])
    obey(said)
    assert parked.result() == "signed"

    first, second = (client.submit("alone", str(yard.folder)) for _ in range(2))
    until(lambda: client.job(first.id).status.word == "in progress")
    said = ask(second.id)
    assert (said["exit"], said["kinds"]) == (PASSES, ["total"])
    assert [it["job_id"] for it in said["reasons"][0]["holders"]] == [first.id]
    obey(said)
    until(lambda: client.job(second.id).status.word == "in progress")

    full = client.submit("add", 3, 4)
    until(lambda: kept_by(station, full.id) == ["full"])  # it may have been sent ahead first
    said = ask(full.id)
    assert (said["exit"], said["kinds"]) == (PASSES, ["full"])
    assert {it["job_id"] for it in said["reasons"][0]["holders"]} == {first.id, second.id}
    older = client.submit("add", 5, 6)
    until(lambda: kept_by(station, older.id)[:1] == ["full"])
    assert ask(older.id)["kinds"][0] == "full"

    (yard.folder / "go").touch()
    assert (full.result(), older.result()) == (7, 11)
    assert yard.shunter("drain", "--version", "1.4", station=station).returncode == 0
    held = first_kept("drained")
    said = ask(held.id)
    assert (said["exit"], said["kinds"]) == (STUCK, ["drained"])
    obey(said)
    assert held.result() == 3

    said = ask(held.id)
    assert (said["exit"], said["standing"]) == (0, "ended")
    assert sum(it["seconds"] for it in said["spans"]) > 0


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_why_of_a_job_that_is_not_there_says_so(yard: Yard, station: Station) -> None:
    told = yard.shunter("why", "nobody", station=station)
    assert told.returncode not in (0, PASSES, STUCK)
    assert "nobody" in told.stderr
    url = f"{station.url}/dispatcher/jobs/nobody/why"
    assert httpx.get(url, trust_env=False).status_code == 404
