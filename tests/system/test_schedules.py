"""Schedules with real processes: no tick is missing or double when a dispatcher is killed, and who
may do what with them, over HTTP, ZeroMQ and the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from shunter import Client, Cron, Every, ScheduleNotFound, ScheduleRefused
from shunter.errors import Forbidden
from shunter.model.job import Job, Status
from shunter.model.key import Role
from system.calls import calls
from system.keys import KeyMaker
from system.yard import PATIENCE, Station, Yard, until

APP = str(Path(__file__).parent / "schedule_app.py")
SCHEDULES = "/dispatcher/schedules/"
LEASE = {
    "lease__heartbeat": 0.3,
    "lease__worker_gives_up": 2.0,
    "lease__kill_within": 0.5,
    "lease__dispatcher_takes_over": 3.0,
}


def worker_of(yard: Yard, *stations: Station) -> None:
    backends = [station.backend for station in stations]
    lease = {key.replace("__", "."): value for key, value in LEASE.items()}
    config = yard.config("worker", {"worker.dispatchers": backends, "worker.max_jobs": 2, **lease})
    yard.process(("worker", "--app", APP, "--config", str(config)), "worker")


def beats(client: Client) -> list[Job]:
    return sorted(client.jobs(type="beat", limit=1000), key=lambda job: job.scheduled or 0.0)


def completed_after(client: Client, moment: float) -> int:
    return sum(
        job.status is Status.COMPLETED and (job.scheduled or 0.0) > moment for job in beats(client)
    )


def test_no_tick_is_missing_or_double_when_a_dispatcher_is_killed(yard: Yard) -> None:
    url = f"sqlite:///{yard.folder}/shared.db"
    one, two = (yard.dispatcher(name, store__url=url, **LEASE) for name in ("one", "two"))
    worker_of(yard, one, two)
    client = yard.client(two)
    until(lambda: completed_after(client, 0.0) >= 2, what="the first ticks")

    one.process.kill()
    killed_at = time.time()
    until(lambda: completed_after(client, killed_at) >= 3, what="ticks after the kill")
    client.schedules.pause("beat")
    until(lambda: all(job.status.is_final for job in beats(client)), what="their jobs")

    jobs = beats(client)
    ticks = [job.scheduled or 0.0 for job in jobs]
    assert ticks == [ticks[0] + number for number in range(len(ticks))]
    assert {job.status for job in jobs} == {Status.COMPLETED}
    last = client.job_handle(jobs[-1].id)
    assert last.result(PATIENCE) == ticks[-1]


class Gate:
    """A dispatcher that demands keys, and clients with them."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        url = f"sqlite:///{yard.folder}/keyed.db"
        self.keys = KeyMaker(yard.folder, url)
        self.files = {
            "shop": self.keys.new("shop", Role.CLIENT, namespace="shop"),
            "lab": self.keys.new("lab", Role.CLIENT, namespace="lab"),
            "boss": self.keys.new("boss", Role.OPERATOR),
            "eye": self.keys.new("eye", Role.READER),
        }
        self.station = yard.dispatcher(
            store__url=url, auth__key_file=str(self.keys.path("the-dispatcher"))
        )

    def client(self, name: str) -> Client:
        path = self.keys.path(name)
        return Client(self.station.frontend, key_file=path, timeout=PATIENCE)

    def ask(self, method: str, path: str, name: str, **how: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.files[name].token}"}
        url = self.station.url + SCHEDULES + path
        return calls.request(method, url, headers=headers, timeout=PATIENCE, **how)

    def command(self, name: str, *words: str) -> Any:
        config = self.yard.config(name, {"auth.key_file": str(self.keys.path(name))})
        words = (*words, "--config", str(config))
        return self.yard.shunter("schedule", *words, station=self.station)


@pytest.fixture(scope="module")
def gate(shared_yard: Yard) -> Gate:
    return Gate(shared_yard)


def test_a_schedule_is_its_namespaces_own_over_zeromq(gate: Gate) -> None:
    with gate.client("shop") as shop, gate.client("lab") as lab:
        made = shop.schedules.put("daily", "add", [1], schedule=Cron("0 8 * * *"))
        assert (made.namespace, shop.schedules.get("daily")) == ("shop", made)
        assert lab.schedules.list() == []
        for act in (lab.schedules.get, lab.schedules.pause, lab.schedules.remove):
            with pytest.raises(ScheduleNotFound):
                act("daily")
        with pytest.raises(ScheduleNotFound):
            lab.schedules.remove("daily", namespace="shop")
        with pytest.raises(ScheduleRefused, match=r"cron\.tz"):
            shop.schedules.put("x", "add", schedule=Cron("0 8 * * *", tz="Mars"))
        job = shop.schedules.trigger("daily")
        assert shop.job(job.id).namespace == "shop"
        assert len(shop.schedules.backfill("daily", 0.0, 3 * 86400.0)) == 3
        shop.schedules.remove("daily")


