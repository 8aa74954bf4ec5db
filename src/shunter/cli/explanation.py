"""`shunter why`: what keeps a job, and what would start it, told to people or programs."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from shunter.cli.job_listings import client_of
from shunter.cli.terminal import Terminal, json_line
from shunter.model.explanation import Explanation, Holder, JobStanding, Reason
from shunter.settings import Settings
from shunter.why.wording import span_text

EXIT_CODES = {JobStanding.WAITING: 4, JobStanding.STUCK: 5}
"""What a script may want to know; 0 for all else."""

BAR = 30


def why(settings: Settings, job_id: str, *, as_json: bool) -> int:
    """Say why a job does not run; return the exit code."""
    console = Terminal()
    with client_of(settings) as client:
        said = client.why(job_id)
    if as_json:
        console.print_json(json_line(said.as_dict()))
    else:
        for line in lines(said):
            console.print(line, highlight=False, soft_wrap=True)
        if said.spans:
            console.print(_spans(said))
    return EXIT_CODES.get(said.standing, 0)


def lines(said: Explanation) -> Iterator[str]:
    """Yield what is said, line by line."""
    yield f"{said.job_id} ({said.type}) is {said.status}"
    yield said.text
    for place, reason in enumerate(said.reasons):
        if place:
            yield f"then, as things are now: {reason.text}"
        yield from _holders(reason, said.at)
    if said.starts_in is not None:
        yield f"estimate: it starts in about {span_text(said.starts_in)}"
    if said.change is not None:
        yield f"what would start it: {said.change.text}"
        if said.change.command:
            yield f"  {said.change.command}"
    elif said.reasons:
        yield "what would start it: no single change"


def _holders(reason: Reason, now: float) -> Iterator[str]:
    yield from (f"  {_line(holder, now)}" for holder in reason.holders)
    if reason.more and reason.holders:
        yield f"  and {reason.more:,} more"


def _line(holder: Holder, now: float) -> str:
    where = f" on {holder.worker_id}" if holder.worker_id else ""
    since = "" if holder.since is None else f", for {span_text(now - holder.since)}"
    at = "" if holder.since is None else f" ({_clock(holder.since)})"
    return f"{holder.job_id} ({holder.type}) {holder.status}{where}{since}{at}"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _spans(said: Explanation) -> Table:
    """Make a table of where the time went, each part with a bar."""
    whole = max(sum(span.seconds for span in said.spans), 1e-9)
    table = Table.grid(padding=(0, 2))
    for span in said.spans:
        bar = "█" * max(1, round(BAR * span.seconds / whole))
        table.add_row(Text(span.kind), span_text(span.seconds), bar, Text(span.text))
    return table
