"""The log of a job while it runs, whichever worker has it: each line is its own, and in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shunter.client import Client
from shunter.model.job import Status
from system.http.conftest import JOBS, Web, refused
from system.http_peers import ForeignWorker
from system.live_log_app import sealing
from system.page.hostile import HOSTILE
from system.udp_peers import UdpPeer
from system.yard import PATIENCE, Process, Station, Yard, until

HERE = Path(__file__).parent / "live_log_app.py"
APP, SHARING = f"{HERE}:app", f"{HERE}:sharing"


@pytest.fixture
def station(yard: Yard) -> Station:
    return yard.dispatcher()


@pytest.fixture
def web(station: Station) -> Iterator[Web]:
    asking = Web(station)
    with asking.raw:
        yield asking


def log_of(web: Web, job_id: str) -> str:
    return str(web.job(job_id)["log"])


def calculator(yard: Yard, station: Station, app: str) -> Process:
    config = yard.config("calculator", {"worker.max_jobs": 1})
    where = f"127.0.0.1:{station.udp_port}"
    words = ("calculator", "--app", app, "--config", str(config), "--dispatcher", where)
    return yard.process(words, "calculator")


WORKERS: dict[str, Callable[[Yard, Station], Process]] = {
    "zmq": lambda yard, station: yard.worker(station, slots=1, app=SHARING),
    "http": lambda yard, station: yard.http_worker(station, slots=1, app=SHARING),
    "udp": lambda yard, station: calculator(yard, station, SHARING),
}


@pytest.mark.parametrize("protocol", WORKERS)
def test_jobs_that_share_a_process_show_their_own_logs_while_they_run(
    yard: Yard, station: Station, web: Web, tmp_path: Path, protocol: str
) -> None:
    WORKERS[protocol](yard, station)
    words = {"ada": "count", "bob": "count", "cy": "count_in_thread", "dee": "count_in_thread"}
    jobs = {word: web.submit(kind, word, str(tmp_path))["id"] for word, kind in words.items()}

    for word, job_id in jobs.items():
        first = until(lambda job_id=job_id: log_of(web, job_id))  # type: ignore[misc]
        grown = until(lambda job_id=job_id, first=first: (  # type: ignore[misc]
            (now := log_of(web, job_id)) != first and now
        ))  # fmt: skip
        assert web.job(job_id)["status"] == "i"
        for line in grown.splitlines():
            assert word in line or "left out" in line, "somebody else's words"
    for word, job_id in jobs.items():
        (tmp_path / word).touch()
        done = web.when(job_id, "c")
        assert done["log"].endswith(f"{word} has all\n")
        if protocol != "udp":
            assert done["log"].count(" has ") == done["result"] + 1


@pytest.mark.parametrize("protocol", ["zmq", "http"])
def test_what_a_run_has_printed_before_its_process_died_is_seen(
    yard: Yard, station: Station, web: Web, tmp_path: Path, protocol: str
) -> None:
    WORKERS[protocol](yard, station)
    neighbour = web.submit("count", "ada", str(tmp_path))["id"]
    job_id = web.submit("die", str(tmp_path), effects="at_most_once")["id"]
    until(lambda: log_of(web, neighbour) and log_of(web, job_id))

    (tmp_path / "go").touch()

    ended = web.when(job_id, "f")
    assert ended["error"]["kind"] == "lost"
    assert ended["log"] == "its last words\n"
    (tmp_path / "ada").touch()
    web.when(neighbour, "c", "f")


def test_the_log_of_an_earlier_attempt_is_left_out_once_a_new_one_runs(
    yard: Yard, store_url: str, tmp_path: Path
) -> None:
    """On the page, over HTTP and for clients alike."""
    station = yard.dispatcher(store__url=store_url)
    yard.worker(station, slots=1, app=APP)
    client = yard.client(station)
    job = client.submit("twice", str(tmp_path))
    until(lambda: "the first run" in job.log())
    (tmp_path / "fail").touch()
    until(lambda: client.job(job.id).attempt == 2)

    def seen() -> list[str]:
        page = httpx.get(f"{station.url}/jobs/{job.id}", timeout=PATIENCE, trust_env=False).text
        log = page.partition('data-region="log_part"')[2].partition("</section>")[0]
        api = httpx.get(f"{station.url}{JOBS}{job.id}", timeout=PATIENCE, trust_env=False).json()
        return [log, api["log"], job.log()]

    page, api, handle = seen()
    assert "Nothing was logged yet" in page
    assert "the first run" not in page
    assert (api, handle) == ("", "")
    heard: list[str] = []
    late = threading.Thread(target=lambda: heard.extend(job.follow_log()))
    late.start()
    (tmp_path / "say").touch()
    until(lambda: all("the second run says this" in text for text in seen()))
    assert not any("the first run" in text for text in seen())
    assert client.job(job.id).status is Status.IN_PROGRESS
    (tmp_path / "go").touch()
    assert job.result(PATIENCE) is None
    assert "the first run" not in "".join(seen())
    late.join(PATIENCE)
    assert heard == ["the second run says this\n"]


# ---- following over HTTP


def followed(web: Web, job_id: str, **headers: str) -> Iterator[tuple[str, str, Any]]:
    """Yield id, name and data of each event."""
    with web.raw.stream("GET", f"{JOBS}{job_id}/log", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in stream.iter_lines():
            if not line and fields:
                yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                fields = {}
            elif line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value


def test_a_log_is_followed_as_events_to_its_end_and_gone_on_with(
    yard: Yard, station: Station, web: Web, tmp_path: Path
) -> None:
    yard.worker(station, slots=1, app=SHARING)
    job_id = web.submit("count", "ada", str(tmp_path))["id"]

    events = []
    for event in followed(web, job_id):
        events.append(event)
        if len(events) == 2:
            (tmp_path / "ada").touch()

    whole = web.when(job_id, "c")["log"]
    *pieces, end = events
    assert {name for _, name, _ in pieces} == {"log"}
    assert "".join(text for _, _, text in pieces) == whole
    assert end[1:] == ("end", {"status": "c"})
    behind = list(followed(web, job_id, **{"Last-Event-ID": pieces[0][0]}))
    assert pieces[0][2] + "".join(text for _, name, text in behind if name == "log") == whole
    refused(web.raw.get(f"{JOBS}nobody/log"), 404, "not_found", "id")


def test_who_follows_a_log_hears_that_the_job_runs_again(
    yard: Yard, station: Station, web: Web, tmp_path: Path
) -> None:
    job_id = web.submit("twice", str(tmp_path))["id"]
    events: list[tuple[str, Any]] = []

    def follow() -> None:
        for _, name, data in followed(web, job_id):
            events.append((name, data))

    thread = threading.Thread(target=follow)
    thread.start()
    yard.worker(station, slots=1, app=APP)
    until(lambda: events)
    (tmp_path / "fail").touch()
    (tmp_path / "say").touch()
    until(lambda: "second" in log_of(web, job_id))
    (tmp_path / "go").touch()
    thread.join(PATIENCE)

    assert events == [
        ("log", "the first run had this to say\n"),
        ("restart", {"attempt": 2}),
        ("log", "the second run says this\n"),
        ("end", {"status": "c"}),
    ]


# ---- following from Python and from a shell


@pytest.mark.parametrize("protocol", WORKERS)
def test_a_handle_shows_the_log_so_far_and_follows_it_to_its_end(
    yard: Yard, station: Station, tmp_path: Path, protocol: str
) -> None:
    WORKERS[protocol](yard, station)
    client = yard.client(station)
    job = client.submit("count", "ada", str(tmp_path))
    until(job.log)
    assert job.status() is Status.IN_PROGRESS

    pieces = []
    for piece in job.follow_log(timeout=PATIENCE):
        pieces.append(piece)
        if len(pieces) == 2:
            (tmp_path / "ada").touch()

    lines = "".join(pieces).splitlines()
    numbered = [f"ada has {number}" for number in range(1, job.result() + 1)]
    if protocol == "udp":  # what does not fit into a packet may be missed
        numbered = [line for line in numbered if line in lines]
        lines = [line for line in lines if "left out" not in line]
    assert lines == [*numbered, "ada has all"]
    if protocol != "udp":
        assert job.log() == "".join(pieces)


def test_the_command_shows_the_log_of_a_running_job_and_follows_it_with_its_outcome_as_exit_code(
    yard: Yard, station: Station, tmp_path: Path
) -> None:
    hostile = "\n".join(HOSTILE)
    yard.worker(station, slots=2, app=APP)
    client = yard.client(station)
    good, bad = (
        client.submit("utter", str(tmp_path), hostile),
        client.submit("twice", str(tmp_path)),
    )
    until(good.log)

    shown = yard.shunter("job", good.id, station=station)
    assert shown.returncode == 0
    assert "window.hacked" in shown.stdout.partition("log")[2]
    asked = threading.Timer(0.5, (tmp_path / "go").touch)
    asked.start()
    followed = yard.shunter("job", good.id, "--follow", station=station)
    assert followed.returncode == 0, followed.stderr
    assert followed.stderr.strip() == f"{good.id}: completed"
    assert "\\x1b]8;;http://evil" in followed.stdout
    for said in (shown.stdout, followed.stdout):
        assert not {"\x1b", "\x07", "\x00", "\x85", "\u202e"} & set(said)
    client.cancel([bad.id])
    stopped = yard.shunter("job", bad.id, "-f", station=station)
    assert stopped.returncode == 1
    assert "cancelled" in stopped.stderr
    assert yard.shunter("job", "nobody", "-f", station=station).returncode == 1
    both = yard.shunter("job", good.id, "--follow", "--json", station=station)
    assert both.returncode == 2
    assert "--follow" in both.stderr


def test_an_encrypted_log_is_read_while_it_grows_by_who_has_the_key(
    yard: Yard, station: Station, web: Web, tmp_path: Path
) -> None:
    yard.worker(station, slots=1, app=f"{HERE}:sealing")
    with Client(station.frontend, timeout=PATIENCE, codec=sealing.codec) as client:
        job = client.submit("count", "ada", str(tmp_path))
        until(job.log)

        assert job.log().startswith("ada has 1\n")
        assert log_of(web, job.id).startswith("<sealed:")
        assert "ada" not in log_of(web, job.id)
        (tmp_path / "ada").touch()
        assert "".join(job.follow_log()).endswith("ada has all\n")


# ---- strangers


@pytest.fixture
def running(station: Station, web: Web) -> Iterator[dict[str, Any]]:
    """A job as a worker of another make was given it, which does nothing about it."""
    given: list[dict[str, Any]] = []
    worker = ForeignWorker(station, handlers=("held",), work=lambda job: given.append(job))
    worker.listen().register()
    web.when(web.submit("held")["id"], "i")
    until(lambda: given)
    yield given[0]
    worker.close()


def told(job: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "attempt": job["attempt"],
        "worker_id": job["execution"]["worker_id"],
        "secret": job["secret"],
        "log": "half way\n",
        **changes,
    }


def test_a_stranger_s_worker_tells_its_log_and_the_last_that_it_told_stays(
    web: Web, running: dict[str, Any]
) -> None:
    path = f"{JOBS}{running['id']}/log"

    assert web.raw.post(path, json=told(running)).status_code == 204
    assert log_of(web, running["id"]) == "half way\n"
    assert web.raw.post(path, json=told(running, log="all\n", start=9)).status_code == 204
    assert log_of(web, running["id"]) == "[... 9 bytes left out ...]\nall\n"

    assert web.report(running, result=1, secret=running["secret"]).status_code == 200
    assert log_of(web, running["id"]) == "[... 9 bytes left out ...]\nall\n"
    refused(web.raw.post(path, json=told(running)), 409, "job_final", "status")


def test_a_report_with_a_log_has_the_last_word(web: Web, running: dict[str, Any]) -> None:
    web.raw.post(f"{JOBS}{running['id']}/log", json=told(running))

    answer = web.report(running, status="f", error="no", log="half way\nno\n")

    assert answer.status_code == 200
    assert log_of(web, running["id"]) == "half way\nno\n"


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"attempt": 7}, 409, None),
        ({"worker_id": "somebody-else"}, 409, None),
        ({"secret": "0" * 32}, 409, None),
        ({"log": "x" * 65_537}, 422, "log"),
        ({"log": "ä" * 40_000}, 422, "log"),
        ({"log": 5}, 422, "log"),
        ({"log": None}, 422, "log"),
        ({"start": -1}, 422, "start"),
        ({"start": 2**60}, 422, "start"),
        ({"text": "half"}, 422, "text"),
    ],
)
def test_a_log_that_can_not_be_the_run_s_changes_nothing(
    web: Web, running: dict[str, Any], changes: dict[str, Any], status: int, field: str | None
) -> None:
    answer = web.raw.post(f"{JOBS}{running['id']}/log", json=told(running, **changes))

    assert answer.status_code == status, answer.text
    if field:
        assert answer.json()["error"]["field"] == field
        assert "; send " in answer.json()["error"]["message"]
    assert log_of(web, running["id"]) == ""


def test_of_a_calculator_s_logs_the_newest_stays_and_what_is_not_its_own_is_dropped(
    station: Station, web: Web
) -> None:
    peer = UdpPeer(station)
    peer.heartbeat(handlers=["held"])
    job_id = web.submit("held")["id"]
    task = peer.hears()
    peer.confirm(task)
    names = {key: task["params"][key] for key in ("task_id", "attempt")}

    def say(log: Any, **changes: Any) -> None:
        params = {**names, "log": log, **changes}
        peer.say({"method": "task_log", "params": params, "packet_type": 0})

    for wrong in ({"attempt": 9}, {"task_id": "other"}, {"start": -5}):
        say("not mine\n", **wrong)
    say(None)
    say("one\ntwo\n", start=10)
    until(lambda: log_of(web, job_id) == "[... 10 bytes left out ...]\none\ntwo\n")
    deadline_passed = threading.Event()
    threading.Timer(0.5, deadline_passed.set).start()
    deadline_passed.wait()  # a calculator is heard twice a second
    say("one\n", start=10)  # overtaken by the one before
    say("two\nthree\n", start=14)
    until(lambda: log_of(web, job_id) == "[... 14 bytes left out ...]\ntwo\nthree\n")

    peer.completed(names["task_id"], 1, attempt=names["attempt"], log="the end\n", start=100)
    web.when(job_id, "c")
    assert log_of(web, job_id) == "[... 100 bytes left out ...]\nthe end\n"
    peer.close()
