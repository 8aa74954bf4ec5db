"""What becomes of an event at which a user's function failed: stop, skip, or a letter about it."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shunter.errors import FlowError, FlowFailed
from shunter.flow.graph.source_line import is_ours
from shunter.flow.graph.stages import Stage
from shunter.flow.runtime.sender import Bad
from shunter.flow.sources.port import BadInput

SHOWN = 500
"""How much of an event is shown in a message."""

SHOWN_ERROR = 200
"""How much of an error is told while a flow runs."""


class BadEvents:
    """The bad events of one worker. `sender` is the edge to the dead letters, if there is one."""

    def __init__(self, policy: Any, *, sender: str | None = None) -> None:
        self._stops = policy == "stop"
        self.sender = sender
        self.counts: Counter[str] = Counter()
        self.errors: dict[str, str] = {}
        self._letters: list[dict[str, Any]] = []
        self._of_keys: dict[str, Bad] = {}

    def of(self, stage: Stage) -> Bad:
        """Return what is to be called with the bad events of a stage."""
        return lambda event, error: self._happened(stage, event, error)

    def of_key(self, sender: str) -> Bad | None:
        """Return what is to be called with the events whose key can't be had."""
        return self._of_keys.get(sender)

    def blame_for_keys(self, sender: str, stage: Stage) -> None:
        """Say whose the bad keys on an edge are."""
        self._of_keys[sender] = self.of(stage)

    @property
    def has_letters(self) -> bool:
        """True if something is to be sent to the dead letters."""
        return bool(self._letters)

    def found_in_input(self, stage: Stage, bad: BadInput) -> None:
        """Take what a source could make no event of."""
        self.counts[stage.name] += 1
        self.errors[stage.name] = str(bad)[:SHOWN_ERROR]
        if self._stops:
            raise FlowError(
                f"{bad}, at {_shown(bad.raw)}; mend the input, or let the flow skip what is bad "
                'with Flow(on_error="skip")',
                stage=stage.name,
                place=str(stage.where),
            )
        if self.sender is not None:
            self._letters.append({
                "stage": stage.name,
                "event": bad.raw,
                "error": str(bad),
                "traceback": "",
            })  # fmt: skip

    def letters(self) -> list[dict[str, Any]]:
        """Take what is to be sent to the dead letters."""
        letters, self._letters = self._letters, []
        return letters

    def _happened(self, stage: Stage, event: Any, error: Exception) -> None:
        self.counts[stage.name] += 1
        self.errors[stage.name] = f"{type(error).__name__}: {error}"[:SHOWN_ERROR]
        if self._stops:
            raise stopped(stage, event, error) from error
        if self.sender is not None:
            self._letters.append({
                "stage": stage.name,
                "event": event,
                "error": _summary(error),
                "traceback": users_traceback(error),
            })  # fmt: skip


def stopped(stage: Stage, event: Any, error: Exception) -> FlowFailed:
    """Return the error that ends a run because of one event."""
    return FlowFailed(
        f"{_summary(error)}, at the event {_shown(event)}; mend the function, or let the flow skip "
        f'such events with Flow(on_error="skip")\n{users_traceback(error)}',
        stage=stage.name,
        place=str(stage.where),
    )


@contextmanager
def blamed_on(stage: Stage, doing: str) -> Iterator[None]:
    """Have what a user's source, sink or object raises name the stage; it ends the run."""
    try:
        yield
    except FlowError:
        raise
    except Exception as error:
        raise FlowFailed(
            f"{_summary(error)}, in {doing}\n{users_traceback(error)}",
            stage=stage.name,
            place=str(stage.where),
        ) from error


@contextmanager
def failing_run() -> Iterator[None]:
    """Let what ends a run that has begun be a FlowFailed, whoever found it."""
    try:
        yield
    except FlowFailed:
        raise
    except FlowError as error:
        raise FlowFailed.of(error) from error


def users_traceback(error: Exception) -> str:
    """The traceback without the frames that are ours."""
    walked = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_ours(str(frame.f_globals.get("__name__", "")))
    ]
    summary = traceback.StackSummary.extract(iter(walked))
    return "".join(summary.format()) + _summary(error)


def _shown(event: Any) -> str:
    text = repr(event)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _summary(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
