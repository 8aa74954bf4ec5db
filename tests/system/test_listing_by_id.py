"""Jobs that are asked for by their ids all come, however many and however large."""

from __future__ import annotations

from system.yard import Yard


def test_all_jobs_that_were_asked_for_come_in_that_order(yard: Yard) -> None:
    client = yard.client(yard.dispatcher())
    ids = [job.id for job in client.submit_many("nobody", [(number,) for number in range(1203)])]
    asked = [ids[7], "unknown-1", *reversed(ids[8:]), "unknown-2", *ids[:7], "unknown-3"]

    shown = client.jobs(job_ids=asked)

    assert [job.id for job in shown] == [ids[7], *reversed(ids[8:]), *ids[:7]]
    assert all(job.payload for job in shown)


def test_large_jobs_come_in_several_answers(yard: Yard) -> None:
    client = yard.client(yard.dispatcher())
    ids = [client.submit("nobody", bytes(700_000)).id for _ in range(11)]

    shown = client.jobs(job_ids=["unknown", *ids])

    assert [job.id for job in shown] == ids
    assert all(len(job.payload or b"") > 700_000 for job in shown)


def test_none_is_no_jobs(yard: Yard) -> None:
    client = yard.client(yard.dispatcher())

    assert client.jobs(job_ids=["unknown"] * 20) == []
