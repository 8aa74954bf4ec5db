"""The `shunter` command: what people type, and which module answers.

Each command imports what it needs when it is called: `shunter jobs` should not wait for a web
server and three databases to be read from disk.

Exit codes: 0 all went well; 1 a job or the run of a flow failed, a job was cancelled, or something
needed is missing; 2 the command, a setting, an app or a flow is wrong; 3 no dispatcher answers;
4 the wait was over before the job, or it waits; 5 it waits for somebody to do something.
"""

from __future__ import annotations

import os
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer
from rich.text import Text

from shunter import __version__
from shunter.cli import flows, keys, limits, operations, schedules, workflows
from shunter.cli.options import (
    AppOption,
    CodecAppOption,
    ConfigOption,
    DispatcherOption,
    JsonOption,
    SlotsOption,
    StoreOption,
    UdpDispatcherOption,
    codec_of,
)
from shunter.cli.terminal import Terminal
from shunter.errors import (
    AppError,
    FlowError,
    FlowFailed,
    JobRefused,
    KeyRefused,
    LimitsRefused,
    PauseRefused,
    ResultTimeout,
    ScheduleRefused,
    SettingsError,
    ShunterError,
    Unreachable,
)
from shunter.model.redaction import redacted
from shunter.settings_sources import load_settings
from shunter.shown_text import shown

app = typer.Typer(
    name="shunter",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"shunter {__version__}")
        raise typer.Exit


