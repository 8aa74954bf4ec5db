"""`shunter calculator` and `shunter submit --via udp`: the peers of the UDP dialogue."""

from __future__ import annotations

from typing import Any

from shunter.app import load_app
from shunter.cli.job_listings import ANSWER_SECONDS
from shunter.cli.processes import run_loop, run_until_signalled, set_up_logging
from shunter.cli.terminal import Terminal, json_line
from shunter.cli.worker_process import pool_settings
from shunter.client import UdpClient
from shunter.client.udp_client import task_value
from shunter.codec import Codec
from shunter.errors import AppError, JobFailed, SettingsError
from shunter.secret_file import udp_key_of
from shunter.settings import Settings
from shunter.settings_sources import shown
from shunter.wire.udp.methods import Packed
from shunter.worker.procfs import die_with_parent
from shunter.worker.udp.calculator import Calculator, CalculatorSettings

HEARTBEAT_SECONDS = 1.0
HEARTBEATS_PER_TIMEOUT = 5
"""So many may get lost before a dispatcher takes a calculator for gone."""

NOT_OVER_UDP = {
    "timeout": "--timeout",
    "retry": "--retries",
    "delay": "--delay",
    "expires_in": "--expires-in",
    "unique_key": "--unique-key",
    "unique": "--unique-key",
    "effects": "--at-most-once",
    "callback": "--callback",
    "keys": "--key",
}
"""What the dialogue has no word for, by the names of options and flags."""


def address_flags(dispatchers: list[str] | None) -> dict[str, object]:
    """Say which settings `--dispatcher HOST:PORT` stands for."""
    if not dispatchers:
        return {}
    host, colon, port = dispatchers[-1].rpartition(":")
    if len(dispatchers) > 1 or not colon or "/" in host:
        allowed = "one host:port over UDP, such as 127.0.0.1:5555"
        raise SettingsError(
            "--dispatcher", "udp.client_address", shown(" ".join(dispatchers)), allowed
        )
    host = host.removeprefix("[").removesuffix("]")
    return {"udp.client_address.host": host, "udp.client_address.port": port}


def calculator(settings: Settings, app_spec: str, *, parent: int | None = None) -> int:
    """Serve as calculators until a signal comes, then leave; die with `parent` if it is given."""
    if parent is not None:
        die_with_parent(parent)
    set_up_logging()
    app = load_app(app_spec)
    chosen = calculator_settings(settings)
    return run_loop(run_until_signalled(lambda: Calculator(app_spec, app, chosen)))


def calculator_settings(settings: Settings) -> CalculatorSettings:
    """Take from the settings what a calculator goes by."""
    return CalculatorSettings(
        dispatcher=_dispatcher(settings),
        heartbeat=min(HEARTBEAT_SECONDS, settings.udp.heartbeat_timeout / HEARTBEATS_PER_TIMEOUT),
        grace=settings.worker.grace_seconds,
        max_packet_bytes=settings.udp.max_packet_bytes,
        key=udp_key_of(settings),
        pool=pool_settings(settings),
    )


def submit(
    settings: Settings,
    job_type: str,
    payload: bytes,
    options: dict[str, Any],
    *,
    wait: bool,
    wait_timeout: float | None,
    as_json: bool,
    codec: Codec | None = None,
) -> int:
    """Add a task, wait if asked to, print; return the exit code."""
    if unknown := [NOT_OVER_UDP[name] for name in options if name in NOT_OVER_UDP]:
        flags = ", ".join(unknown)
        raise AppError(f"{flags} can't be said over UDP; leave it out, or leave out --via udp")
    out, err = Terminal(soft_wrap=True), Terminal(stderr=True)
    key = udp_key_of(settings)
    with UdpClient(
        _dispatcher(settings),
        None if key is None else key.secret,
        key="" if key is None else key.name,
        timeout=ANSWER_SECONDS,
        max_packet_bytes=settings.udp.max_packet_bytes,
        codec=codec,
    ) as client:
        task = client.add_task(job_type, Packed(payload), **options)
        if not wait:
            out.print(json_line({"id": task.id}) if as_json else task.id)
            return 0
        outcome = task.wait(wait_timeout)
        try:
            value = task_value(outcome)
        except JobFailed as error:
            if as_json:
                found = {"kind": error.kind, "message": error.message}
                document = {"id": task.id, "status": outcome.status.word, "error": found}
                out.print(json_line(document))
            else:
                err.print(str(error), style="red")
            return 1
        document = {"id": task.id, "status": outcome.status.word, "result": value}
        if as_json:
            out.print(json_line(document), highlight=False)
        else:
            out.print_result(value if isinstance(value, str) else json_line(value))
        return 0


def _dispatcher(settings: Settings) -> tuple[str, int]:
    host, port = settings.udp_dispatcher
    if port == 0:
        raise SettingsError(
            "the settings",
            "udp.client_address.port",
            "0, which tells no address",
            "--dispatcher host:port of the dispatcher",
        )
    return host, port
