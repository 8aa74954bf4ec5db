"""`shunter dispatcher`, and `up`, which has workers beside it."""

from __future__ import annotations

import asyncio
import os
import sys

import structlog
from msgspec import to_builtins

from shunter.app import load_app
from shunter.cli.processes import run_loop, run_until_signalled, set_up_logging
from shunter.cli.service_manager import keep_informed
from shunter.cli.worker_processes import WorkerProcesses
from shunter.gateway.service import Service
from shunter.page.routes import page_routes
from shunter.settings import Settings
from shunter.settings_sources import LoadedSettings
from shunter.store.registry import store_for


def dispatcher(settings: Settings) -> int:
    """Serve as a dispatcher until a signal comes."""
    set_up_logging()
    return run_loop(_dispatcher(settings))


async def _dispatcher(settings: Settings) -> int:
    service = Service(settings, store_for(settings.store.url), page=page_routes)
    informing = asyncio.create_task(keep_informed(service.ready, os.environ))
    try:
        return await run_until_signalled(lambda: service)
    finally:
        informing.cancel()


def up(loaded: LoadedSettings, *, app_spec: str | None, workers: int) -> int:
    """Serve as a dispatcher, with workers in processes of their own beside it."""
    if app_spec is not None:
        load_app(app_spec)
    return run_loop(_up(loaded, app_spec, workers if app_spec else 0))


async def _up(loaded: LoadedSettings, app_spec: str | None, workers: int) -> int:
    set_up_logging()
    settings = loaded.settings
    service = Service(settings, store_for(settings.store.url), page=page_routes)
    environ = {**os.environ, **_as_environment(settings)}
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(run_until_signalled(lambda: service))
        ready = group.create_task(service.ready.wait())
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        beside = WorkerProcesses(
            lambda: asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "shunter", "worker", "--app", str(app_spec)),
                *("--parent", str(os.getpid())),
                env=environ,
                start_new_session=True,
            )
        )
        if not serving.done():
            beside.keep(workers)
        if not workers:
            structlog.get_logger("shunter").info(
                "no workers of ours were started; name an app with --app", action="start"
            )
        service.before_stop = beside.stop  # they resign while the dispatcher still listens
    return 0


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
