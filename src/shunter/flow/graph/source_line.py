"""Where in the user's own code something was written. Pure but for a look at the stack."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def users_line() -> SourceLine:
    """Return the nearest line on the stack that is not Shunter's own."""
    frame = _users_frame()
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


def users_module() -> str:
    """Return the name of the module which that line is in."""
    return str(_users_frame().f_globals.get("__name__", ""))


def is_ours(module: str) -> bool:
    """True if a module is a part of Shunter."""
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


def _users_frame() -> FrameType:
    frame = sys._getframe(1)
    while is_ours(str(frame.f_globals.get("__name__", ""))) and frame.f_back is not None:
        frame = frame.f_back
    return frame
