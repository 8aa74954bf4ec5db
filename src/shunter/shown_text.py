"""Text that others wrote, made fit for a terminal: what would steer it is shown, never sent.

A log line, an error, a name or a result may hold escape sequences that write to the clipboard,
clear the screen or hide what stands there, and characters that turn the direction of text round.
All of them begin with one of a few characters, and those are replaced by their escapes.
Pure: it knows no terminal. `cli/terminal.py` applies it to all that commands print.
"""

from __future__ import annotations

import re

_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f"  # C0 without tab and newline
    r"\x7f-\x9f"  # DEL and C1, among them the one-character form of ESC [
    r"\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides and isolates
    r"\ud800-\udfff]"  # bytes that were no UTF-8; some locales would send them as they were
)


def shown(text: str) -> str:
    """Return a text with its control characters as escapes, such as \\x1b; CR LF is a newline."""
    return _STEERING.sub(_escape, text.replace("\r\n", "\n"))


def shown_json(document: str) -> str:
    """Return a JSON document with the same value, and no control character in its strings."""
    return _STEERING.sub(_json_escape, document)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
