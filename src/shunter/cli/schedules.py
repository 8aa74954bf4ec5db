"""`shunter schedule ls|put|pause|resume|trigger|backfill|rm`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.model.schedule import DEFAULT_CATCH_UP_SECONDS, Overlap
from shunter.settings_sources import load_settings

if TYPE_CHECKING:
    from shunter.cli.schedule_administration import ScheduleAdministration

app = typer.Typer(
    name="schedule",
    help="Have jobs made again and again, by the calendar or at a fixed interval.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
NamespaceOption = Annotated[
    str | None, typer.Option(help="Whose schedule; for operators, who see all.")
]
DispatcherOption = Annotated[
    list[str] | None,
    typer.Option("--dispatcher", help="Where a dispatcher listens for us; may be repeated."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file; ./shunter.toml is used where there is one."),
]


def _administration(
    dispatchers: list[str] | None,
    config_file: Path | None,
    namespace: str | None,
    *,
    as_json: bool,
) -> ScheduleAdministration:
    from shunter.cli.schedule_administration import ScheduleAdministration

    flags = {"client.dispatchers": dispatchers}
    settings = load_settings(config_file, os.environ, flags).settings
    return ScheduleAdministration(settings, namespace, as_json=as_json)


@app.command("ls")
def list_schedules(
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List schedules: when, what, and how the last tick went."""
    _administration(dispatchers, config_file, namespace, as_json=as_json).show_all()


@app.command()
def put(
    name: NameArgument,
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of its jobs.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Arguments: JSON or plain text; name=value for a named one."),
    ] = None,
    cron: Annotated[
        str | None, typer.Option(help="By the calendar: minute hour day month weekday.")
    ] = None,
    tz: Annotated[str, typer.Option(help="With --cron: the zone of its clock.")] = "UTC",
    every: Annotated[float | None, typer.Option(help="The interval in seconds.")] = None,
    overlap: Annotated[
        Overlap, typer.Option(help="What to do while an earlier job is unfinished.")
    ] = Overlap.SKIP,
    catch_up: Annotated[
        float, typer.Option(help="After an outage, make up for ticks of this many seconds.")
    ] = DEFAULT_CATCH_UP_SECONDS,
    jitter: Annotated[float, typer.Option(help="Come up to this many seconds later.")] = 0.0,
    paused: Annotated[
        bool | None, typer.Option("--paused/--running", help="Paused or not; else as it was.")
    ] = None,
    payload: Annotated[str | None, typer.Option(help="The payload as JSON instead.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds a job may run.")] = None,
    retries: Annotated[int | None, typer.Option(help="How often to try again.")] = None,
    app_spec: Annotated[
        str | None,
        typer.Option("--app", help="The app whose codec encrypts the jobs: module:app or a file."),
    ] = None,
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a schedule, or change the one of that name."""
    from shunter.cli.job_submission import options_from, payload_from
    from shunter.cli.schedule_administration import timing_from
    from shunter.client.schedules import PutOptions

    options = PutOptions(
        schedule=timing_from(cron, tz, every),
        overlap=overlap,
        catch_up=catch_up,
        jitter=jitter,
        paused=paused,
    )
    _administration(dispatchers, config_file, namespace, as_json=as_json).put(
        name,
        job_type,
        payload_from(arguments or [], payload),
        options,
        options_from(priority=priority, timeout=timeout, retries=retries),
        app_spec,
    )


@app.command()
def pause(
    name: NameArgument,
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make no more jobs; those that were made go on."""
    _administration(dispatchers, config_file, namespace, as_json=as_json).pause(name)


@app.command()
def resume(
    name: NameArgument,
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with the next tick; those of the pause are left out."""
    _administration(dispatchers, config_file, namespace, as_json=as_json).resume(name)


@app.command()
def trigger(
    name: NameArgument,
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a job now, and print its id."""
    _administration(dispatchers, config_file, namespace, as_json=as_json).trigger(name)


@app.command()
def backfill(
    name: NameArgument,
    begin: Annotated[
        str, typer.Option("--from", help="The first tick: 2026-03-01, or with a time and a zone.")
    ],
    end: Annotated[str, typer.Option("--to", help="Before which to end, likewise.")],
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the jobs of past ticks that are not there, and print their ids.

    Times without a zone are UTC.
    """
    administration = _administration(dispatchers, config_file, namespace, as_json=as_json)
    administration.backfill(name, begin, end)


@app.command("rm")
def remove(
    name: NameArgument,
    namespace: NamespaceOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a schedule; jobs that it has made go on."""
    _administration(dispatchers, config_file, namespace, as_json=as_json).remove(name)
