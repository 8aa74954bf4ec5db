"""`shunter signal`: tell a job something that its handler waits for."""

from __future__ import annotations

import json

from shunter.cli.job_listings import client_of
from shunter.cli.terminal import Terminal
from shunter.codec import Codec
from shunter.errors import SettingsError
from shunter.settings import Settings


def signal(
    settings: Settings,
    job_id: str,
    name: str,
    value: str | None,
    *,
    signal_id: str,
    codec: Codec | None = None,
) -> int:
    """Send a signal; return the exit code. What is no JSON is refused, so that "no" is no text."""
    try:
        sent = None if value is None else json.loads(value)
    except json.JSONDecodeError as error:
        allowed = "JSON, such as true, 3 or '\"a text\"'"
        found = f"{value!r} ({error})"
        raise SettingsError("the command line", "JSON", found, allowed) from None
    with client_of(settings, codec=codec) as client:
        client.signal(job_id, name, sent, id=signal_id)
    Terminal().print(f"{job_id}: has signal {name!r}")
    return 0
