"""The options of a submission, for editors and type checkers: those of `JobOptions`, by name."""

from __future__ import annotations

from typing import TypedDict

from shunter.model.job import Callback
from shunter.model.retry import Retry
from shunter.model.unique import Unique


class SubmitOptions(TypedDict, total=False):
    """What `with_options` takes. What each means is said in `docs/guide/jobs.md`."""

    priority: int | None
    timeout: float | None
    retry: Retry | None
    delay: float | None
    not_before: float | None
    unique_key: str | None
    workflow: str | None
    run: str | None
    callback: Callback | str | None
    traceparent: str | None
    reply: bool
    effects: str | None
    expires_in: float | None
    unique: Unique | None
    keys: dict[str, str] | None
