"""The form by which people change the limits of a type. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from shunter.model.limits_record import LimitsChange
from shunter.wire.tagged_values import BadDocument


def limits_change(fields: Mapping[str, str]) -> LimitsChange:
    """Read what is to be changed; an empty field leaves its part as it is."""
    per = fields.get("per", "").strip()
    return LimitsChange(
        limit=_number(fields, "limit"),
        by=fields.get("by", "").strip() or None,
        total=_number(fields, "total"),
        rate=_number(fields, "rate"),
        per=_seconds(per) if per else None,
        fair=fields.get("fair", "").strip() or None,
    )


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadDocument(name, f"found {text[:32]!r}; write a whole number, 0 for no limit")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadDocument("per", f"found {text[:32]!r}; write a number of seconds") from None
