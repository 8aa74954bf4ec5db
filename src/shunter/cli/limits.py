"""`shunter limits` and `shunter limits set`: how many jobs of a type may run, who holds what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from shunter.model.limits_record import TypeLimits
from shunter.settings_sources import load_settings

app = typer.Typer(
    name="limits",
    help="Show how many jobs of a type may run at once or start in a while, and who holds what.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file; ./shunter.toml is used where there is one."),
]
DispatcherOption = Annotated[
    list[str] | None,
    typer.Option("--dispatcher", help="Where a dispatcher listens for us; may be repeated."),
]

MOST_SHOWN = 20
"""How many keys of one type are listed for people."""


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the limits of all types, and who holds what."""
    if context.invoked_subcommand is None:
        from shunter.cli.job_listings import client_of

        loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
        with client_of(loaded.settings) as client:
            _print(client.limits.list(), as_json=as_json)


@app.command("set")
def change(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of jobs.")],
    limit: Annotated[
        int | None, typer.Option(help="How many run at once: for each key, or in all without one.")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="KEY", help="By which key.")] = None,
    total: Annotated[int | None, typer.Option(help="How many run at once in all.")] = None,
    rate: Annotated[int | None, typer.Option(help="How many start in --per seconds.")] = None,
    per: Annotated[float | None, typer.Option(help="Seconds, with --rate.")] = None,
    fair: Annotated[
        str | None, typer.Option(metavar="KEY", help="By which key waiting jobs take turns.")
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Go back to what the app declares.")
    ] = False,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the limits of a type for all dispatchers, also while its jobs run.

    What is not named stays as it is; 0 takes a limit away.
    """
    from shunter.cli.job_listings import client_of
    from shunter.cli.unserved import note_if_unserved

    wanted: dict[str, Any] = {
        "limit": limit,
        "by": by,
        "total": total,
        "rate": rate,
        "per": per,
        "fair": fair,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if default == bool(wanted):
        raise typer.BadParameter("say what to change, or --default alone")
    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    with client_of(loaded.settings) as client:
        limits = client.limits
        changed = limits.reset(job_type) if default else limits.set(job_type, **wanted)
        _print([changed], as_json=as_json)
        if not default and not as_json:
            note_if_unserved(client, job_type)


def _print(types: list[TypeLimits], *, as_json: bool) -> None:
    from shunter.cli.terminal import Terminal, json_line

    console = Terminal()
    if as_json:
        console.print_json(json_line([it.as_dict() for it in types]))
        return
    if not types:
        console.print("no type is limited")
        return
    table = Table("type", "limits", "key", "running", "waiting", box=box.SIMPLE_HEAD)
    for it in types:
        shown = it.limits.text + (" (changed)" if it.is_changed else "")
        table.add_row(it.type, shown, "", "", "")
        for lane in it.lanes[:MOST_SHOWN]:
            table.add_row("", "", lane.lane or "(all)", f"{lane.running:,}", f"{lane.waiting:,}")
        if len(it.lanes) > MOST_SHOWN:
            table.add_row("", "", f"{len(it.lanes) - MOST_SHOWN:,} more", "", "")
    console.print(table)
