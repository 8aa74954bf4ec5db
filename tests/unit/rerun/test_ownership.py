"""Helpers know the job whose handler calls them, and say what to do where there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

import shunter.rerun
from shunter import App, Context, Status
from shunter.context import current_context
from shunter.errors import StagingError
from shunter.rerun.ownership import owner_of
from shunter.rerun.staging_names import Owner
from shunter.testing import Sandbox

app = App()


@app.job
def owner_here() -> list[object]:
    return list(owner_of(None))


@app.job
async def owner_in_tasks() -> list[list[object]]:
    async def deeper() -> Owner:
        return owner_of(None)

    found = await asyncio.gather(deeper(), asyncio.to_thread(owner_of, None))
    return [list(owner) for owner in found]


@app.job
def owner_in_a_thread(ctx: Context) -> list[str]:
    said = []

    def ask() -> None:
        try:
            owner_of(None)
        except StagingError as error:
            said.append(str(error))
        said.append(owner_of(ctx).job_id)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return said


def test_a_handler_need_not_pass_its_context_on() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(run="november").submit("owner_here")
        sandbox.settle()

        assert job.result() == ["november", job.id, 1]


def test_without_a_run_it_is_the_jobs_own_id_and_a_lost_run_raises_the_attempt() -> None:
    with Sandbox(app) as sandbox:
        sandbox.crash_next()
        job = sandbox.submit("owner_here")
        sandbox.settle()

        assert job.result() == [job.id, job.id, 2]


def test_async_handlers_their_tasks_and_their_threads_know_it() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit("owner_in_tasks")
        sandbox.settle()

        assert job.result() == [[job.id, job.id, 1]] * 2


def test_in_a_thread_of_ones_own_the_context_is_passed() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit("owner_in_a_thread")
        sandbox.settle()

        assert job.status is Status.COMPLETED
        message, job_id = job.result()
        assert "run=ctx" in message
        assert job_id == job.id


def test_after_a_job_there_is_none() -> None:
    with Sandbox(app) as sandbox:
        sandbox.submit("owner_here")
        sandbox.settle()

        assert current_context() is None


def test_outside_of_a_job_the_error_says_to_name_the_run() -> None:
    with pytest.raises(StagingError, match="pass run='a name of your own'"):
        owner_of(None)


def test_a_script_names_its_run() -> None:
    assert owner_of("2026-11-15") == Owner("2026-11-15", "2026-11-15", 1)
    assert owner_of(Owner("a", "b", 7)) == Owner("a", "b", 7)


def test_an_empty_run_is_refused() -> None:
    with pytest.raises(StagingError, match="name the run"):
        owner_of("")


@pytest.mark.parametrize("name", shunter.rerun.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(shunter.rerun, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'shunter\.rerun' has no attribute 'nothing'"):
        shunter.rerun.nothing  # noqa: B018


def test_staging_files_loads_neither_sqlite_nor_pymongo() -> None:
    code = (
        "import sys; from shunter.rerun import staged_file, staged_directory, sweep_files; "
        "sys.exit('sqlite3' in sys.modules or 'pymongo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    code = (
        "import sys; from shunter.rerun import staged_table, upsert_rows; "
        "sys.exit('pymongo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
