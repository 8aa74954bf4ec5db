"""`shunter up`, `dispatcher` and `worker`: the processes that stay."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Protocol

import structlog
from msgspec import to_builtins

from shunter.app import load_app
from shunter.errors import SettingsError
from shunter.gateway.service import Service
from shunter.settings import Settings
from shunter.settings_sources import LoadedSettings, shown
from shunter.store.opening import store_for
from shunter.worker.crew import CrewSettings
from shunter.worker.host import Host, HostSettings
from shunter.worker.http.host import HttpHost, HttpHostSettings
from shunter.worker.procfs import die_with_parent


class _Runs(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


def dispatcher(settings: Settings) -> int:
    """Serve as a dispatcher until a signal comes."""
    set_up_logging()
    store = store_for(settings.store.url)
    return asyncio.run(run_until_signalled(lambda: Service(settings, store)))


def worker(
    settings: Settings, app_spec: str, *, http: bool = False, parent: int | None = None
) -> int:
    """Serve as a worker until a signal comes, then resign; die with `parent` if it is given."""
    if parent is not None:
        die_with_parent(parent)
    set_up_logging()
    app = load_app(app_spec)
    if http:
        by_http = http_host_settings(settings)
        return asyncio.run(run_until_signalled(lambda: HttpHost(app_spec, app, by_http)))
    chosen = host_settings(settings)
    return asyncio.run(run_until_signalled(lambda: Host(app_spec, app, chosen)))


def worker_flags(
    dispatchers: list[str] | None, max_jobs: int | None, *, http: bool, listen: str | None
) -> dict[str, object]:
    """Say which settings the flags of a worker stand for."""
    flags: dict[str, object] = {"worker.max_jobs": max_jobs}
    if listen is not None:
        host, colon, port = listen.rpartition(":")
        if not http or not colon:
            allowed = "host:port, such as 127.0.0.1:9000, beside --http"
            raise SettingsError("--listen", "worker.http.port", shown(listen), allowed)
        flags["worker.http.host"] = host.removeprefix("[").removesuffix("]")
        flags["worker.http.port"] = port
    flags["worker.http.dispatchers" if http else "worker.dispatchers"] = dispatchers
    return flags


def up(loaded: LoadedSettings, *, app_spec: str | None, workers: int) -> int:
    """Serve as a dispatcher, with workers in processes of their own beside it."""
    if app_spec is not None:
        load_app(app_spec)
    return asyncio.run(_up(loaded, app_spec, workers if app_spec else 0))


async def _up(loaded: LoadedSettings, app_spec: str | None, workers: int) -> int:
    set_up_logging()
    settings = loaded.settings
    service = Service(settings, store_for(settings.store.url))
    environ = {**os.environ, **_as_environment(settings)}
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(run_until_signalled(lambda: service))
        ready = group.create_task(service.ready.wait())
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        children = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "shunter", "worker", "--app", str(app_spec)),
                *("--parent", str(os.getpid())),
                env=environ,
                start_new_session=True,
            )
            for _ in range(workers if not serving.done() else 0)
        ]
        if not children:
            structlog.get_logger("shunter").info(
                "no workers of ours were started; name an app with --app", action="start"
            )
        service.before_stop = lambda: _end_all(children)
    return 0


async def _end_all(children: list[asyncio.subprocess.Process]) -> None:
    """Let workers resign while the dispatcher still listens."""
    for child in children:
        if child.returncode is None:
            child.send_signal(signal.SIGTERM)
    await asyncio.gather(*(child.wait() for child in children))


async def run_until_signalled(make: Callable[[], _Runs]) -> int:
    """Make what is to be served in the loop, and run it until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    served = make()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, served.stop)
    await served.run()
    return 0


def host_settings(settings: Settings) -> HostSettings:
    """Take from the settings what a worker goes by."""
    chosen = settings.worker
    return HostSettings(
        dispatchers=settings.worker_dispatchers,
        broker_timeout=chosen.broker_timeout,
        n_timeouts=chosen.n_timeouts,
        grace=chosen.grace_seconds,
        lease=settings.lease,
        crew=crew_settings(settings),
    )


def http_host_settings(settings: Settings) -> HttpHostSettings:
    """Take from the settings what a worker behind HTTP goes by."""
    chosen = settings.worker.http
    if not chosen.dispatchers and settings.http.port == 0:
        raise SettingsError(
            "the settings",
            "worker.http.dispatchers",
            "none, and http.port = 0, which tells no address",
            "--dispatcher http://host:port for each dispatcher",
        )
    return HttpHostSettings(
        dispatchers=settings.http_dispatchers,
        host=chosen.host,
        port=chosen.port,
        hostname=chosen.hostname,
        grace=settings.worker.grace_seconds,
        max_message_bytes=settings.zmq.max_message_bytes,
        crew=crew_settings(settings),
    )


def crew_settings(settings: Settings) -> CrewSettings:
    """Take from the settings what a crew goes by, whoever leads it."""
    chosen = settings.worker
    return CrewSettings(
        slots=chosen.max_jobs,
        grace=chosen.kill_grace_seconds,
        max_jobs_per_child=chosen.max_jobs_per_child or sys.maxsize,
        max_child_megabytes=chosen.max_child_megabytes or None,
        result_limit=settings.zmq.max_message_bytes,
    )


def _as_environment(settings: Settings) -> dict[str, str]:
    """Write what workers beside us need, so that they find this very dispatcher."""
    chosen = to_builtins(settings.worker)
    chosen["dispatchers"] = list(settings.worker_dispatchers)
    del chosen["http"]
    environ = {}
    for section, values in (("WORKER", chosen), ("LEASE", to_builtins(settings.lease))):
        for key, value in values.items():
            text = str(value).replace("'", '"') if isinstance(value, list) else str(value)
            environ[f"SHUNTER__{section}__{key.upper()}"] = text
    return environ


def set_up_logging() -> None:
    """Log to standard error: for people on a terminal, as JSON lines elsewhere."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
