"""What somebody may have meant by a name that is not there. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

CLOSENESS = 0.65
MOST_COMPARED = 200
"""With so many names one is compared: others may choose the name, so it must stay cheap."""


def similar(name: str, known: Iterable[str]) -> str:
    """Return the known name that is spelt most like this one; nothing if none is."""
    some = sorted(islice((it for it in known if it != name), MOST_COMPARED))
    found = get_close_matches(name[:128], some, n=1, cutoff=CLOSENESS)
    return found[0] if found else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to put behind a message; nothing if there is none to ask."""
    found = similar(name, known)
    return f"; did you mean {found!r}?" if found else ""
