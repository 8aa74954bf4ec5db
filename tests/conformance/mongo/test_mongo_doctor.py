"""`shunter doctor --store` on a database: reachable, a replica set, indexes."""

from __future__ import annotations

import pymongo
import pytest

from conformance.store.given import job
from shunter.cli import doctor
from shunter.store.finding import State
from shunter.store.registry import driver_of


def states(url, *, repair=False):
    driver = driver_of(url)
    found = driver.repair(url) if repair else driver.examine(url)
    return {finding.name: finding for finding in found}


def test_a_database_in_order_is_well(run, store, url):
    run(store.insert([job("one")]))

    found = states(url)

    assert found["server"].state is State.OK
    assert found["indexes"].state is State.OK
    assert "about 1 jobs" in found["content"].fact
    assert doctor.run_on_store(url) == 0


def test_a_database_that_nobody_used_is_told_and_not_made(url):
    assert states(url)["schema"].state is State.MISSING
    assert states(url)["schema"].state is State.MISSING
    assert doctor.run_on_store(url) == 1


def test_an_index_that_is_missing_is_named_and_made(store, url):
    with pymongo.MongoClient(url) as client:
        client.get_default_database()["jobs"].drop_index("ready")
    assert "jobs.ready" in states(url)["indexes"].fact

    assert states(url, repair=True)["indexes"].state is State.OK


@pytest.mark.usefixtures("lost_sockets")
def test_a_server_that_does_not_answer_is_exit_3(monkeypatch):
    monkeypatch.setattr("shunter.store.mongo.driver.PATIENCE_SECONDS", 0.5)

    assert doctor.run_on_store("mongodb://127.0.0.1:1/nothing") == 3
