"""`shunter worker`: over ZeroMQ, or called over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shunter.app import load_app
from shunter.cli.processes import run_loop, run_until_signalled, set_up_logging
from shunter.errors import SettingsError
from shunter.key_file import KeyFile, read_caller_key
from shunter.model.key import Role
from shunter.net.tls import CallerFiles, ServerFiles
from shunter.settings import Settings
from shunter.settings_sources import shown
from shunter.worker.pool.process_pool import PoolSettings
from shunter.worker.procfs import die_with_parent
from shunter.worker.zmq.zmq_worker import ZmqWorker, ZmqWorkerSettings

if TYPE_CHECKING:
    from shunter.worker.http.host import HttpHostSettings


def worker(
    settings: Settings,
    app_spec: str,
    *,
    http: bool = False,
    types: str | None = None,
    parent: int | None = None,
) -> int:
    """Serve as a worker until a signal comes, then resign; die with `parent` if it is given."""
    if parent is not None:
        die_with_parent(parent)
    set_up_logging()
    app = load_app(app_spec)
    if types is not None:
        app = app.only(types_in(types))
    if http:
        from shunter.worker.http.host import HttpHost

        by_http = http_host_settings(settings)
        return run_loop(run_until_signalled(lambda: HttpHost(app_spec, app, by_http)))
    chosen = host_settings(settings)
    return run_loop(run_until_signalled(lambda: ZmqWorker(app_spec, app, chosen)))


def types_in(text: str) -> list[str]:
    """Read `--types a,b`, or raise a SettingsError."""
    types = [word.strip() for word in text.split(",") if word.strip()]
    if not types:
        raise SettingsError("the command line", "--types", repr(text), "types of job: a,b")
    return types


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


def host_settings(settings: Settings) -> ZmqWorkerSettings:
    """Take from the settings what a worker goes by."""
    chosen = settings.worker
    return ZmqWorkerSettings(
        dispatchers=settings.worker_dispatchers,
        broker_timeout=chosen.broker_timeout,
        n_timeouts=chosen.n_timeouts,
        grace=chosen.grace_seconds,
        lease=settings.lease,
        key=key_of(settings),
        pool=pool_settings(settings),
    )


def key_of(settings: Settings) -> KeyFile | None:
    """Read the key that a worker shows, if it has one."""
    path = settings.auth.key_file
    return read_caller_key(path, Role.WORKER) if path else None


def http_host_settings(settings: Settings) -> HttpHostSettings:
    """Take from the settings what a worker behind HTTP goes by."""
    from shunter.worker.http.host import HttpHostSettings

    chosen, auth = settings.worker.http, settings.auth
    tls = (
        ServerFiles(
            section="worker.http",
            certificate=chosen.tls_certificate,
            key=chosen.tls_key,
            client_ca=chosen.tls_client_ca,
        )
        if chosen.tls_certificate
        else None
    )
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
        insecure=chosen.insecure,
        grace=settings.worker.grace_seconds,
        max_message_bytes=settings.zmq.max_message_bytes,
        pool=pool_settings(settings),
        key=key_of(settings),
        tls=tls,
        trusted=CallerFiles(ca=auth.ca_file, certificate=auth.tls_certificate, key=auth.tls_key),
    )


def pool_settings(settings: Settings) -> PoolSettings:
    """Take from the settings what a pool goes by, whoever leads it."""
    chosen = settings.worker
    return PoolSettings(
        slots=chosen.max_jobs,
        grace=chosen.kill_grace_seconds,
        max_jobs_per_child=chosen.max_jobs_per_child or sys.maxsize,
        max_child_megabytes=chosen.max_child_megabytes or None,
        max_block=chosen.max_block_seconds,
        result_limit=settings.zmq.max_message_bytes,
    )
