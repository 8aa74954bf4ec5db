"""Dispatchers see each other."""

from __future__ import annotations

from shunter.model.presence import KEPT_SECONDS, Presence


def here(name: str, clock: float) -> Presence:
    return Presence(dispatcher_id=name, clock=clock, host="h", uptime=clock / 2)


def test_dispatchers_see_each_other_and_themselves(run, store):
    assert run(store.meet(here("d-1", 100.0))) == [here("d-1", 100.0)]

    met = run(store.meet(here("d-2", 130.0)))

    assert sorted(met, key=lambda it: it.dispatcher_id) == [here("d-1", 100.0), here("d-2", 130.0)]


def test_the_last_word_counts(run, store):
    run(store.meet(here("d-1", 100.0)))

    assert run(store.meet(here("d-1", 90.0))) == [here("d-1", 90.0)]


def test_who_is_long_gone_is_forgotten(run, store):
    run(store.meet(here("d-1", 100.0)))

    assert run(store.meet(here("d-2", 101.0 + KEPT_SECONDS))) == [here("d-2", 101.0 + KEPT_SECONDS)]
