"""The command line and the client, from a terminal's point of view."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from typing import Any

import pytest

from shunter.client import Client
from shunter.errors import JobRefused
from shunter.model.job import Status
from shunter.model.retry import Retry
from system.witness import runs_in
from system.yard import PATIENCE, Station, Yard, free_port, until


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    made = shared_yard.dispatcher()
    shared_yard.worker(made, worker__kill_grace_seconds=3.0)
    return made


@pytest.fixture(scope="module")
def client(shared_yard: Yard, station: Station) -> Client:
    return shared_yard.client(station)


def printed(yard: Yard, *words: str, station: Station, code: int = 0) -> Any:
    """Run a command with --json and return what it printed."""
    done = yard.shunter(*words, "--json", station=station)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_submit_prints_the_id_of_a_stored_job(shared_yard: Yard, station: Station) -> None:
    done = shared_yard.shunter("submit", "add", "1", "2", station=station)

    assert done.returncode == 0
    story = printed(shared_yard, "job", done.stdout.strip(), station=station)
    assert story["type"] == "add"


def test_submit_and_wait_prints_the_result(shared_yard: Yard, station: Station) -> None:
    done = shared_yard.shunter("submit", "add", "20", "right=22", "--wait", station=station)

    assert (done.returncode, done.stdout) == (0, "42\n")


def test_submit_and_wait_in_json(shared_yard: Yard, station: Station) -> None:
    words = ("submit", "echo", '{"a": [1, "two", null]}', "--wait")

    shown = printed(shared_yard, *words, station=station)

    assert shown["status"] == "completed"
    assert shown["result"] == {"a": [1, "two", None]}


def test_limits_are_shown_and_changed_while_jobs_run(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    changed = printed(
        shared_yard, "limits", "set", "echo", "--limit", "1", "--by", "tenant", station=station
    )
    assert changed[0]["limits"] == {"limit": {"at_once": 1, "by": "tenant"}}

    words = ("submit", "echo", "hello", "--key", "tenant=acme", "--wait")
    assert printed(shared_yard, *words, station=station)["result"] == "hello"
    [job] = client.jobs(type="echo", limit=1)
    assert job.keys == {"tenant": "acme"}
    assert "tenant=acme" in shared_yard.shunter("job", job.id, station=station).stdout
    assert "1 at once by tenant" in shared_yard.shunter("limits", station=station).stdout

    back = printed(shared_yard, "limits", "set", "echo", "--default", station=station)
    assert (back[0]["limits"], back[0]["is_changed"]) == ({}, False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("limits", "set", "echo", "--limit", "-1"), "limit.at_once: found -1; send 1 to"),
        (("limits", "set", "echo"), "say what to change"),
        (("limits", "set", "no way", "--limit", "1"), "type: found 'no way'; send 1 to 128"),
        (("submit", "echo", "1", "--key", "tenant"), "write NAME=VALUE"),
        (("submit", "echo", "1", "--key", "a b=c"), "found the name 'a b'"),
    ],
)
def test_bad_limits_and_keys_are_refused_with_field_and_remedy(
    shared_yard: Yard, station: Station, words: tuple[str, ...], told: str
) -> None:
    done = shared_yard.shunter(*words, station=station)

    assert done.returncode == 2
    assert told in done.stderr


def test_a_long_text_result_is_printed_as_it_is(shared_yard: Yard, station: Station) -> None:
    text = "[bold]" + "words and more words " * 50 + "[/bold]"

    done = shared_yard.shunter("submit", "echo", text, "--wait", station=station)

    assert done.stdout == text + "\n"


def test_a_failed_job_exits_1_and_shows_why(shared_yard: Yard, station: Station) -> None:
    done = shared_yard.shunter("submit", "fail", "no luck today", "--wait", station=station)
    assert done.returncode == 1
    assert "no luck today" in done.stderr

    words = ("submit", "fail", "no luck today", "--wait")
    shown = printed(shared_yard, *words, station=station, code=1)
    assert shown["status"] == "failed"
    assert shown["error"]["kind"] == "exception"


def test_no_dispatcher_exits_3(shared_yard: Yard) -> None:
    nowhere = f"tcp://127.0.0.1:{free_port()}"

    done = shared_yard.shunter("submit", "add", "1", "2", "--dispatcher", nowhere)

    assert done.returncode == 3
    assert nowhere in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wait_that_is_over_before_the_job_exits_4(shared_yard: Yard, station: Station) -> None:
    words = ("submit", "work", "1", "2.0", "--wait-timeout", "0.3")

    done = shared_yard.shunter(*words, station=station)

    assert done.returncode == 4
    assert "0.3 s" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "bad type"),
        ("submit", "add", "--payload", "{"),
        ("submit", "add", "--priority", "100000"),
        ("jobs", "--status", "sleeping"),
        ("submit", "add", "--timeout", "-1"),
    ],
)
def test_a_wrong_command_exits_2(
    shared_yard: Yard, station: Station, words: tuple[str, ...]
) -> None:
    done = shared_yard.shunter(*words, station=station)

    assert done.returncode == 2
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_a_type_that_nobody_does_is_pointed_out(shared_yard: Yard, station: Station) -> None:
    done = shared_yard.shunter("submit", "nobody-does-this", station=station)

    assert done.returncode == 0
    assert "nobody-does-this" in done.stderr


def test_jobs_are_listed_by_status_and_type(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    done = client.submit("echo", "listed")
    assert done.result(PATIENCE) == "listed"

    shown = printed(shared_yard, "jobs", "--type", "echo", "--status", "completed", station=station)
    assert done.id in [job["id"] for job in shown]
    assert {job["word"] for job in shown} == {"completed"}
    assert all({"payload", "result"}.isdisjoint(job) for job in shown)  # nobody takes them for null
    table = shared_yard.shunter("jobs", "--limit", "5", station=station)
    assert table.returncode == 0
    assert "completed" in table.stdout
    client.submit("counted-alone")
    counted = shared_yard.shunter("jobs", "--type", "counted-alone", station=station)
    assert counted.stdout.splitlines()[-1] == "1 queued"


def test_a_table_of_jobs_shows_whole_ids_where_output_is_no_terminal(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    job = client.submit("echo", "whole")
    job.result(PATIENCE)

    table = shared_yard.shunter("jobs", "--limit", "3", station=station)

    assert job.id in table.stdout


def test_a_job_tells_its_whole_story(shared_yard: Yard, station: Station, client: Client) -> None:
    job = client.submit("fail_until", 3)
    assert job.result(PATIENCE) == 3

    story = shared_yard.shunter("job", job.id, station=station)
    shown = printed(shared_yard, "job", job.id, station=station)

    assert story.returncode == 0
    assert "this is attempt 3" in story.stdout
    assert "attempt 2 fails" in story.stdout
    assert [past["attempt"] for past in shown["history"]] == [1, 2]
    assert "this is attempt 3" in shown["log"]
    assert (shown["attempt"], shown["failures"]) == (3, 2)


def test_a_job_that_is_not_there_is_named(shared_yard: Yard, station: Station) -> None:
    done = shared_yard.shunter("job", "01nosuchjob", station=station)

    assert done.returncode == 1
    assert "01nosuchjob" in done.stderr
    signalled = shared_yard.shunter("signal", "01nosuchjob", "approved", station=station)
    assert (signalled.returncode, signalled.stderr) == (1, done.stderr)


def test_retries_wait_longer_each_time(shared_yard: Yard, client: Client) -> None:
    job = client.submit("fail_until", 4)
    assert job.result(PATIENCE) == 4

    starts = [run.first for run in runs_in(shared_yard.witness)[job.id]]

    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert len(gaps) == 3
    for gap, least in zip(gaps, (0.1, 0.2, 0.4), strict=True):
        assert gap >= least


def test_retries_end(client: Client) -> None:
    impatient = client.with_options(retry=Retry(limit=1, delay=0.05))

    outcome = impatient.submit("fail", "always").wait(PATIENCE)

    assert outcome.status is Status.FAILED
    assert client.job(outcome.job_id).attempt == 2


@pytest.mark.parametrize(
    ("job_type", "ended_by"), [("polite", "request"), ("work", "SIGTERM"), ("stubborn", "SIGKILL")]
)
def test_cancel_ends_a_running_job_and_records_what_it_took(
    shared_yard: Yard, station: Station, client: Client, job_type: str, ended_by: str
) -> None:
    job = client.submit(job_type, *((1, 60.0) if job_type == "work" else ()))
    until(lambda: job.id in runs_in(shared_yard.witness))

    [row] = printed(shared_yard, "cancel", job.id, station=station)

    assert row["cancelled"]
    outcome = job.wait(PATIENCE)
    assert outcome.status is Status.CANCELLED
    assert outcome.error is not None
    assert outcome.error.ended_by == ended_by


def test_cancel_ends_a_waiting_job_at_once_and_only_once(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    job = client.with_options(delay=600.0).submit("add", 1, 1)

    assert shared_yard.shunter("cancel", job.id, station=station).returncode == 0
    assert job.wait(PATIENCE).status is Status.CANCELLED
    again = shared_yard.shunter("cancel", job.id, station=station)

    assert again.returncode == 1
    assert job.id in again.stdout + again.stderr


def test_a_timeout_ends_a_job_for_good(client: Client) -> None:
    outcome = client.with_options(timeout=0.3).submit("work", 1, 60.0).wait(PATIENCE)

    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    assert outcome.error.ended_by == "SIGTERM"


def test_workers_are_listed(shared_yard: Yard, station: Station) -> None:
    [shown] = until(lambda: printed(shared_yard, "workers", station=station))
    assert shown["state"] == "alive"

    assert shown["max_jobs"] == 2
    assert "add" in [handler["type"] for handler in shown["handlers"]]
    table = shared_yard.shunter("workers", station=station)
    assert "alive" in table.stdout


def test_progress_is_shown(shared_yard: Yard, station: Station, client: Client) -> None:
    job = client.submit("advancing", 7)

    until(lambda: (found := client.job(job.id).progress) and found.done == 7)
    story = shared_yard.shunter("job", job.id, station=station)
    client.cancel([job.id])

    assert "7 of 7" in story.stdout
    assert job.wait(PATIENCE).status in (Status.COMPLETED, Status.CANCELLED)


def test_a_higher_priority_goes_first(yard: Yard) -> None:
    """With one slot, so that runs begin in the order in which their jobs were taken."""
    station = yard.dispatcher()
    yard.worker(station, slots=1)
    client = yard.client(station)
    blocker = client.submit("polite")
    until(lambda: blocker.id in runs_in(yard.witness))
    low = [client.with_options(priority=-5).submit("work", n, 0.05) for n in range(4)]
    high = [client.with_options(priority=5).submit("work", n, 0.05) for n in range(4)]

    client.cancel([blocker.id])
    for job in (*low, *high):
        job.result(PATIENCE)

    runs = runs_in(yard.witness)
    assert max(runs[j.id][0].first for j in high) < min(runs[j.id][0].first for j in low)


def test_a_delayed_job_waits_its_time(shared_yard: Yard, client: Client) -> None:
    submitted_at = time.monotonic()

    job = client.with_options(delay=1.0).submit("work", 1, 0.0)
    assert client.job(job.id).status is Status.QUEUED
    job.result(PATIENCE)

    assert runs_in(shared_yard.witness)[job.id][0].first >= submitted_at + 1.0


def test_a_unique_key_makes_the_same_submission_the_same_job(client: Client) -> None:
    keyed = client.with_options(unique_key="only one of these")
    first = keyed.submit("add", 3, 4)

    again = keyed.submit("add", 3, 4)

    assert again.id == first.id
    assert again.result(PATIENCE) == 7
    assert first.result(PATIENCE) == 7
    with pytest.raises(JobRefused, match="only one of these"):
        keyed.submit("add", 3, 5)


def test_megabytes_travel_both_ways(client: Client) -> None:
    data = bytes(range(256)) * 20_000

    assert client.submit("echo", data).result(PATIENCE) == data


@pytest.mark.parametrize("is_told", [True, False], ids=["worker-knows", "worker-does-not"])
def test_a_result_over_the_limit_fails_its_job_and_harms_no_other(
    yard: Yard, is_told: bool
) -> None:
    limit = {"zmq__max_message_bytes": 1024 * 1024}
    station = yard.dispatcher(**limit)
    yard.worker(station, **limit if is_told else {})
    client = yard.client(station)

    outcome = client.submit("blob", 5.0).wait(PATIENCE)

    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert client.submit("add", 1, 1).result(PATIENCE) == 2


def test_unknown_types_are_refused_where_that_is_set(yard: Yard) -> None:
    station = yard.dispatcher(dispatcher__jobs__unknown_types="refuse")
    yard.worker(station)
    client = yard.client(station)
    until(client.workers)

    with pytest.raises(JobRefused, match="nobody-does-this"):
        client.submit("nobody-does-this")


def test_a_fork_prints_what_a_command_prints(yard: Yard) -> None:
    words = ["jobs", "--limit", "none"]
    typed = subprocess.run(
        [sys.executable, "-m", "shunter", *words], capture_output=True, text=True, cwd=yard.folder
    )

    forked = yard.shunter(*words)

    assert (forked.returncode, forked.stdout, forked.stderr) == (
        (typed.returncode, typed.stdout, typed.stderr)
    )
    assert typed.returncode == 2
