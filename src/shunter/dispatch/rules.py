"""What a dispatcher goes by."""

from __future__ import annotations

from msgspec import Struct

from shunter.dispatch.intake import IntakeRules
from shunter.model.lease import LeaseTerms


class Rules(Struct, frozen=True, kw_only=True):
    """One dispatcher's rules; spans in seconds."""

    intake: IntakeRules = IntakeRules()
    lease: LeaseTerms = LeaseTerms()
    cooldown: float = 0.0
    max_losses: int = 5
    resend_after: float = 60.0
    expiry_grace: float = 5.0
    forgotten_after: float = 3.0
    silent_after: float = 3.0
    retention: float = 7 * 86400.0
    claim_limit: int = 512
    intake_limit: int = 1024
