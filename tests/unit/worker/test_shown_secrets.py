"""A worker keeps the secret of a run until there is nothing more to say of it."""

from __future__ import annotations

from shunter.model.report import Advance, Held, Report
from shunter.wire.messages import Assignment
from shunter.worker.zmq.shown_secrets import ShownSecrets


def job(name: str, attempt: int = 1) -> Assignment:
    return Assignment(name, attempt, "t", b"\xc0", None, None)


def test_what_is_said_of_a_run_shows_its_secret():
    secrets = ShownSecrets()
    secrets.took([job("a"), job("b", 2)], [b"A", b"B"])

    assert secrets.of([Report("b", 2), Report("a", 1)]) == (b"B", b"A")
    assert secrets.of([Advance("a", 1, 0.5)]) == (b"A",)
    assert secrets.of([Held("b", 2), Held("b", 1), Held("c", 1)]) == (b"B", b"", b"")
    assert secrets.of([]) == ()


def test_a_run_is_forgotten_when_all_is_said():
    secrets = ShownSecrets()
    secrets.took([job("a"), job("a", 2)], [b"1", b"2"])

    secrets.done_with([Report("a", 1), Report("never", 1)])

    assert secrets.of([Report("a", 1), Report("a", 2)]) == (b"", b"2")
    secrets.clear()
    assert len(secrets) == 0
