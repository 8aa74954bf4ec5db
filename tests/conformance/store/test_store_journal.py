"""What jobs keep beside their records: written only by the current run, found by the next one."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, running
from shunter.model import lifecycle
from shunter.model.journal import COPIED, SENT, EntryKind, JournalEntry, JournalPage
from shunter.model.lifecycle import WorkerSlot
from shunter.store.port import Batch


def step(job_id: str, key: str, *, attempt: int = 1, body: bytes = b"\x01") -> JournalEntry:
    return JournalEntry(
        job_id=job_id,
        kind=EntryKind.STEP,
        key=key,
        attempt=attempt,
        at=NOW,
        body=body,
        digest=b"of its arguments",
        seconds=0.25,
    )


def signal(job_id: str, key: str, *, body: bytes = b"\xc3") -> JournalEntry:
    return JournalEntry(
        job_id=job_id,
        kind=EntryKind.SIGNAL,
        key=key,
        attempt=SENT,
        at=NOW,
        body=body,
        name="approved",
    )


def enter(run, store, *entries: JournalEntry) -> list[bool]:
    return run(store.commit(Batch(now=NOW, entries=entries))).entered


def kept(run, store, job_id: str, kind: EntryKind = EntryKind.STEP) -> list[JournalEntry]:
    page = run(store.journal(job_id, kind))
    assert not page.is_more
    return list(page.entries)


def test_a_running_job_keeps_its_steps_and_other_jobs_have_none_of_them(run, store):
    run(running(store, "a"))
    run(running(store, "a.b"))
    entries = step("a", "pay"), step("a", "mail ä", body=b"\xc4\x02\x00\xff")

    assert enter(run, store, *entries) == [True, True]

    assert kept(run, store, "a") == sorted(entries, key=lambda it: it.key)
    assert kept(run, store, "a", EntryKind.SIGNAL) == []
    assert kept(run, store, "a.b") == []
    assert kept(run, store, "nobody") == []


def test_a_step_is_refused_unless_its_attempt_is_the_one_that_runs(run, store):
    run(store.insert([job("queued")]))
    run(ended(store, "ended"))
    started = run(running(store, "lost"))
    lost = lifecycle.lost(started, 1, "gone", now=NOW, jitter=0.0, max_losses=3)
    assert run(store.replace([lost])) == [True]
    run(running(store, "a"))

    refused = [
        step("a", "pay", attempt=2),
        step("queued", "pay"),
        step("ended", "pay"),
        step("lost", "pay"),
        step("nobody", "pay"),
    ]
    assert enter(run, store, *refused, step("a", "pay")) == [False] * 5 + [True]

    assert [kept(run, store, it.job_id) for it in refused[1:]] == [[]] * 4
    assert kept(run, store, "a") == [step("a", "pay")]


def test_the_step_of_a_run_that_was_replaced_is_refused_and_that_of_the_next_counts(run, store):
    started = run(running(store, "a"))
    assert enter(run, store, step("a", "pay", body=b"\x01")) == [True]
    lost = lifecycle.lost(started, 1, "gone", now=NOW, jitter=0.0, max_losses=3)
    run(store.replace([lost]))
    [again] = run(store.claim(claim(started.type)))
    run(store.replace([lifecycle.started(again, WorkerSlot("w-2"), now=NOW)]))

    assert enter(run, store, step("a", "pay", body=b"\x02")) == [False]
    assert kept(run, store, "a") == [step("a", "pay", body=b"\x01")]

    assert enter(run, store, step("a", "pay", attempt=2, body=b"\x03")) == [True]
    assert kept(run, store, "a") == [step("a", "pay", attempt=2, body=b"\x03")]


def test_a_job_that_its_claim_has_started_keeps_steps_of_that_attempt_only(run, store):
    run(store.insert([job("a"), job("b")]))
    slots = (WorkerSlot("w-1"), WorkerSlot("w-1"))
    taken = run(store.claim(replace(claim("sum", limit=2), slots=slots)))
    assert [it.attempt for it in taken] == [1, 1]

    entries = [step("a", "pay"), step("b", "pay"), step("a", "x", attempt=2)]
    assert enter(run, store, *entries) == [True, True, False]


def test_a_step_that_is_written_again_is_one(run, store):
    run(running(store, "a"))

    assert enter(run, store, step("a", "pay")) == [True]
    assert enter(run, store, step("a", "pay"), step("a", "mail")) == [True, True]

    assert [it.key for it in kept(run, store, "a")] == ["mail", "pay"]


def test_a_step_and_the_end_of_its_run_may_come_together(run, store):
    started = run(running(store, "a"))
    done = lifecycle.completed(started, 1, result=b"\xc0", now=NOW)

    committed = run(store.commit(Batch(now=NOW, entries=[step("a", "pay")], replacements=[done])))

    assert (committed.entered, committed.replaced) == ([True], [True])
    assert kept(run, store, "a") == [step("a", "pay")]


def test_a_signal_is_kept_while_its_job_is_under_way_and_counts_once_by_its_id(run, store):
    run(store.insert([job("queued")]))
    run(running(store, "running"))
    run(ended(store, "ended"))

    sent = [signal(name, "id-1") for name in ("queued", "running", "ended", "nobody")]
    assert enter(run, store, *sent) == [True, True, False, False]
    again = signal("queued", "id-1", body=b"\xc2"), signal("queued", "id-2")
    assert enter(run, store, *again) == [True, True]

    assert kept(run, store, "queued", EntryKind.SIGNAL) == [
        signal("queued", "id-1"),
        signal("queued", "id-2"),
    ]
    assert kept(run, store, "ended", EntryKind.SIGNAL) == []


def test_steps_are_copied_before_their_job_is_stored_and_never_into_one_that_is_there(run, store):
    run(store.insert([job("there")]))
    copies = [step("new", "pay", attempt=COPIED), step("there", "pay", attempt=COPIED)]

    committed = run(store.commit(Batch(now=NOW, entries=copies, inserts=[job("new")])))

    assert committed.entered == [True, False]
    assert [it.key for it in kept(run, store, "new")] == ["pay"]
    assert kept(run, store, "there") == []
    [taken] = run(store.claim(claim("sum", limit=2)))[1:]
    run(store.replace([lifecycle.started(taken, WorkerSlot("w-1"), now=NOW)]))
    assert enter(run, store, step("new", "pay", body=b"\x07")) == [True]
    assert [it.body for it in kept(run, store, "new")] == [b"\x07"]


def test_a_journal_is_read_in_pages_of_about_so_many_bytes(run, store):
    run(running(store, "a"))
    entries = [step("a", f"step-{n:02}", body=bytes(1000)) for n in range(10)]
    assert enter(run, store, *entries) == [True] * 10

    pages: list[JournalPage] = []
    while not pages or pages[-1].is_more:
        after = pages[-1].entries[-1].key if pages else ""
        pages.append(run(store.journal("a", EntryKind.STEP, after=after, most_bytes=3500)))

    assert [it for page in pages for it in page.entries] == entries
    assert {len(page.entries) for page in pages[:-1]} == {3}
    alone = run(store.journal("a", EntryKind.STEP, most_bytes=10))
    assert (len(alone.entries), alone.is_more) == (1, True)


def test_what_a_job_kept_goes_when_it_is_purged(run, store):
    for name in ("a", "a0", "b"):
        started = run(running(store, name))
        assert enter(run, store, step(name, "pay"), signal(name, "id")) == [True, True]
        if name != "b":
            done = lifecycle.completed(started, 1, result=b"\xc0", now=NOW)
            assert run(store.replace([done])) == [True]

    assert run(store.purge(ended_before=NOW + 1, limit=1)) == 1
    assert [len(kept(run, store, name)) for name in ("a", "a0", "b")] == [0, 1, 1]
    assert run(store.purge(ended_before=NOW + 1, limit=10)) == 1

    assert [len(kept(run, store, name)) for name in ("a", "a0", "b")] == [0, 0, 1]
    assert kept(run, store, "a", EntryKind.SIGNAL) == []


def test_a_journal_is_shared_by_all_that_use_a_database(run, opened):
    one, two = opened(), opened()
    run(running(one, "a"))

    assert enter(run, two, step("a", "pay")) == [True]

    assert kept(run, one, "a") == [step("a", "pay")]


def test_a_batch_that_is_offered_again_answers_as_if_it_was_the_first_time(run, store):
    started = run(running(store, "a"))
    done = lifecycle.completed(started, 1, result=b"\xc0", now=NOW)
    batch = Batch(now=NOW, entries=[step("a", "pay"), step("b", "pay")], replacements=[done])

    assert run(store.commit(batch)).entered == [True, False]
    assert kept(run, store, "a") == [replace(step("a", "pay"))]
