"""The store's file is lost, spoiled or can't grow under a running dispatcher."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from shunter import Client, DispatcherBusy, ShunterError, StoreUnavailable, UdpClient
from system.calls import calls
from system.yard import PATIENCE, Station, Yard, until

FAULTY_WITHIN = 12.0
"""Within how many seconds a dispatcher must have noticed, on a machine that is busy."""


class Submitting:
    """Somebody who submits all the time, and remembers what was acknowledged."""

    def __init__(self, station: Station) -> None:
        self.acknowledged: list[tuple[float, str]] = []
        self.errors: list[ShunterError] = []
        self._station = station
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Submitting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def ids(self) -> list[str]:
        return [job_id for _, job_id in list(self.acknowledged)]

    def _run(self) -> None:
        with Client(self._station.frontend, timeout=4.0) as client:
            while not self._is_over.is_set():
                try:
                    job = client.submit("nobody", 1)
                except ShunterError as error:
                    self.errors.append(error)
                else:
                    self.acknowledged.append((time.monotonic(), job.id))


def store_file(station: Station) -> str:
    return str(station.settings["store.url"]).removeprefix("sqlite:///")


def ids_in(path: str) -> set[str]:
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM jobs")}


def readiness(station: Station) -> tuple[int, str]:
    with contextlib.suppress(httpx.TransportError):
        answer = calls.get(f"{station.url}/readyz", timeout=5.0)
        return answer.status_code, answer.text
    return 0, ""


def is_ready(station: Station) -> bool:
    return readiness(station)[0] == 200


def checkpoint(path: str) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def delete(path: str) -> None:
    os.unlink(path)


def replace_by_nothing(path: str) -> None:
    Path(path + ".new").touch()
    os.replace(path + ".new", path)


def cut(path: str) -> None:
    checkpoint(path)
    os.truncate(path, os.path.getsize(path) // 2 // 4096 * 4096)


def flip(path: str) -> None:
    checkpoint(path)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for page in range(size // 4096):
            file.seek(page * 4096)
            bits = file.read(64)
            file.seek(page * 4096)
            file.write(bytes(byte ^ 0xFF for byte in bits))


@pytest.mark.parametrize("harm", [delete, replace_by_nothing, cut, flip])
def test_what_happens_to_the_file_is_noticed_told_and_logged(
    yard: Yard, harm: Callable[[str], None]
) -> None:
    station = yard.dispatcher()
    with Submitting(station) as submitting:
        until(lambda: len(submitting.acknowledged) > 300)
        assert is_ready(station)

        harm(store_file(station))
        harmed_at = time.monotonic()

        _, text = until(
            lambda: (found := readiness(station))[0] == 503 and found, within=FAULTY_WITHIN
        )
        until(lambda: submitting.errors)

    assert store_file(station) in text
    assert isinstance(submitting.errors[-1], StoreUnavailable)
    assert "answers, but its store has failed" in str(submitting.errors[-1])
    assert calls.get(f"{station.url}/healthz").json()["ready"] is False
    assert station.health() == 200
    assert station.process.logged(event="the store fails, trying again")
    if harm in (delete, replace_by_nothing):
        late = [at for at, _ in submitting.acknowledged if at > harmed_at]
        assert len(late) <= 1, "acknowledged into a file that is gone; one was on its way"


def test_a_file_that_comes_back_has_all_that_was_acknowledged(yard: Yard) -> None:
    station = yard.dispatcher()
    path = store_file(station)
    with Submitting(station) as submitting:
        until(lambda: len(submitting.acknowledged) > 100)
        os.rename(path, path + ".away")
        until(lambda: not is_ready(station), within=FAULTY_WITHIN)
        before = len(submitting.acknowledged)
        os.rename(path + ".away", path)
        until(lambda: is_ready(station), within=FAULTY_WITHIN)
        until(lambda: len(submitting.acknowledged) > before + 10)

    assert set(submitting.ids) <= ids_in(path)


def test_a_restored_file_is_used_without_a_restart(yard: Yard) -> None:
    station = yard.dispatcher()
    path = store_file(station)
    client = yard.client(station)
    old = client.submit("nobody", 1)
    with contextlib.closing(sqlite3.connect(path)) as source:
        source.execute(f"VACUUM INTO '{path}.backup'")
    os.unlink(path)
    until(lambda: not is_ready(station), within=FAULTY_WITHIN)

    os.rename(path + ".backup", path)

    until(lambda: is_ready(station), within=FAULTY_WITHIN)
    new = client.submit("nobody", 2)
    assert ids_in(path) == {old.id, new.id}
    assert client.job(old.id).type == "nobody"


def test_a_deleted_file_is_put_back_by_the_doctor_while_the_dispatcher_runs(yard: Yard) -> None:
    station = yard.dispatcher()
    path = store_file(station)
    with Submitting(station) as submitting:
        until(lambda: len(submitting.acknowledged) > 100)
        os.unlink(path)
        until(lambda: not is_ready(station), within=FAULTY_WITHIN)
        before = len(submitting.acknowledged)

        told = yard.shunter("doctor", "--store", f"sqlite:///{path}", "--repair")

        assert told.returncode == 0, told.stdout + told.stderr
        until(lambda: is_ready(station), within=FAULTY_WITHIN)
        until(lambda: len(submitting.acknowledged) > before + 10)

    assert set(submitting.ids) <= ids_in(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(folder)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no page free."""
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_is_told_to_every_client_and_passes(yard: Yard, small_disk: Path) -> None:
    station = yard.dispatcher(store__url=f"sqlite:///{small_disk}/jobs.db")
    post = {"type": "nobody", "payload": "x" * 20_000}
    with Submitting(station) as submitting:
        until(lambda: len(submitting.acknowledged) > 50)
        fill(small_disk)
        until(lambda: not is_ready(station), within=PATIENCE, what="readiness is withheld")
        until(lambda: any("the disk is full" in str(error) for error in submitting.errors))
        refused = calls.post(f"{station.url}/dispatcher/jobs/", json=post, timeout=PATIENCE)
        with (
            UdpClient(("127.0.0.1", station.udp_port), timeout=PATIENCE) as by_udp,
            pytest.raises(DispatcherBusy, match="full"),
        ):
            by_udp.submit("nobody", "x" * 500)
        (small_disk / "filler").unlink()
        until(lambda: is_ready(station), within=FAULTY_WITHIN)
        before = len(submitting.acknowledged)
        until(lambda: len(submitting.acknowledged) > before + 10)
        accepted = calls.post(f"{station.url}/dispatcher/jobs/", json=post, timeout=PATIENCE)

    assert refused.status_code == 503
    assert refused.headers["Retry-After"]
    assert "the disk is full" in refused.text
    assert accepted.status_code == 201, accepted.text
    assert set(submitting.ids) <= ids_in(store_file(station))


def test_a_client_that_waits_long_enough_does_not_even_notice(yard: Yard, small_disk: Path) -> None:
    station = yard.dispatcher(store__url=f"sqlite:///{small_disk}/jobs.db")
    client = yard.client(station)
    done: list[str] = []

    def submit() -> None:
        jobs = client.submit_many("nobody", [("y" * 1000,)] * 100)
        done.extend(job.id for job in jobs)

    fill(small_disk)
    submitting = threading.Thread(target=submit)
    submitting.start()
    until(lambda: not is_ready(station), within=PATIENCE)
    assert not done
    (small_disk / "filler").unlink()
    submitting.join(PATIENCE)

    assert len(done) == 100
    assert set(done) == ids_in(store_file(station))