@app.callback()
def shunter(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Gets jobs to workers and events to stages."""


class Protocol(StrEnum):
    """How `submit` talks to a dispatcher."""

    ZMQ = "zmq"
    UDP = "udp"


class ReportsOn(StrEnum):
    """What the report's flow runs on."""

    SPARK = "spark"
    LOCAL = "local"


EXIT_CODES: list[tuple[type[ShunterError], int]] = [
    (Unreachable, 3),
    (ResultTimeout, 4),
    (SettingsError, 2),
    (AppError, 2),
    (FlowFailed, 1),
    (FlowError, 2),
    (JobRefused, 2),
    (KeyRefused, 2),
    (LimitsRefused, 2),
    (PauseRefused, 2),
    (ScheduleRefused, 2),
    (ShunterError, 1),
]


@app.command()
def up(
    app_spec: AppOption = None,
    workers: Annotated[int, typer.Option(min=0, help="How many worker processes.")] = 1,
    max_jobs: SlotsOption = None,
    store: StoreOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Run a dispatcher and workers here, with the embedded store."""
    from shunter.cli import dispatcher_process

    flags = {"worker.max_jobs": max_jobs, "store.url": store}
    loaded = load_settings(config_file, os.environ, flags)
    raise typer.Exit(dispatcher_process.up(loaded, app_spec=app_spec, workers=workers))


@app.command()
def dispatcher(
    config_file: ConfigOption = None,
    store: StoreOption = None,
    frontend: Annotated[str | None, typer.Option(help="Where clients connect.")] = None,
    backend: Annotated[str | None, typer.Option(help="Where workers connect.")] = None,
    http_host: Annotated[str | None, typer.Option(help="Where HTTP listens.")] = None,
    http_port: Annotated[int | None, typer.Option(help="Where HTTP listens.")] = None,
) -> None:
    """Run a dispatcher."""
    from shunter.cli import dispatcher_process

    flags = {
        "store.url": store,
        "zmq.frontend": frontend,
        "zmq.backend": backend,
        "http.host": http_host,
        "http.port": http_port,
    }
    loaded = load_settings(config_file, os.environ, flags)
    raise typer.Exit(dispatcher_process.dispatcher(loaded.settings))


@app.command()
def worker(
    app_spec: AppOption = None,
    flows_folder: Annotated[
        Path | None,
        typer.Option(
            "--flows", metavar="FOLDER", help="Run the flows in there, in place of an app."
        ),
    ] = None,
    dispatchers: DispatcherOption = None,
    max_jobs: SlotsOption = None,
    types: Annotated[
        str | None, typer.Option(metavar="A,B", help="Serve only these of the app's types.")
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Be called over HTTP; --dispatcher is then http://...")
    ] = False,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="With --http: where to be called.")
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
    config_file: ConfigOption = None,
) -> None:
    """Run a worker that does the jobs of an app, or runs flows."""
    from shunter.cli import worker_process

    app_spec = flows.app_or_flows(app_spec, flows_folder)
    flags = worker_process.worker_flags(dispatchers, max_jobs, http=http, listen=listen)
    loaded = load_settings(config_file, os.environ, flags)
    flows.allow_masters(loaded.settings.worker.spark_masters)
    raise typer.Exit(
        worker_process.worker(loaded.settings, app_spec, http=http, types=types, parent=parent)
    )


@app.command()
def calculator(
    app_spec: Annotated[
        str, typer.Option("--app", help="Where the handlers are: module:app or file.py:app.")
    ],
    dispatchers: UdpDispatcherOption = None,
    max_jobs: SlotsOption = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
    config_file: ConfigOption = None,
) -> None:
    """Run a worker over UDP: a calculator for each slot."""
    from shunter.cli import by_udp

    flags = {"worker.max_jobs": max_jobs, **by_udp.address_flags(dispatchers)}
    loaded = load_settings(config_file, os.environ, flags)
    raise typer.Exit(by_udp.calculator(loaded.settings, app_spec, parent=parent))


@app.command()
def submit(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of the job.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Arguments: JSON or plain text; name=value for a named one."),
    ] = None,
    payload: Annotated[str | None, typer.Option(help="The payload as JSON instead.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds the job may run.")] = None,
    retries: Annotated[int | None, typer.Option(help="How often to try again.")] = None,
    delay: Annotated[float | None, typer.Option(help="Seconds to wait before it starts.")] = None,
    expires_in: Annotated[
        float | None, typer.Option(help="Seconds in which a worker must have taken it.")
    ] = None,
    unique_key: Annotated[
        str | None, typer.Option(help="The same key and payload is the same job.")
    ] = None,
    unique_within: Annotated[
        float | None, typer.Option(help="Seconds for which the key is kept in any case.")
    ] = None,
    unique_during: Annotated[
        str | None, typer.Option(help="Keep the key while queued, or until done running.")
    ] = None,
    unique_then: Annotated[
        str | None, typer.Option(help="Keep, replace or postpone the job that has the key.")
    ] = None,
    at_most_once: Annotated[
        bool, typer.Option("--at-most-once", help="Never run it again after a loss.")
    ] = False,
    callback: Annotated[
        str | None, typer.Option(metavar="URL", help="Have it called when the job has ended.")
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="NAME=VALUE", help="Whose job it is, for limits."),
    ] = None,
    via: Annotated[
        Protocol, typer.Option(help="How to get there; over udp, --dispatcher is HOST:PORT.")
    ] = Protocol.ZMQ,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result.")] = False,
    wait_timeout: Annotated[
        float | None, typer.Option(help="Wait at most this many seconds.")
    ] = None,
    app_spec: Annotated[
        str | None,
        typer.Option("--app", help="The app whose codec encrypts the job: module:app or a file."),
    ] = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a job, and wait for it if you like."""
    from shunter.cli import by_udp, job_submission

    is_udp = via is Protocol.UDP
    flags = by_udp.address_flags(dispatchers) if is_udp else {"client.dispatchers": dispatchers}
    loaded = load_settings(config_file, os.environ, flags)
    document = job_submission.payload_from(arguments or [], payload)
    options = job_submission.options_from(
        priority=priority,
        timeout=timeout,
        retries=retries,
        delay=delay,
        expires_in=expires_in,
        unique_key=unique_key,
        unique=(unique_within, unique_during, unique_then),
        effects="at_most_once" if at_most_once else None,
        callback=callback,
        keys=job_submission.keys_from(keys),
    )
    must_wait = wait or wait_timeout is not None
    codec = codec_of(app_spec)
    if is_udp:
        raise typer.Exit(
            by_udp.submit(
                loaded.settings,
                job_type,
                document,
                options,
                wait=must_wait,
                wait_timeout=wait_timeout,
                as_json=as_json,
                codec=codec,
            )
        )
    raise typer.Exit(
        job_submission.submit(
            loaded.settings,
            job_type,
            document,
            options,
            wait=must_wait,
            wait_timeout=wait_timeout,
            as_json=as_json,
            codec=codec,
        )
    )


@app.command()
def jobs(
    status: Annotated[
        str | None, typer.Option(help="queued, dispatching, in-progress, completed, ...")
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this type.")] = None,
    worker_id: Annotated[str | None, typer.Option("--worker", help="Only this worker's.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Only this namespace's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 20,
    before: Annotated[str | None, typer.Option(help="Go on after this id.")] = None,
    app_spec: CodecAppOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, newest first, and count them."""
    from shunter.cli import job_listings

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(
        job_listings.jobs(
            loaded.settings,
            status=status,
            job_type=job_type,
            worker_id=worker_id,
            namespace=namespace,
            limit=limit,
            before=before,
            as_json=as_json,
            codec=codec_of(app_spec),
        )
    )


@app.command()
def job(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Print its log until it has ended.")
    ] = False,
    app_spec: CodecAppOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell a job's whole story: who, when, attempts, log.

    With --follow, print its log as it grows until the job has ended; then exit with 0 if it has
    completed, and with 1 if it failed or was cancelled.
    """
    from shunter.cli import job_listings

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    codec = codec_of(app_spec)
    if is_followed and as_json:
        raise SettingsError("the command line", "--follow", "--json beside it", "one of the two")
    if is_followed:
        raise typer.Exit(job_listings.follow(loaded.settings, job_id, codec=codec))
    raise typer.Exit(job_listings.job(loaded.settings, job_id, as_json=as_json, codec=codec))


@app.command()
def why(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a job does not run, and what would start it; or where its time went.

    Exits with 0 if it runs, is about to or has ended, with 4 if it waits for what passes by itself,
    and with 5 if it waits until somebody does something.
    """
    from shunter.cli import explanation

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(explanation.why(loaded.settings, job_id, as_json=as_json))


@app.command()
def cancel(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop jobs: waiting ones at once, running ones by request, SIGTERM, SIGKILL."""
    from shunter.cli import job_listings

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(job_listings.cancel(loaded.settings, job_ids, as_json=as_json))


app.command()(workflows.workflow)
app.command()(operations.rerun)
app.command()(operations.signal)
app.command()(operations.pause)
app.command()(operations.resume)
app.command()(operations.drain)
app.command()(operations.pauses)


@app.command()
def workers(
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List workers, what they do and what they hold."""
    from shunter.cli import job_listings

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    raise typer.Exit(job_listings.workers(loaded.settings, as_json=as_json))


app.add_typer(flows.app)
app.add_typer(schedules.app)
app.add_typer(keys.app)
app.add_typer(limits.app)
app.command()(keys.audit)
app.command()(flows.engine)


@app.command()
def report(
    store: Annotated[
        str | None, typer.Option("--store", help="Where jobs are kept: a URL; else store.url.")
    ] = None,
    since: Annotated[
        str, typer.Option(help="Jobs that ended from then on: 90m, 24h, 7d, or a date.")
    ] = "24h",
    output: Annotated[
        Path | None, typer.Option(help="Where the page goes; report.html, if nothing is said.")
    ] = None,
    on: Annotated[ReportsOn, typer.Option(help="On Spark, or in this process.")] = ReportsOn.SPARK,
    master: Annotated[
        str | None, typer.Option(help="Spark's master: spark://HOST:PORT; else Spark runs here.")
    ] = None,
    config_file: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; a page only where --output names one.")
    ] = False,
) -> None:
    """Write a page about finished jobs: throughput, times, failures, workers' use."""
    from shunter.cli import history_report

    loaded = load_settings(config_file, os.environ, {"store.url": store})
    history_report.report(
        loaded.settings,
        since=since,
        output=output,
        is_on_spark=on is ReportsOn.SPARK,
        master=master,
        as_json=as_json,
    )


@app.command("config")
def show_config(config_file: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print every setting, its value, and where it came from."""
    from shunter.cli import config

    raise typer.Exit(config.show(config_file, environ=os.environ, as_json=as_json))


@app.command("doctor")
def examine(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="With --store: which; else store.url.")
    ] = None,
    store: Annotated[
        bool, typer.Option("--store", help="Check the store, all of it, and nothing else.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="With --store: mend it. Its dispatchers must be stopped."),
    ] = False,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check this machine for what is missing, or a store for damage; say what to do about it.

    Exit codes: 0 if all is well or was mended, 1 if not; with --store 3 if there is no store.
    """
    from shunter.cli import doctor

    if store:
        settings = load_settings(config_file, os.environ, {"store.url": url}).settings
        raise typer.Exit(doctor.run_on_store(settings.store.url, repair=repair, as_json=as_json))
    if url or repair:
        raise SettingsError("the command", "doctor", "a URL or --repair alone", "both with --store")
    raise typer.Exit(doctor.run(config_file, environ=os.environ, as_json=as_json))


def main() -> None:
    """Run the command; an error of ours is one line and an exit code, not a traceback."""
    sys.excepthook = _print_traceback
    try:
        app()
    except (ShunterError, BaseExceptionGroup) as failure:
        error = _ours(failure)
        if error is None:
            raise
        name = Text("shunter:", style="red")
        Terminal(stderr=True).print(name, redacted(str(error)), soft_wrap=True)
        sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))


def _ours(failure: BaseException) -> ShunterError | None:
    """Return our error, also out of the group that tasks put it in."""
    if isinstance(failure, BaseExceptionGroup):
        return next(filter(None, map(_ours, failure.exceptions)), None)
    return failure if isinstance(failure, ShunterError) else None


def _print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an error that is not ours; its message, too, may be somebody else's text."""
    sys.stderr.write(shown(redacted("".join(traceback.format_exception(kind, error, trace)))))


if __name__ == "__main__":
    main()
