"""Pauses as JSON documents. Pure. Spec: docs/spec/http.md."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shunter.model.pause import Pause, PauseTarget
from shunter.wire.checked_documents import Document, Name

Target = Annotated[PauseTarget, Meta(description=f"one of {', '.join(PauseTarget)}")]


class PauseRequest(Document, frozen=True, kw_only=True):
    """What is to be held back: jobs of a type, or all that a worker or a version would get."""

    target: Target
    name: Name


class PauseDocument(Document, frozen=True, kw_only=True):
    """One pause; `at` is when it began, `by` the name of the key that asked for it."""

    id: str
    target: PauseTarget
    name: str
    at: float
    by: str | None


class PauseList(Document, frozen=True, kw_only=True):
    """All pauses, in the order of their ids."""

    pauses: tuple[PauseDocument, ...]


def pause_document(pause: Pause) -> PauseDocument:
    """Write a pause."""
    return PauseDocument(
        id=pause.id, target=pause.target, name=pause.name, at=pause.at, by=pause.by or None
    )
