"""The file is deleted, replaced, cut or overwritten under an open store."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from conformance.store.given import NOW, claim, job, jobs
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.lifecycle import WorkerSlot
from shunter.store.port import Batch, JobQuery
from shunter.store.sqlite import SQLiteStore, file_watch, inspector
from shunter.store.sqlite.writer import Writer


async def accepted_within(store, seconds, name):
    """Insert until it works; return what was said before that."""
    deadline, said = time.monotonic() + seconds, []
    while True:
        try:
            await store.insert([job(f"{name}-{len(said)}")])
            return said
        except StoreError as error:
            said.append(str(error))
        assert time.monotonic() < deadline, said
        await asyncio.sleep(0.05)


async def refused_within(store, seconds, *words, reading=False):
    """Write or read until it is refused with one of these words; return why."""
    deadline, number, said = time.monotonic() + seconds, 0, ""
    while time.monotonic() < deadline:
        try:
            if reading:
                await store.next_alarm()
            else:
                await store.insert([job(f"more-{number}")])
        except StoreError as error:
            said = str(error)
            if any(word in said for word in words):
                return said
        number += 1
        await asyncio.sleep(0.02)
    raise AssertionError(f"it was not refused so; last: {said}")


def whole_copy(path: str, target: str) -> None:
    """Copy the store as a backup would."""
    source, copy = sqlite3.connect(path), sqlite3.connect(target)
    source.backup(copy)
    source.close()
    copy.close()


def ids_in(path: str) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {row[0] for row in connection.execute("SELECT id FROM jobs")}
    finally:
        connection.close()


@pytest.fixture(params=["with inotify", "without"])
def inotify(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(file_watch, "_watching", lambda masks: None)


def test_nothing_is_acknowledged_into_a_deleted_file(inotify, run, store, path):
    run(store.insert([job("before")]))
    os.unlink(path)

    with pytest.raises(StoreError, match="was deleted while in use"):
        run(store.insert([job("after")]))
    with pytest.raises(StoreError, match="was deleted while in use"):
        run(store.next_alarm())
    assert not os.path.exists(path)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_nothing_is_acknowledged_without_its_log(inotify, run, store, path, suffix):
    run(store.insert([job("before")]))
    os.unlink(path + suffix)

    with pytest.raises(StoreError, match=f"jobs.db{suffix} was deleted"):
        run(store.insert([job("after")]))


def test_a_log_that_was_deleted_is_written_back_by_an_orderly_end(run, path):
    store = SQLiteStore(path)
    run(store.open())
    run(store.insert([job("before")]))
    os.unlink(path + "-wal")
    with pytest.raises(StoreError):
        run(store.insert([job("after")]))

    run(store.close())

    assert "before" in ids_in(path)  # and perhaps what was written and never acknowledged


def test_a_file_that_was_replaced_is_told_of_and_then_used(run, store, path, tmp_path):
    run(store.insert([job("old")]))
    other = str(tmp_path / "other.db")
    whole_copy(path, other)
    run(store.insert([job("too-late")]))
    os.replace(other, path)

    [told, *_] = run(accepted_within(store, 5, "new"))

    assert "was replaced by another file" in told
    assert [it and it.id for it in run(store.get(["old", "too-late", "new-1"]))] == [
        "old",
        None,
        "new-1",
    ]
    assert ids_in(path) == {"old", "new-1"}


def test_an_empty_file_in_its_place_is_not_taken_for_the_store(run, store, path):
    os.unlink(path)
    Path(path).touch()

    said = [str(_error(run, store, f"j-{number}")) for number in range(3)]

    assert "replaced" in said[0]
    assert "an empty file was put in its place" in said[2]


def _error(run, store, name):
    with pytest.raises(StoreError) as caught:
        run(store.insert([job(name)]))
    return caught.value


def test_a_file_that_comes_back_is_used_again(run, store, path):
    os.rename(path, path + ".away")
    run(refused_within(store, 5, "deleted", reading=True))
    os.rename(path + ".away", path)

    run(store.insert([job("again")]))

    assert "again" in ids_in(path)


def test_a_commit_that_met_the_deletion_is_recognised_when_the_file_is_back(
    run, store, path, monkeypatch
):
    run(store.insert(jobs(3)))
    [first, *_] = run(store.claim(claim(limit=1)))
    batch = Batch(
        now=NOW,
        replacements=[lifecycle.started(first, WorkerSlot("w-1"), now=NOW)],
        inserts=[job("new")],
        claims=[claim(limit=5)],
    )
    perform = Writer.perform

    def deleting(self, connection, operations):
        real_look = self._monitor.look_after_commit

        def look():
            os.rename(path, path + ".away")
            real_look()

        self._monitor.look_after_commit = look
        try:
            return perform(self, connection, operations)
        finally:
            del self._monitor.look_after_commit

    monkeypatch.setattr(Writer, "perform", deleting)
    with pytest.raises(StoreError, match="deleted"):
        run(store.commit(batch))
    monkeypatch.setattr(Writer, "perform", perform)
    with pytest.raises(StoreError, match="deleted"):
        run(store.commit(batch))
    os.rename(path + ".away", path)

    done = run(store.commit(batch))

    assert done.replaced == [True]
    assert done.inserted[0] is batch.inserts[0]
    assert {it.id for it in done.claimed[0]} == {"job-1", "job-2", "new"}


@pytest.mark.parametrize("left", [0, 4096, 20_000])
def test_a_file_that_was_cut_takes_nothing_more(run, store, path, left):
    run(store.insert(jobs(200, payload=bytes(500))))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    run(accepted_within(store, 5, "again"))
    os.truncate(path, left)

    with pytest.raises(StoreError, match=r"shrank|damaged"):
        run(store.insert([job("after")]))
    run(asyncio.sleep(0.3))
    with pytest.raises(StoreError, match="damaged"):
        run(store.insert([job("after")]))


def test_a_log_that_was_cut_takes_nothing_more(run, store, path):
    run(store.insert(jobs(50)))
    os.truncate(path + "-wal", 0)

    assert "shrank" in (said := str(_error(run, store, "after"))) or "damaged" in said
    run(refused_within(store, 5, "it is damaged"))


def test_a_log_that_was_emptied_by_a_checkpoint_is_no_damage(run, store, path):
    run(store.insert(jobs(50)))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert os.path.getsize(path + "-wal") == 0

    run(accepted_within(store, 2, "again"))

    assert len(ids_in(path)) == 51


def test_a_file_that_was_vacuumed_is_no_damage(run, store, path):
    run(store.insert(jobs(500, payload=bytes(2000))))
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM payloads")
    connection.execute("DELETE FROM jobs")
    connection.commit()
    before = os.path.getsize(path)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert os.path.getsize(path) < before or before < 100_000

    run(accepted_within(store, 5, "again"))

    assert len(ids_in(path)) == 1


def overwrite(path: str, at: int, size: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        bits = file.read(size)
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in bits))


def test_a_first_page_that_was_overwritten_is_noticed_within_seconds(run, store, path):
    run(store.insert(jobs(200, payload=bytes(500))))
    checkpoint(path)
    run(accepted_within(store, 5, "again"))
    checkpoint(path)
    overwrite(path, 0, 4096)

    run(refused_within(store, 5, "it is damaged", "not an SQLite database", reading=True))


def test_other_pages_that_were_overwritten_are_noticed_by_the_inspection(
    run, store, path, monkeypatch
):
    monkeypatch.setattr(inspector, "INSPECT_SECONDS", 0.2)
    run(store.insert(jobs(500, payload=bytes(500))))
    checkpoint(path)
    run(accepted_within(store, 5, "again"))
    checkpoint(path)
    for page in range(3, os.path.getsize(path) // 4096):
        overwrite(path, page * 4096, 16)

    run(refused_within(store, 12, "it is damaged", reading=True))


def checkpoint(path: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def test_a_damaged_file_is_not_opened(run, path):
    store = SQLiteStore(path)
    run(store.open())
    run(store.insert(jobs(500, payload=bytes(500))))
    run(store.close())
    for page in range(3, os.path.getsize(path) // 4096):
        overwrite(path, page * 4096, 16)

    with pytest.raises(StoreError, match="shunter doctor --store --repair"):
        run(SQLiteStore(path).open())


def test_a_long_inspection_does_not_hold_up_the_opening(run, path, monkeypatch):
    is_open, went_on = threading.Event(), []
    monkeypatch.setattr(
        inspector, "_fault_of_pages", lambda connection: went_on.append(is_open.wait(40)) or ""
    )
    monkeypatch.setattr("shunter.store.sqlite.store.FIRST_SECONDS", 0.1)
    store = SQLiteStore(path)
    run(store.open())
    run(store.insert([job("meanwhile")]))
    is_open.set()
    run(store.close())
    assert went_on == [True]


def test_an_inspection_that_has_just_closed_its_connection_does_not_disturb_the_end(
    run, path, monkeypatch
):
    opened, is_closed, go_on = inspector._opened, threading.Event(), threading.Event()

    class Slow:
        """Stands still between closing its connection and forgetting it."""

        def __init__(self, connection):
            self.execute, self.interrupt = connection.execute, connection.interrupt
            self._close = connection.close

        def close(self):
            self._close()
            is_closed.set()
            assert go_on.wait(10)

    monkeypatch.setattr(inspector, "_opened", lambda path: Slow(opened(path)))
    monkeypatch.setattr("shunter.store.sqlite.store.FIRST_SECONDS", 0.0)
    store = SQLiteStore(path)
    run(store.open())
    assert is_closed.wait(10)
    threading.Timer(0.1, go_on.set).start()

    run(store.close())


def test_a_store_that_was_mended_is_used_again(run, store, path, monkeypatch, tmp_path):
    monkeypatch.setattr(inspector, "INSPECT_SECONDS", 0.2)
    run(store.insert(jobs(200, payload=bytes(500))))
    good = str(tmp_path / "good.db")
    whole_copy(path, good)
    checkpoint(path)
    os.truncate(path, 8192)
    run(refused_within(store, 5, "it is damaged"))
    shutil.move(good, path)

    run(accepted_within(store, 5, "again"))

    assert len(run(store.find(JobQuery(limit=1000)))) >= 200


def test_a_full_disk_is_told_and_harms_nothing(run, store, path):
    def limit(pages):
        return store.writer.submit(
            lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
        )

    async def limited(pages):
        return await limit(pages)

    run(store.insert([job("before")]))
    run(limited(1))

    with pytest.raises(StoreError, match="the disk is full"):
        run(store.insert(jobs(100, payload=bytes(4000))))
    run(limited(1_000_000))
    run(store.insert([job("after")]))

    assert ids_in(path) == {"before", "after"}
