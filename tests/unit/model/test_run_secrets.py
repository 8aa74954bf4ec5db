"""What proves that a report is of the worker that was given the run."""

from __future__ import annotations

import pytest

from shunter.errors import ProtocolError, RunNotProven, StaleAttempt
from shunter.model.report import Advance, Held, Report
from shunter.model.run_secrets import SECRET_BYTES, RunSecrets

SECRETS = RunSecrets(b"s" * 32)


def test_each_run_of_each_job_in_each_system_has_a_secret_of_its_own():
    others = RunSecrets(b"t" * 32)
    runs = [("a", 1), ("a", 2), ("a/1", 1), ("a", 11), ("b", 1)]

    made = {each.of(*run) for each in (SECRETS, others) for run in runs}

    assert len(made) == 2 * len(runs)
    assert {len(secret) for secret in made} == {SECRET_BYTES}


def test_all_dispatchers_of_a_store_make_the_same_secret():
    later = RunSecrets()
    later.use(b"s" * 32)

    assert later.of("a", 1) == SECRETS.of("a", 1)


@pytest.mark.parametrize("shown", [b"\0" * 16, SECRETS.of("a", 2), SECRETS.of("a", 1)[:-1], b"x"])
@pytest.mark.parametrize("are_required", [False, True])
def test_a_wrong_secret_is_never_believed(shown, are_required):
    secrets = RunSecrets(b"s" * 32, are_required=are_required)

    with pytest.raises(RunNotProven, match="attempt 1 is refused"):
        secrets.check("a", 1, shown)


def test_a_missing_secret_is_waived_unless_keys_are_asked_for():
    SECRETS.check("a", 1, b"")
    SECRETS.check("a", 1, SECRETS.of("a", 1))

    with pytest.raises(StaleAttempt):
        RunSecrets(b"s" * 32, are_required=True).check("a", 1, b"")


@pytest.mark.parametrize("kind", [Held, Report, lambda *run: Advance(*run, done=1.0)])
def test_what_a_worker_says_of_several_runs_is_believed_run_by_run(kind):
    mine, others, unproven = kind("a", 1), kind("b", 1), kind("c", 1)
    shown = (SECRETS.of("a", 1), SECRETS.of("a", 1), b"")

    believed, refused = SECRETS.sifted((mine, others, unproven), shown)

    assert believed == [mine]
    assert [error.job_id for error in refused] == ["b", "c"]


@pytest.mark.parametrize("shown", [(), (b"", b"")])
def test_there_is_a_secret_for_each_run(shown):
    with pytest.raises(ProtocolError, match="send one for each"):
        SECRETS.sifted((Held("a", 1),), shown)
