"""What tests ask of a tab of the browser."""

from __future__ import annotations

from typing import Any


def is_live(tab: Any) -> None:
    """Wait until what the tab shows is kept up to date."""
    tab.locator("#state.live").wait_for()
