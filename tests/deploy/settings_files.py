"""Settings that files under deploy/ name, loaded as a process would load them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shunter.settings import Settings, all_settings
from shunter.settings_sources import load_settings

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy"

AWAITED = {"http.tls_certificate", "http.tls_key"}
"""Settings that are designed and not there yet. Empty this set when they are."""


def dotted(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def loaded(text: str, environ: Mapping[str, str], folder: Path) -> Settings:
    """Load a settings file and an environment, without what is still awaited."""
    known = {setting.key for setting in all_settings()}
    named = dict(dotted(tomllib.loads(text)))
    assert AWAITED & known == set(), "these are there now: take them out of AWAITED"
    kept = {key: value for key, value in named.items() if key not in AWAITED}
    path = folder / "shunter.toml"
    path.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in kept.items()))
    variables = {
        name: value
        for name, value in environ.items()
        if name.removeprefix("SHUNTER__").lower().replace("__", ".") not in AWAITED
    }
    return load_settings(path, variables, {}).settings


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
