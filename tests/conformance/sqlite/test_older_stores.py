"""Files that older Shunters have left, as these wrote them: all that is in them is still there.

`tests/inputs/stores` has one for each older version of the schema, as the statements that make it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from shunter.model.job import ErrorKind, Status
from shunter.model.record import RecordKind
from shunter.store.key_records import system_secret
from shunter.store.port import JobQuery
from shunter.store.sqlite import SQLiteStore
from shunter.store.sqlite.connection import migrations

OLDER = sorted((Path(__file__).parents[2] / "inputs" / "stores").glob("schema-*.sql"))


def restored(script: Path, path: Path) -> Path:
    file = sqlite3.connect(path)
    file.executescript(script.read_text())
    file.close()
    return path


def version_of(path: Path) -> int:
    file = sqlite3.connect(path)
    [version] = file.execute("PRAGMA user_version").fetchone()
    file.close()
    return int(version)


def test_there_is_a_file_of_each_older_version() -> None:
    older = {f"schema-{version}" for version in range(1, len(migrations()))}

    assert older <= {script.stem for script in OLDER}, "keep what the last one left"


@pytest.mark.parametrize("script", OLDER, ids=lambda script: script.stem)
def test_what_an_older_shunter_left_is_read_by_this_one(run, tmp_path, script):
    path = restored(script, tmp_path / "jobs.db")
    assert f"schema-{version_of(path)}" == script.stem
    store = SQLiteStore(str(path))
    run(store.open())
    try:
        ids = [job.id for job in run(store.find(JobQuery(limit=10)))]
        delayed, waiting, failed, done = found = run(store.get(ids, payload=True))

        assert [it.status for it in (done, failed)] == [Status.COMPLETED, Status.FAILED]
        assert [it.status for it in (waiting, delayed)] == [Status.QUEUED, Status.QUEUED]
        assert done.result == b"\x2a"
        assert failed.error is not None
        assert failed.error.kind is ErrorKind.EXCEPTION
        assert (delayed.unique_key, delayed.priority) == ("once", 3)
        assert [it.payload for it in (done, waiting)] == [b"\x92\x14\x16", b"\x92\x01\x02"]
        assert {it.namespace for it in found} == {""}
        assert run(store.records(RecordKind.KEY)) == []
        assert run(system_secret(store, b"s" * 32))
    finally:
        run(store.close())
    assert version_of(path) == len(migrations())
