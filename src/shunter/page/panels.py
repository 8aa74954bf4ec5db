"""What else stands on the page of a job: each panel is made by a part of its own.

A panel has a title and a template, and reads what it shows. Put new ones into PANELS, in the order
in which they are to be seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from shunter.model.job import Job
from shunter.page.relations import read_relations
from shunter.page.steps_panel import read_steps
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest
from shunter.page.why_panel import read_why


@dataclass(frozen=True)
class Panel:
    """`read` returns what the template `panels/NAME.html` shows; None leaves the panel out.

    What `is_first` stands above the line of time, all else at the end.
    """

    name: str
    title: str
    read: Callable[[SystemLook, PageRequest, Job], Awaitable[Data | None]]
    is_first: bool = False


PANELS: Sequence[Panel] = (
    Panel("why", "Why", read_why, is_first=True),
    Panel("steps", "Steps", read_steps),
    Panel("relations", "Parents and children", read_relations),
)


async def read_panels(look: SystemLook, asked: PageRequest, job: Job) -> list[tuple[Panel, Data]]:
    """Return the panels that have something to say of a job."""
    return [
        (panel, data)
        for panel in PANELS
        if (data := await panel.read(look, asked, job)) is not None
    ]
