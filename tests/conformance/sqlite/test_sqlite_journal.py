"""Entries of runs are written together, and each is answered for itself."""

from __future__ import annotations

from conformance.store.given import running
from conformance.store.test_store_journal import kept, step
from shunter.store.sqlite import journal_rows


def entered(run, store, *entries):
    """Write entries; return the answers, and how many statements that took."""
    seen = []

    async def write():
        def traced(connection):
            connection.set_trace_callback(seen.append)
            try:
                return journal_rows.enter(connection, entries)
            finally:
                connection.set_trace_callback(None)

        return await store.writer.submit(traced)

    return run(write()), len(seen)


def test_what_many_runs_keep_is_one_statement(run, store):
    for name in "abc":
        run(running(store, name))

    assert entered(run, store, *(step(name, "pay") for name in "abc")) == ([True] * 3, 1)


def test_where_one_of_many_is_refused_each_has_its_own_answer(run, store):
    for name in "ab":
        run(running(store, name))

    entries = step("a", "pay"), step("a", "mail", attempt=2), step("nobody", "x"), step("b", "pay")
    assert entered(run, store, *entries)[0] == [True, False, False, True]

    assert [kept(run, store, name) for name in "ab"] == [[entries[0]], [entries[3]]]


def test_of_a_step_that_comes_twice_in_a_batch_the_last_counts(run, store):
    run(running(store, "a"))

    twice = step("a", "pay", body=b"\x01"), step("a", "pay", body=b"\x02")
    assert entered(run, store, *twice)[0] == [True, True]

    assert kept(run, store, "a") == [twice[1]]
