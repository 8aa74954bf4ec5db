"""Namespaces: what is unique in which, and what is listed of which."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, running
from shunter.errors import UniqueKeyTaken
from shunter.store.port import JobQuery


def ids(jobs):
    return [it.id for it in jobs]


def test_a_job_keeps_its_namespace_through_all_that_happens_to_it(run, store):
    done = run(ended(store, "theirs", namespace="team-a"))
    busy = run(running(store, "busy", namespace="team-a", on="w-2"))
    run(store.insert([job("waits", namespace="team-a")]))

    assert done.namespace == busy.namespace == "team-a"
    assert ids(run(store.find(JobQuery(namespace="team-a")))) == ["waits", "busy", "theirs"]
    assert [it.namespace for it in run(store.get(["theirs", "busy"]))] == ["team-a"] * 2
    assert [it.namespace for it in run(store.held_by(["w-2"]))] == ["team-a"]
    assert [it.namespace for it in run(store.claim(claim()))] == ["team-a"]


def test_a_unique_key_is_so_within_its_namespace(run, store):
    jobs = [
        job("nobodys", unique_key="k"),
        job("a-1", unique_key="k", namespace="team-a"),
        job("b-1", unique_key="k", namespace="team-b", payload=b"\x07"),
    ]
    assert run(store.insert(jobs)) == jobs

    again = job("a-2", unique_key="k", namespace="team-a")
    other = job("b-2", unique_key="k", namespace="team-b")
    last = job("n-2", unique_key="k")
    found, refused, first = run(store.insert([again, other, last]))

    assert found == jobs[1]
    assert first == jobs[0]
    assert isinstance(refused, UniqueKeyTaken)
    assert refused.holder == "b-1"
    assert run(store.get(["a-2", "b-2", "n-2"])) == [None] * 3


def test_an_id_of_another_namespace_is_taken_and_nothing_is_said_of_its_job(run, store):
    theirs = run(ended(store, "j-1", namespace="team-a"))
    same = job("j-1", type=theirs.type, namespace="team-b")
    differs = job("j-1", type="sum", payload=b"\x07", namespace="team-b")

    for mine in (same, differs, replace(same, namespace="")):
        [refused] = run(store.insert([mine]))
        assert isinstance(refused, UniqueKeyTaken)
        assert (refused.field, refused.key, refused.holder) == ("id", "j-1", "")
        assert "type" not in str(refused)

    assert run(store.get(["j-1"])) == [replace(theirs, payload=None)]


def test_a_key_is_free_again_once_its_job_is_purged(run, store):
    run(ended(store, "old", namespace="team-a", unique_key="k"))
    run(store.insert([job("other", namespace="team-b", unique_key="k", type="rest")]))

    assert run(store.purge(ended_before=NOW + 1, limit=10)) == 1
    new = job("new", namespace="team-a", unique_key="k", payload=b"\x09")

    assert run(store.insert([new])) == [new]


def test_a_listing_of_a_namespace_goes_on_behind_its_own_jobs_only(run, store):
    mixed = [job(f"j-{n}", namespace=("", "team-a", "team-b")[n % 3]) for n in range(12)]
    run(store.insert(mixed))
    run(running(store, "busy", namespace="team-a"))

    def listed(**query):
        return ids(run(store.find(JobQuery(**query))))

    assert listed(namespace="team-a", limit=2) == ["busy", "j-10"]
    assert listed(namespace="team-a", before="j-10") == ["j-7", "j-4", "j-1"]
    assert listed(namespace="team-a", type="sum", limit=1) == ["j-10"]
    assert listed(namespace="team-a", worker_id="w-1") == ["busy"]
    assert listed(namespace="", before="j-9") == ["j-6", "j-3", "j-0"]
    assert listed(before="j-2") == ["j-1", "j-0"]
    assert listed(namespace="nobodys") == []
    # a job of somebody else is no place to go on from, as if it were not there
    assert listed(namespace="team-a", before="j-11") == listed(namespace="team-a", before="x")
    assert listed(namespace="", before="j-11") == []
