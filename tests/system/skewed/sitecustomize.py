"""Lets a test move a process's time of day: a file says by how many seconds, at any moment."""

import os
import time
from pathlib import Path

_true_time = time.time
_ahead = Path(os.environ["SHUNTER_TEST_CLOCK"])


def _moved_time() -> float:
    return _true_time() + float(_ahead.read_text())


time.time = _moved_time
