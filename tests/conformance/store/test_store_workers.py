"""Worker records, and the jobs that are read into them."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, placed, running, worker
from shunter.model.retry import Retry
from shunter.model.worker import Handler


def test_a_worker_comes_back_as_it_was_put(run, store):
    given = worker(
        "w-1",
        handlers=(Handler("sum", 3, 2.5, Retry(2)), Handler("product")),
        incarnation=4,
        failed_ping_count=2,
        last_error="no route to hôst",
        is_resigned=True,
        is_dead=True,
        last_pinged=NOW + 0.1,
    )

    run(store.put_workers([given]))

    assert run(store.workers()) == [given]
    assert run(store.workers(["w-1"])) == [given]


def test_putting_a_worker_replaces_the_whole_record(run, store):
    run(store.put_workers([worker("w-1", is_dead=True, last_error="gone")]))

    fresh = worker("w-1", incarnation=1)
    run(store.put_workers([worker("w-1"), fresh]))

    assert run(store.workers()) == [fresh]


def test_renewal_records_the_time_and_life_of_the_named_only(run, store):
    [first, second, third] = given = [worker(f"w-{n}", is_dead=True) for n in range(3)]
    run(store.put_workers(given))

    run(store.renew(["w-0", "w-2", "nobody"], now=NOW + 0.3))

    renewed = {"last_pinged": NOW + 0.3, "is_dead": False}
    assert run(store.workers()) == [replace(first, **renewed), second, replace(third, **renewed)]


def test_a_worker_put_after_a_renewal_is_as_it_was_put(run, store):
    run(store.put_workers([worker("w-1")]))
    run(store.renew(["w-1"], now=NOW + 5))

    dead = worker("w-1", last_pinged=NOW + 5, is_dead=True)
    run(store.put_workers([dead]))

    assert run(store.workers()) == [dead]


def test_a_worker_shows_the_jobs_it_has_in_progress(run, store):
    run(store.put_workers([worker("w-1", jobs=("made-up",)), worker("w-2")]))
    run(running(store, "zeta", on="w-1"))
    run(running(store, "alpha", on="w-1"))
    run(ended(store, "done", on="w-1"))
    run(store.insert([job("queued")]))
    run(store.claim(claim()))

    assert [(it.id, it.jobs) for it in run(store.workers())] == [
        ("w-1", ("zeta", "alpha")),
        ("w-2", ()),
    ]


def test_workers_are_given_in_the_order_asked_and_all_in_the_order_of_their_ids(run, store):
    run(store.put_workers([worker(name) for name in ("b", "c", "a")]))

    assert [it.id for it in run(store.workers())] == ["a", "b", "c"]
    assert [it.id for it in run(store.workers(["c", "nobody", "a"]))] == ["c", "a"]


def test_a_removed_worker_is_forgotten_and_its_jobs_are_not(run, store):
    run(store.put_workers([worker("w-1"), worker("w-2")]))
    held = run(running(store, "one", on="w-1"))

    run(store.remove_workers([worker("w-1"), worker("nobody")]))

    assert [it.id for it in run(store.workers())] == ["w-2"]
    assert run(store.held_by(["w-1"])) == [replace(held, payload=None)]


def test_hundreds_of_workers_are_kept(run, store):
    given = [worker(f"w-{number:04}") for number in range(700)]
    run(store.put_workers(given))
    run(store.renew([it.id for it in given], now=NOW + 1))

    assert run(store.workers()) == [replace(it, last_pinged=NOW + 1) for it in given]


def test_a_worker_that_is_not_there_is_made_by_its_first_revision(run, store):
    first = worker("w-1", revision=1)

    assert run(store.swap_workers([first, worker("w-2", revision=2)])) == [True, False]
    assert run(store.workers()) == [first]


def test_of_two_that_write_the_same_revision_one_wins(run, store):
    run(store.swap_workers([worker("w-1", revision=1), worker("w-2", revision=1)]))
    mine = [worker(name, revision=2, last_error="mine") for name in ("w-1", "w-2")]

    assert run(store.swap_workers(mine)) == [True, True]
    theirs = [replace(it, last_error="theirs") for it in mine]
    assert run(store.swap_workers([theirs[0], replace(theirs[1], revision=3)])) == [False, True]
    assert [it.last_error for it in run(store.workers())] == ["mine", "theirs"]


def test_a_worker_that_was_put_can_be_swapped(run, store):
    run(store.put_workers([worker("w-1")]))

    assert run(store.swap_workers([worker("w-1", revision=1, last_error="new")])) == [True]
    assert run(store.swap_workers([worker("w-1", revision=1, last_error="late")])) == [False]


def test_a_worker_that_changed_meanwhile_is_not_removed(run, store):
    run(store.swap_workers([worker("w-1", revision=1), worker("w-2", revision=1)]))
    run(store.swap_workers([worker("w-1", revision=2)]))

    run(store.remove_workers([worker("w-1", revision=1), worker("w-2", revision=1)]))

    assert [it.id for it in run(store.workers())] == ["w-1"]


def test_a_worker_shows_the_places_that_are_taken(run, store):
    run(store.put_workers([worker("w-1")]))
    run(placed(store, "one", place=4))
    run(placed(store, "two", place=0))
    run(running(store, "three", on="w-1"))

    [shown] = run(store.workers())
    assert shown.jobs == ("one", "two", "three")
    assert shown.places == (4, 0)


def test_of_many_that_were_swapped_together_each_is_read_as_it_is(run, store):
    """Read twice: a store may remember what did not change."""
    given = [worker(f"w-{n}", revision=1, port=n) for n in range(5)]
    run(store.swap_workers(given))
    assert run(store.workers()) == given
    assert run(store.workers()) == given

    changed = [replace(given[3], revision=2, last_error="changed")]
    run(store.swap_workers(changed))

    assert run(store.workers()) == [*given[:3], *changed, given[4]]
    run(store.remove_workers(given[:1]))
    assert run(store.workers()) == [*given[1:3], *changed, given[4]]
