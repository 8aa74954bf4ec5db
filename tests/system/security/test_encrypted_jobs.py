"""Jobs of an app with a codec, with real processes: nobody on the way to the handler can read them.

The canary is in arguments, results, logs, notes, errors and tracebacks. It must not be in the
store's files, in the dispatcher's memory, log or answers, over any protocol.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import bson
import pytest
from click.testing import Result
from pymongo import MongoClient
from typer.testing import CliRunner

from shunter import Client, CodecError, JobFailed, UdpClient
from shunter.cli.main import app as commands
from shunter.codec import is_sealed, label_of
from shunter.model.job import ErrorKind, Status
from shunter.testing.mongod import LocalMongod
from system.calls import calls
from system.yard import PATIENCE, Process, Station, Yard, until

CANARY = "canary-51c3e8"
VAULT = Path(__file__).parent / "vault_app.py"

_spec = importlib.util.spec_from_file_location("vault_app", VAULT)
assert _spec is not None
assert _spec.loader is not None
vault_app = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(vault_app)


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher(dispatcher__jobs__max_losses=1)


@pytest.fixture(scope="module")
def workers(shared_yard: Yard, station: Station) -> dict[str, Process]:
    """A worker over each protocol."""
    zmq = shared_yard.config(
        "zmq", {"worker.dispatchers": [station.backend], "worker.kill_grace_seconds": 0.5}
    )
    http = shared_yard.config("http", {"worker.http.dispatchers": [station.url]})
    udp = shared_yard.config("udp", {"udp.client_address.port": station.udp_port})
    words = {
        "zmq": ("worker", "--app", f"{VAULT}:app", "--config", str(zmq)),
        "http": ("worker", "--http", "--app", f"{VAULT}:over_http", "--config", str(http)),
        "udp": ("calculator", "--app", f"{VAULT}:over_udp", "--config", str(udp)),
    }
    return {name: shared_yard.process(each, name) for name, each in words.items()}


@pytest.fixture(scope="module")
def client(station: Station, workers: dict[str, Process]) -> Iterator[Client]:
    with Client(station.frontend, timeout=PATIENCE, codec=vault_app.app.codec) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(station: Station) -> Iterator[Client]:
    """A client that has no keys."""
    with Client(station.frontend, timeout=PATIENCE) as client:
        yield client


def memory_of(pid: int) -> Iterator[bytes]:
    """Yield what a process has written into its memory, mapping by mapping."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if found is None or "[v" in line:
                continue
            start, end = (int(text, 16) for text in found.groups())
            try:
                memory.seek(start)
                yield memory.read(end - start)
            except OSError:
                continue  # given back meanwhile


def shown_over_http(station: Station, job_id: str) -> str:
    answer = calls.get(f"{station.url}/dispatcher/jobs/{job_id}")
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("protocol", ["zmq", "http", "udp"])
def test_results_logs_and_notes_come_back_over_every_protocol(
    client: Client, stranger: Client, station: Station, protocol: str
) -> None:
    job = client.submit(f"{protocol}.speak", CANARY)

    assert job.result(timeout=PATIENCE) == {"said": CANARY}
    record = client.job(job.id)
    if protocol == "zmq":  # the others tell neither
        assert record.log == f"log {CANARY}\n"
        assert record.progress is not None
        assert record.progress.note == f"note {CANARY}"
    sealed = stranger.job(job.id)
    assert sealed.payload is not None
    assert sealed.result is not None
    assert is_sealed(sealed.payload)
    assert label_of(sealed.result) == "k1"
    assert CANARY not in repr(sealed)
    assert CANARY not in shown_over_http(station, job.id)
    with pytest.raises(CodecError, match="this client has no codec"):
        stranger.job_handle(job.id).result(timeout=PATIENCE)


@pytest.mark.parametrize("protocol", ["zmq", "http", "udp"])
def test_errors_come_back_and_only_their_kind_is_readable(
    client: Client, stranger: Client, station: Station, protocol: str
) -> None:
    job = client.submit(f"{protocol}.fail", CANARY)

    with pytest.raises(JobFailed, match=f"ValueError: error {CANARY}"):
        job.result(timeout=PATIENCE)
    sealed = stranger.job(job.id)
    assert sealed.error is not None
    assert sealed.error.kind is ErrorKind.EXCEPTION
    assert CANARY not in repr(sealed)
    assert "ValueError" not in shown_over_http(station, job.id)
    past = client.job(job.id).history
    assert past
    assert all(CANARY in each.message for each in past)


def test_the_last_words_of_a_process_that_died_are_sealed_by_its_parent(
    client: Client, stranger: Client
) -> None:
    job = client.submit("zmq.die", CANARY)

    with pytest.raises(JobFailed, match=r"lost.*SIGKILL|SIGKILL"):
        job.result(timeout=PATIENCE)
    assert client.job(job.id).log == f"last words {CANARY}\n"
    assert CANARY not in repr(stranger.job(job.id))


def test_a_time_out_is_told_in_our_words_and_its_end_in_the_handlers(
    client: Client, stranger: Client
) -> None:
    job = client.submit("zmq.hang", CANARY)

    with pytest.raises(JobFailed, match=f"time-out of 0.3 s; it ended with .*stopped {CANARY}"):
        job.result(timeout=PATIENCE)
    error = stranger.job(job.id).error
    assert error is not None
    assert error.message.startswith("ran past its time-out of 0.3 s; it ended with <sealed:")


def test_tasks_over_udp_are_encrypted_too(client: Client, station: Station) -> None:
    with UdpClient(
        ("127.0.0.1", station.udp_port), timeout=10, codec=vault_app.app.codec
    ) as by_udp:
        task = by_udp.submit("zmq.speak", CANARY)
        failed = by_udp.submit("zmq.fail", CANARY)

        assert task.result(PATIENCE) == {"said": CANARY}
        with pytest.raises(JobFailed, match=f"ValueError: error {CANARY}"):
            failed.result(PATIENCE)


def test_a_plain_job_over_http_is_refused_by_the_worker(station: Station, client: Client) -> None:
    answer = calls.post(
        f"{station.url}/dispatcher/jobs/", json={"type": "zmq.speak", "payload": ["hello"]}
    )
    assert answer.status_code in (200, 201, 202), answer.text
    job_id = answer.json()["id"]

    record = until(lambda: ended(client, job_id))

    assert record.error is not None
    assert record.error.kind is ErrorKind.REFUSED
    assert "came unencrypted" in record.error.message


def ended(client: Client, job_id: str):  # type: ignore[no-untyped-def]
    job = client.job(job_id)
    return job if job.status.is_final else None


def test_the_same_arguments_under_one_key_are_one_job(client: Client) -> None:
    once = client.with_options(unique_key="only-once")

    first, second = once.submit("zmq.speak", CANARY), once.submit("zmq.speak", CANARY)

    assert first.id == second.id
    assert second.result(timeout=PATIENCE) == {"said": CANARY}


def test_large_payloads_pass(client: Client) -> None:
    data = os.urandom(3 << 20)

    assert client.submit("zmq.size", data).result(timeout=PATIENCE) == data
    assert client.submit("http.size", data).result(timeout=PATIENCE) == data


def test_commands_show_the_key_and_with_the_app_the_text(station: Station, client: Client) -> None:
    def shunter(*words: str) -> Result:
        return CliRunner().invoke(commands, [*words, "--dispatcher", station.frontend])

    app = ("--app", f"{VAULT}:app")
    sent = shunter("submit", "zmq.fail", CANARY, "--wait", *app)
    assert sent.exit_code == 1
    assert f"ValueError: error {CANARY}" in sent.stderr
    waited = shunter("submit", "zmq.speak", CANARY, "--wait", *app)
    assert json.loads(waited.stdout) == {"said": CANARY}
    (newest, failed) = client.jobs(limit=2)
    assert newest.status is Status.COMPLETED

    closed, opened = shunter("job", failed.id), shunter("job", failed.id, *app)
    as_json = shunter("job", newest.id, "--json")
    readable = shunter("job", newest.id, "--json", *app)

    assert "encrypted (key k1)" in closed.stdout
    assert CANARY not in closed.stdout
    assert f"ValueError: error {CANARY}" in opened.stdout
    assert "Traceback" in opened.stdout
    assert CANARY not in shunter("jobs", "--json").stdout
    assert CANARY in shunter("jobs", "--json", *app).stdout
    assert json.loads(as_json.stdout)["result"]["encrypted"] == "k1"
    assert json.loads(readable.stdout)["result"] == {"said": CANARY}


def test_jobs_that_wait_while_keys_change_are_done(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    waiting = client.submit("rotated.speak", CANARY)
    config = shared_yard.config("rotated", {"worker.dispatchers": [station.backend]})
    words = ("worker", "--app", f"{VAULT}:rotated", "--config", str(config))
    shared_yard.process(words, "rotated")

    with Client(station.frontend, timeout=PATIENCE, codec=vault_app.rotated.codec) as newer:
        assert newer.job_handle(waiting.id).result(timeout=PATIENCE) == {"said": CANARY}
        assert newer.submit("rotated.speak", CANARY).result(timeout=PATIENCE)
    with pytest.raises(CodecError, match="encrypted with key 'k2', and here are 'k1'; add"):
        waiting.result(timeout=PATIENCE)


def test_nothing_of_all_that_is_in_the_store_or_in_the_dispatcher(
    client: Client, station: Station, shared_yard: Yard
) -> None:
    """The last test of this file: it looks for what the others have sent."""
    job = client.submit("zmq.speak", f"{CANARY} once more")
    assert job.result(timeout=PATIENCE)

    files = list(shared_yard.folder.glob("dispatcher.db*"))
    assert any(path.name.endswith("-wal") for path in files)
    assert any(b"<sealed:" in path.read_bytes() for path in files)
    for path in files:
        assert CANARY.encode() not in path.read_bytes(), path
    regions = list(memory_of(station.process.pid))
    assert any(job.id.encode() in region for region in regions)
    assert not any(CANARY.encode() in region for region in regions)
    assert CANARY not in station.process.said()
    listed = calls.get(f"{station.url}/dispatcher/jobs/?limit=500").text
    assert job.id in listed
    assert CANARY not in listed


def test_nothing_of_it_is_in_mongodb_either(yard: Yard, mongod: LocalMongod) -> None:
    """What is not encrypted is found there by the same means, so they are good ones."""
    station = yard.dispatcher(store__url=mongod.url("vault"), dispatcher__jobs__max_losses=1)
    config = yard.config("worker", {"worker.dispatchers": [station.backend]})
    yard.process(("worker", "--app", f"{VAULT}:app", "--config", str(config)), "worker")
    plain, large = os.urandom(12).hex(), CANARY * 20_000
    with Client(station.frontend, timeout=PATIENCE, codec=vault_app.app.codec) as client:
        assert client.submit("zmq.speak", CANARY).result(PATIENCE) == {"said": CANARY}
        assert client.submit("zmq.speak", large).result(PATIENCE) == {"said": large}
        with pytest.raises(JobFailed):
            client.submit("zmq.fail", CANARY).result(PATIENCE)
    with Client(station.frontend, timeout=PATIENCE) as stranger:
        stranger.submit("nobody", plain)
    mongod.command("admin", {"fsync": 1})

    with MongoClient[dict[str, object]](mongod.url("vault")) as server:
        vault = server["vault"]
        documents = b"".join(
            bson.encode(found)
            for name in vault.list_collection_names()
            for found in vault[name].find()
        )
    written = [*mongod.directory.glob("*.wt"), *mongod.directory.glob("journal/WiredTigerLog.*")]
    files = [path.read_bytes().rstrip(b"\0") for path in written]

    assert plain.encode() in documents
    assert b"<sealed:" in documents
    assert CANARY.encode() not in documents
    assert any(plain.encode() in content for content in files)
    assert not any(CANARY.encode() in content for content in files)
