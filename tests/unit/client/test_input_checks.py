"""What users pass to clients is refused before anything is sent, with field and remedy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shunter import App, AsyncClient, AsyncUdpClient, JobRefused, Retry, Status, Unique
from shunter.client.input_checks import checked_query
from shunter.client.options import JobOptions
from shunter.errors import AppError, ResultTimeout, SettingsError
from shunter.model.spelling import did_you_mean, similar
from shunter.testing import Sandbox


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ({"retry": 3}, "retry", r"pass Retry\(limit=3\)"),
        ({"priority": 1.5}, "priority", "a whole number"),
        ({"priority": True}, "priority", "a whole number"),
        ({"delay": "5"}, "delay", "seconds"),
        ({"timeout": True}, "timeout", "seconds"),
        ({"unique_key": 7}, "unique_key", "text"),
        ({"callback": 7}, "callback", "a URL"),
        ({"effects": 7}, "effects", "text"),
        ({"reply": "no"}, "reply", "True or False"),
        ({"expires_in": "soon"}, "expires_in", "seconds"),
        ({"unique": "key"}, "unique", "such as Unique"),
        ({"unique": Unique("key", within="day")}, "unique.within", "seconds"),  # type: ignore[arg-type]
        ({"retry": Retry(limit="x")}, "retry.limit", "a whole number"),  # type: ignore[arg-type]
        ({"retry": Retry(on=(5,))}, "retry.on", "name classes of exceptions"),  # type: ignore[arg-type]
        ({"keys": {"a b": "c"}}, "keys", "a name is"),
    ],
)
def test_an_option_of_another_type_is_refused_at_once(
    options: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(JobRefused, match=said) as caught:
        JobOptions(**options)

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("failed", Status.FAILED),
        ("f", Status.FAILED),
        ("in-progress", Status.IN_PROGRESS),
        ("in_progress", Status.IN_PROGRESS),
        (Status.QUEUED, Status.QUEUED),
    ],
)
def test_a_status_may_be_a_word(word: Any, status: Status) -> None:
    assert checked_query({"status": word, "limit": 3}) == {"status": status, "limit": 3}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"status": "faild"}, "status: found 'faild'; allowed: .*did you mean 'failed'"),
        ({"status": 3}, "status: found 3; allowed: waiting"),
        ({"limit": "many"}, "limit: found 'many'; allowed: a whole number"),
        ({"limit": 0}, "limit: found 0; allowed: a whole number from 1 on"),
        ({"type": 3}, "type: found 3; allowed: a text"),
        ({"stauts": "failed"}, "stauts: found no such filter; .*did you mean 'status'"),
    ],
)
def test_a_slip_in_a_query_is_told_with_what_there_is(query: dict[str, Any], said: str) -> None:
    async def ask() -> None:
        async with AsyncClient("tcp://127.0.0.1:9") as client:
            await client.jobs(**query)

    with pytest.raises(SettingsError, match=said):
        asyncio.run(ask())


def test_a_name_that_is_nearly_spelt_like_another_is_recognised() -> None:
    assert similar("ad", ["mail", "add"]) == "add"
    assert similar("add", ["add"]) == ""
    assert similar("x", ["mail", "add"]) == ""
    assert did_you_mean("rendr", {"render"}) == "; did you mean 'render'?"
    assert did_you_mean("q", ()) == ""


def test_who_waits_for_a_type_that_nobody_does_hears_what_was_perhaps_meant() -> None:
    assert str(ResultTimeout("j", 1.0, "did you mean 'add'?")).endswith("; did you mean 'add'?")


def test_a_misspelt_option_is_told_with_the_one_that_is_meant() -> None:
    with Sandbox(App()) as sandbox, sandbox.client() as client:
        for options in (client.with_options, sandbox.with_options):
            with pytest.raises(JobRefused, match=r"priorty: no such .*mean 'priority'"):
                options(priorty=3)


@pytest.mark.parametrize("job", [3, len, None])
def test_what_is_no_job_is_refused(job: Any) -> None:
    with Sandbox(App()) as sandbox, sandbox.client() as client:
        for submit in (client.submit, sandbox.submit):
            with pytest.raises(AppError, match="is no job; pass the name of its type, or a func"):
                submit(job)


def test_an_id_where_a_list_of_them_is_wanted_is_refused() -> None:
    with Sandbox(App()) as sandbox, sandbox.client() as client:
        with pytest.raises(SettingsError, match=r"cancel\(\): job_ids: found 'abc'; allowed: a"):
            client.cancel("abc")
        with pytest.raises(SettingsError, match=r"jobs\(\): job_ids: found \(3,\)"):
            client.job(3)  # type: ignore[arg-type]


def test_what_is_no_job_is_no_task_either() -> None:
    async def add() -> None:
        async with AsyncUdpClient(("127.0.0.1", 9)) as client:
            await client.submit(3)  # type: ignore[arg-type]

    with pytest.raises(AppError, match="is no job; pass the name of its type, or a func"):
        asyncio.run(add())
