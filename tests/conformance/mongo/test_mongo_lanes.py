"""What a claim under limits reads is a hint: the unique index and the swap of buckets decide."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, jobs
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.lane_claim import LaneState
from shunter.store.mongo import lanes
from shunter.store.port import Batch


@pytest.mark.parametrize("limit", [Limit(2, by="tenant"), Limit(2)])
def test_a_claim_that_believes_places_to_be_free_is_refused_them(run, store, monkeypatch, limit):
    limits = JobLimits(limit=limit)
    keys = {"tenant": "a"}
    run(store.insert(jobs(5, keys=keys, lane=limits.lane(keys))))
    wanted = replace(claim(limit=5), limits=limits)
    assert len(run(store.claim(wanted))) == 2

    async def nothing(*_):
        return LaneState(limits, {}, set())

    monkeypatch.setattr(lanes, "taken", nothing)
    done = run(store.commit(Batch(now=NOW, claims=[replace(wanted, dispatcher_id="d-2")])))

    assert done.claimed == [[]]
    assert done.looks["sum"].is_more


def test_a_claim_that_believes_tokens_to_be_there_is_refused_them(run, store, monkeypatch):
    limits = JobLimits(rate=Rate(10, per=10))
    run(store.insert(jobs(5, lane="")))
    wanted = replace(claim(limit=5), limits=limits)
    assert len(run(store.claim(wanted))) == 1

    async def nothing(*_):
        """Nobody has taken anything."""

    monkeypatch.setattr(lanes, "read_buckets", nothing)

    assert run(store.claim(wanted)) == []
