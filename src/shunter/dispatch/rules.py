"""What a dispatcher goes by."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from shunter.dispatch.intake import IntakeRules
from shunter.model.lease import LeaseTerms
from shunter.model.retry import Retry
from shunter.model.worker import WorkerKind

CALLBACK_FACTOR = 3.0
"""Each wait between two calls is so many times as long as the one before: ten tries last two hours
with the default settings."""

UNSENT_BYTES = 32 << 20
"""A gateway that has so much of jobs that it could not send yet is clogged: no more are started."""


class CallbackRules(Struct, frozen=True, kw_only=True):
    """How jobs call back. The limit of `waits` is not used: it is `max_tries`.

    Calls by the schemes of URLs in `at_once_by_scheme` have places of their own, so many for each;
    all others share `at_once`.
    """

    max_tries: int = 10
    timeout: float = 10.0
    at_once: int = 16
    at_once_by_scheme: Mapping[str, int] = {}
    waits: Retry = Retry(delay=1.0, factor=CALLBACK_FACTOR, max_delay=3600.0)


class Rules(Struct, frozen=True, kw_only=True):
    """One dispatcher's rules; spans in seconds."""

    intake: IntakeRules = IntakeRules()
    lease: LeaseTerms = LeaseTerms()
    callbacks: CallbackRules = CallbackRules()
    cooldown: float = 0.0
    max_losses: int = 5
    resend_after: float = 60.0
    task_timeout: float = 60.0
    expiry_grace: float = 5.0
    forgotten_after: float = 3.0
    silent_after: float = 3.0
    retention: float = 7 * 86400.0
    claim_limit: int = 1024
    intake_limit: int = 1024

    @property
    def sent_within(self) -> float:
        """How soon a job that was started must be on its way, before others may miss it."""
        return self.forgotten_after - self.lease.heartbeat

    def presumed_dead_after(self, kind: WorkerKind) -> float:
        """Return after how long a worker that is silent while it works is taken for dead."""
        return self.task_timeout if kind.traits.has_task_timeout else self.resend_after
