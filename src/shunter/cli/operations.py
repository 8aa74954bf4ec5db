"""Commands of those who operate a system: `rerun`, `pause`, `resume`, `drain`, `pauses`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from shunter.cli.options import (
    CodecAppOption,
    ConfigOption,
    DispatcherOption,
    JsonOption,
    WaitTimeoutOption,
    codec_of,
)
from shunter.settings_sources import load_settings


def rerun(
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ended jobs; else a filter.")
    ] = None,
    args: Annotated[
        str | None, typer.Option(metavar="JSON", help="Call them with this list of arguments.")
    ] = None,
    kwargs: Annotated[
        str | None, typer.Option(metavar="JSON", help="Call them with these named arguments.")
    ] = None,
    from_step: Annotated[
        str,
        typer.Option(
            "--from", metavar="STEP", help="Keep the steps that were kept before this one."
        ),
    ] = "",
    job_type: Annotated[str | None, typer.Option("--type", help="Jobs of this type.")] = None,
    status: Annotated[
        str | None, typer.Option(help="completed, failed or cancelled; else failed.")
    ] = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Jobs whose error contains this text.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Jobs submitted from then on: 90m, 24h, 7d, or a date.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Jobs submitted before then: 90m, 24h, 7d, or a date.")
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Jobs of this namespace.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With a filter: rerun them; else they are counted.")
    ] = False,
    app_spec: CodecAppOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Do ended jobs again, each as a new job: those named, or those that a filter finds."""
    from shunter.cli import reruns

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    wanted = reruns.RerunFilter(
        type=job_type, status=status, namespace=namespace, error=error, since=since, until=until
    )
    raise typer.Exit(
        reruns.rerun(
            loaded.settings,
            job_ids or [],
            wanted,
            reruns.new_arguments(args, kwargs),
            from_step=from_step,
            yes=yes,
            as_json=as_json,
            codec=codec_of(app_spec),
        )
    )


def signal(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job.")],
    name: Annotated[str, typer.Argument(help="What its handler waits for.")],
    value: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="The value; null if it is left out.")
    ] = None,
    signal_id: Annotated[
        str, typer.Option("--id", help="Of signals with one id, the first counts.")
    ] = "",
    app_spec: CodecAppOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Send a job a signal: its handler goes on, or will when it waits for it."""
    from shunter.cli import signals

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    codec = codec_of(app_spec)
    raise typer.Exit(
        signals.signal(loaded.settings, job_id, name, value, signal_id=signal_id, codec=codec)
    )


def pause(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of job.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until none of them runs.")] = False,
    wait_timeout: WaitTimeoutOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Start no more jobs of a type, on no dispatcher; those that run go on."""
    from shunter.cli import pause_orders

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    must_wait = wait or wait_timeout is not None
    raise typer.Exit(
        pause_orders.pause(loaded.settings, job_type, wait=must_wait, wait_timeout=wait_timeout)
    )


def resume(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of job.")],
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Start jobs of a paused type again."""
    from shunter.cli import pause_orders

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(pause_orders.resume(loaded.settings, job_type))


def drain(
    worker_id: Annotated[
        str | None, typer.Argument(metavar="[WORKER]", help="The worker's id; else --version.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="All workers whose app has this version.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they have no jobs.")] = False,
    wait_timeout: WaitTimeoutOption = None,
    undo: Annotated[bool, typer.Option("--undo", help="Give them jobs again.")] = False,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Give nothing new to a worker, or to all workers of a version; they finish what they have."""
    from shunter.cli import pause_orders

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(
        pause_orders.drain(
            loaded.settings,
            worker_id,
            version,
            undo=undo,
            wait=wait or wait_timeout is not None,
            wait_timeout=wait_timeout,
        )
    )


def pauses(
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what is held back: paused types, drained workers and versions."""
    from shunter.cli import pause_orders

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(pause_orders.pauses(loaded.settings, as_json=as_json))
