"""`shunter doctor --store` finds what is wrong with a file, and mends what can be mended."""

from __future__ import annotations

import glob
import io
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.store.given import claim, ended, job, jobs, worker
from shunter.cli import doctor
from shunter.cli.terminal import Terminal
from shunter.store.finding import State
from shunter.store.port import JobQuery
from shunter.store.registry import driver_of
from shunter.store.sqlite import SQLiteStore

PAGE = 4096
EMPTY_INDEX_PAGE = bytes([10, 0, 0, 0, 0, PAGE >> 8, 0, 0]).ljust(PAGE, b"\0")

HOLD = """
import asyncio, sys
from conformance.store.given import job
from shunter.store.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    for number in range(5):
        await store.insert([job(f"held-{number}")])
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


@pytest.fixture
def filled(run, path):
    """A store with some hundred jobs of every kind, closed."""
    store = SQLiteStore(path)
    run(store.open())
    run(store.insert(jobs(600, payload=bytes(700))))
    run(store.put_workers([worker("w-1")]))
    for number in range(20):
        run(ended(store, f"ended-{number}"))
    run(store.claim(claim(limit=5)))
    run(store.close())
    return path


def states(url, *, repair=False):
    driver = driver_of(url)
    found = driver.repair(url) if repair else driver.examine(url)
    return {finding.name: finding for finding in found}


def exit_code(url, **options):
    return doctor.run_on_store(url, console=Terminal(file=io.StringIO()), **options)


def overwrite(path, page, content=b"\xa5" * 64):
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(content)


def root_of(path, name):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)
        ).fetchone()[0]
    finally:
        connection.close()


def test_a_store_in_order_is_well(filled, url):
    found = states(url)

    assert {finding.state for finding in found.values()} == {State.OK}
    assert "620 jobs, 1 workers" in found["content"].fact
    assert exit_code(url) == 0


def test_a_store_that_is_not_there_is_exit_3_and_stays_so(path, url):
    found = states(url)

    assert found["file"].state is State.MISSING
    assert f"cp BACKUP {path}" in found["file"].remedy
    assert exit_code(url) == exit_code(url, repair=True) == 3
    assert not os.path.exists(path)


def test_another_programs_database_is_not_a_store(path, url):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()

    assert states(url)["schema"].state is State.MISSING
    assert exit_code(url) == 1


def test_findings_are_printed_as_json(filled, url, capsys):
    assert doctor.run_on_store(url, as_json=True) == 0

    assert {"name": "content", "state": "ok"}.items() <= json.loads(capsys.readouterr().out)[
        -1
    ].items()


def test_indexes_are_made_anew(run, path, url):
    store = SQLiteStore(path)
    run(store.open())
    run(store.insert(jobs(20)))
    run(store.close())
    overwrite(path, root_of(path, "ready"), EMPTY_INDEX_PAGE)
    assert states(url)["content"].state is State.MISSING
    assert exit_code(url) == 1

    found = states(url, repair=True)

    assert "indexes made anew" in found["repair"].fact
    assert found["content"].state is State.OK
    assert exit_code(url) == 0
    run(store.open())
    assert len(run(store.claim(claim(limit=50)))) == 20
    run(store.close())


def test_what_can_be_read_of_a_damaged_file_is_kept(run, filled, url):
    pages = os.path.getsize(filled) // PAGE
    for page in range(pages // 3, pages // 3 + 12):
        overwrite(filled, page)
    assert "--repair" in states(url)["content"].remedy

    found = states(url, repair=True)

    assert found["repair"].state is State.WARN, found["repair"]
    assert found["content"].state is State.OK
    assert glob.glob(f"{filled}.damaged-*")
    store = SQLiteStore(filled)
    run(store.open())
    kept = run(store.find(JobQuery(limit=1000)))
    assert 400 < len(kept) < 620
    assert all(it.payload for it in run(store.get([it.id for it in kept], payload=True)))
    assert len(run(store.workers())) <= 1
    run(store.insert([job("new")]))
    run(store.close())


def test_a_file_of_which_nothing_can_be_read_is_left_as_it_was(filled, url):
    overwrite(filled, 1, b"\xa5" * PAGE)
    before = Path(filled).read_bytes()

    found = states(url, repair=True)

    assert found["repair"].state is State.MISSING
    assert f"cp BACKUP {filled}" in found["repair"].remedy
    assert Path(filled).read_bytes() == before
    assert exit_code(url) == 1


def test_a_file_in_use_is_examined_and_not_repaired(process, path, url):
    holder = process(HOLD)
    assert holder.stdout.readline() == "ready\n"

    assert str(holder.pid) in states(url)["in use"].fact
    assert states(url)["content"].state is State.OK
    assert "nothing was changed" in states(url, repair=True)["repair"].fact


def test_a_deleted_file_is_copied_out_of_the_process_that_has_it(run, process, path, url):
    holder = process(HOLD)
    assert holder.stdout.readline() == "ready\n"
    os.unlink(path)
    assert f"process {holder.pid} still has it open" in states(url)["file"].fact
    assert exit_code(url) == 3

    found = states(url, repair=True)

    assert "5 jobs" in found["repair"].fact
    assert found["content"].state is State.OK
    holder.kill()
    holder.wait()
    store = SQLiteStore(path)
    run(store.open())
    assert {it.id for it in run(store.find(JobQuery()))} == {f"held-{n}" for n in range(5)}
    run(store.close())


def test_the_command_says_so_by_its_exit_code(filled, path):
    def ran(*words):
        return subprocess.run(
            [sys.executable, "-m", "shunter", "doctor", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=os.path.dirname(path),
        )

    assert ran("--store", f"sqlite:///{path}").returncode == 0
    assert ran("--store", f"sqlite:///{path}.other").returncode == 3
    assert ran("--repair").returncode == 2
    assert ran("--store", "postgres://x").returncode == 2
