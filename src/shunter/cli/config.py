"""`shunter config`: every setting, its value and where that came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from shunter.cli.terminal import Terminal
from shunter.settings_sources import LoadedSettings, load_settings, shown, value_of


def show(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    as_json: bool = False,
    console: Terminal | None = None,
) -> int:
    """Print all settings as a table or as JSON, and return the exit code.

    Raises SettingsError where a source is wrong. Passwords are never printed.
    """
    console = console or Terminal()
    loaded = load_settings(path, environ, flags or {})
    if as_json:
        console.print_json(json.dumps(_rows(loaded)))
    else:
        console.print(_table(loaded))
    return 0


def _rows(loaded: LoadedSettings) -> list[dict[str, object]]:
    return [
        {"key": key, "value": json.loads(shown(value_of(loaded.settings, key))), "source": source}
        for key, source in loaded.sources.items()
    ]


def _table(loaded: LoadedSettings) -> Table:
    table = Table()
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("source", overflow="fold")
    for key, source in loaded.sources.items():
        style = "dim" if source == "default" else ""
        value = shown(value_of(loaded.settings, key))
        table.add_row(key, value, source, style=style)
    return table
