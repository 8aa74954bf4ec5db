"""What `make test` has a part of, and `make soak`, which sets SHUNTER_LONG, the whole."""

from __future__ import annotations

import os

IS_LONG = bool(os.environ.get("SHUNTER_LONG"))


def examples(count: int) -> int:
    """Return so many in a long run, else a fourth: each run has others, and there are many runs."""
    return count if IS_LONG else count // 4
