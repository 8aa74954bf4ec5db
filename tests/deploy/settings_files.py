"""Settings that files under deploy/ name, loaded as a process would load them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shunter.settings import Settings
from shunter.settings_sources import load_settings

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy"


def dotted(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def loaded(text: str, environ: Mapping[str, str], folder: Path) -> Settings:
    """Load a settings file and an environment."""
    path = folder / "shunter.toml"
    path.write_text(text)
    return load_settings(path, environ, {}).settings
