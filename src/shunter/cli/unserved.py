"""A word on types that no worker does: the command does what it was told, but perhaps misspelt."""

from __future__ import annotations

from rich.text import Text

from shunter.cli.terminal import Terminal
from shunter.client import Client
from shunter.errors import ShunterError
from shunter.model.spelling import did_you_mean


def note_if_unserved(client: Client, job_type: str) -> None:
    """Say on standard error if no worker that is alive does this type, and what was meant."""
    try:
        workers = client.workers()
    except ShunterError:
        return  # the command itself has been carried out, and not every key may list workers
    served = {
        handler.type for worker in workers if worker.state == "alive" for handler in worker.handlers
    }
    if job_type not in served:
        missing = (f"no worker does {job_type!r} now", "yellow")
        text = Text.assemble(missing, did_you_mean(job_type, served))
        Terminal(stderr=True).print(text, soft_wrap=True)
