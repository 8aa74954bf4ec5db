"""`shunter doctor`: what is missing on this machine, and how to get it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from shunter.cli import addresses, libraries, machine
from shunter.cli.diagnosis import Finding, State, Surroundings
from shunter.cli.terminal import Terminal
from shunter.errors import SettingsError
from shunter.settings import Settings
from shunter.settings_sources import load_settings
from shunter.store.registry import driver_of, store_for

Check = Callable[[Surroundings], Finding | Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    machine.system,
    machine.python,
    machine.packages,
    machine.java,
    libraries.spark,
    libraries.extras,
    machine.sqlite,
    addresses.store,
    addresses.listening,
    machine.open_files,
    machine.shared_memory,
    machine.clock,
)

NO_STORE = 3
"""The exit code where there is no store to examine, as where no dispatcher answers."""

COLOURS = {State.OK: "green", State.WARN: "yellow", State.MISSING: "red"}


def run(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    as_json: bool = False,
    console: Terminal | None = None,
    checks: Iterable[Check] = CHECKS,
) -> int:
    """Examine this machine, print the findings, and return 1 if something needed is missing."""
    console = console or Terminal()
    findings = examine(path, environ, checks)
    if as_json:
        console.print_json(json.dumps(msgspec.to_builtins(findings)))
    else:
        console.print(_table(findings))
        console.print(_verdict(findings))
    return 1 if any(finding.state is State.MISSING for finding in findings) else 0


def run_on_store(
    url: str, *, repair: bool = False, as_json: bool = False, console: Terminal | None = None
) -> int:
    """Examine a store, or mend it; return 0 if it is well then, 1 if not, 3 if there is none."""
    console = console or Terminal()
    store_for(url)
    driver = driver_of(url)
    findings = list(driver.repair(url) if repair else driver.examine(url))
    if as_json:
        console.print_json(json.dumps(msgspec.to_builtins(findings)))
    else:
        console.print(_table(findings))
        console.print(_store_verdict(findings))
    last = {finding.name: finding.state for finding in findings}
    if last.get("file", last.get("server")) is State.MISSING:
        return NO_STORE
    return 1 if State.MISSING in last.values() else 0


def _store_verdict(findings: Iterable[Finding]) -> Text:
    wrong = [finding.name for finding in findings if finding.state is State.MISSING]
    if wrong:
        return Text(f"A dispatcher can't work on this store: {', '.join(wrong)}.", style="red")
    return Text("A dispatcher can work on this store.", style="green")


def examine(
    path: Path | None, environ: Mapping[str, str], checks: Iterable[Check] = CHECKS
) -> list[Finding]:
    """Return all findings; where the settings are wrong, the rest goes by the defaults."""
    findings, settings = [], Settings()
    try:
        settings = load_settings(path, environ, {}).settings
    except SettingsError as error:
        remedy = f"correct {error.key} in {error.source}"
        findings.append(Finding("settings", State.MISSING, str(error), remedy))
    else:
        findings.append(Finding("settings", State.OK, "can be read; see: shunter config"))
    surroundings = Surroundings(settings, environ)
    for check in checks:
        found = check(surroundings)
        findings += [found] if isinstance(found, Finding) else found
    return findings


def _table(findings: Iterable[Finding]) -> Table:
    table = Table("", "what", "found", "remedy")
    for finding in findings:
        state = Text(finding.state, style=COLOURS[finding.state])
        table.add_row(state, finding.name, finding.fact, finding.remedy)
    return table


def _verdict(findings: Iterable[Finding]) -> Text:
    missing = [finding.name for finding in findings if finding.state is State.MISSING]
    if missing:
        return Text(f"Something is missing: {', '.join(missing)}.", style="red")
    return Text("Nothing that is needed is missing.", style="green")