def test_readers_look_and_change_nothing(gate: Gate) -> None:
    with gate.client("shop") as shop, gate.client("eye") as eye:
        shop.schedules.put("seen", "add", [1], schedule=Every(3600))
        assert [it.name for it in eye.schedules.list("shop")] == ["seen"]
        with pytest.raises(Forbidden):
            eye.schedules.pause("seen", namespace="shop")
        assert gate.ask("GET", "seen?namespace=shop", "eye").json()["name"] == "seen"
        assert gate.ask("POST", "seen/pause?namespace=shop", "eye").status_code == 403
        shop.schedules.remove("seen")


def test_all_of_it_over_http(gate: Gate) -> None:
    schedule = {"type": "add", "payload": [1], "every": 3600, "overlap": "one", "jitter": 5}
    made = gate.ask("PUT", "hourly", "lab", json=schedule)
    assert made.status_code == 200, made.text
    assert (made.json()["every"], made.json()["namespace"]) == (3600, "lab")
    assert gate.ask("GET", "hourly", "shop").status_code == 404
    assert gate.ask("POST", "hourly/pause", "lab").json()["paused"] is True
    assert gate.ask("POST", "hourly/resume", "lab").json()["paused"] is False
    job_id = gate.ask("POST", "hourly/trigger?job_id=once", "lab").json()["job_ids"]
    assert gate.ask("POST", "hourly/trigger?job_id=once", "lab").json()["job_ids"] == job_id
    span = {"begin": 0, "end": 7200}
    assert len(gate.ask("POST", "hourly/backfill", "lab", json=span).json()["job_ids"]) == 2
    assert [it["name"] for it in gate.ask("GET", "", "lab").json()["schedules"]] == ["hourly"]
    assert gate.ask("DELETE", "hourly", "lab").json()["name"] == "hourly"
    assert gate.ask("DELETE", "hourly", "lab").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 8 * * *", "tz": "Mars"}, "tz"),
        ({"every": 0}, "every"),
        ({"every": 5, "cron": "0 8 * * *"}, "cron"),
        ({}, "cron"),
        ({"every": 5, "overlap": "some"}, "overlap"),
        ({"every": 5, "type": "no type"}, "type"),
        ({"every": 5, "callback": {"url": "http://203.0.113.1/"}}, "callback.url"),
        ({"every": 5, "delay": 5}, "delay"),
    ],
)
def test_what_is_wrong_is_named_over_http(gate: Gate, wrong: dict[str, Any], field: str) -> None:
    answer = gate.ask("PUT", "wrong", "lab", json={"type": "add", **wrong})

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    assert ";" in answer.json()["error"]["message"]


def test_what_operators_do_is_written_down(gate: Gate) -> None:
    put = ("put", "nightly", "add", "1", "--cron", "30 2 * * *", "--tz", "Europe/Berlin")
    assert gate.command("boss", *put).returncode == 0
    assert gate.ask("POST", "nightly/pause", "boss").status_code == 200
    assert gate.command("boss", "rm", "nightly").returncode == 0
    url = f"{gate.station.url}/dispatcher/audit/"
    headers = {"Authorization": f"Bearer {gate.files['boss'].token}"}
    entries = calls.get(url, headers=headers).json()["entries"]

    assert [(it["actor"], it["action"], it["target"]) for it in entries[:3]] == [
        ("boss", "remove schedule", "nightly"),
        ("boss", "pause schedule", "nightly"),
        ("boss", "put schedule", "nightly"),
    ]


def test_the_commands_print_for_people_and_for_programs(gate: Gate) -> None:
    made = gate.command("shop", "put", "c1", "add", "3", "b=4", "--every", "60", "--json")
    assert json.loads(made.stdout)["job"]["payload"] == {"b": 4, "*": [3]}
    assert "c1" in gate.command("shop", "ls").stdout
    assert [it["name"] for it in json.loads(gate.command("shop", "ls", "--json").stdout)] == ["c1"]
    assert "paused" in gate.command("shop", "pause", "c1").stdout
    assert "next" in gate.command("shop", "resume", "c1").stdout
    assert len(gate.command("shop", "trigger", "c1").stdout.split()) == 1
    span = ("--from", "2026-03-01", "--to", "2026-03-01T00:05+00:00", "--json")
    made = gate.command("shop", "backfill", "c1", *span)
    assert len(json.loads(made.stdout)["job_ids"]) == 5
    assert gate.command("shop", "rm", "c1").returncode == 0
    for words, told in (
        (("rm", "c1"), "there is none"),
        (("put", "c1", "add", "--cron", "bad"), "cron.text"),
        (("put", "c1", "add"), "--cron, --every"),
        (("backfill", "c1", "--from", "soon", "--to", "2026-03-01"), "--from"),
    ):
        refused = gate.command("shop", *words)
        assert refused.returncode in (1, 2)
        assert told in refused.stderr
