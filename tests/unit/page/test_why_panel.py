"""Why a job does not run, on its page: all of it is shown, and texts of others stay texts."""

from __future__ import annotations

import re

from shunter.model.explanation import (
    ChangeKind,
    Explanation,
    Holder,
    JobStanding,
    LifeSpan,
    Reason,
    ReasonKind,
    SmallestChange,
    SpanKind,
)
from shunter.page.markup import templates
from shunter.page.panels import PANELS
from system.page.hostile import HOSTILE

TEXT = "\n".join(HOSTILE)
NOW = 1_700_000_000.0


def rendered(**answers: object) -> str:
    said = Explanation(
        job_id=TEXT,
        type=TEXT,
        status="queued",
        standing=JobStanding.WAITING,
        at=NOW,
        text=TEXT,
        **answers,  # type: ignore[arg-type]
    )
    panel = next(it for it in PANELS if it.name == "why")
    parts = (
        templates().get_template("job_parts.html").make_module({"panels": [(panel, {"why": said})]})
    )
    return str(parts.first_panels())  # type: ignore[attr-defined]


def test_texts_of_others_stay_texts() -> None:
    holder = Holder(TEXT, TEXT, TEXT, TEXT, NOW)
    reason = Reason(kind=ReasonKind.FULL, text=TEXT, holders=(holder,), more=3)

    shown = rendered(
        reasons=(reason, reason),
        change=SmallestChange(kind=ChangeKind.SLOTS, text=TEXT, command=TEXT),
        starts_in=90.0,
        spans=(LifeSpan(SpanKind.QUEUED, 2.0, TEXT),),
    )

    own = {"section", "h2", "p", "strong", "ul", "li", "a", "span", "time", "code", "dl", "div"}
    assert set(re.findall(r"<([a-zA-Z!][a-z0-9]*)", shown)) <= own | {"dt", "dd"}
    assert "about 1 min 30 s" in shown
    assert "and 3 more" in shown
    assert shown.count("Then, as things are now:") == 1


def test_it_says_so_where_no_single_change_would_do() -> None:
    reason = Reason(kind=ReasonKind.FULL, text="full")

    assert "No single change would start it" in rendered(reasons=(reason,))
    assert "No single change" not in rendered()
