"""What a dispatcher takes from the settings: its rules, keys and certificates, and what it refuses.

Reads the files that settings name, and nothing else.
"""

from __future__ import annotations

from shunter.dispatch.intake import IntakeRules
from shunter.dispatch.rules import CALLBACK_FACTOR, CallbackRules, Rules
from shunter.errors import SettingsError
from shunter.gateway.key_list import KeyList
from shunter.gateway.udp.gateway import UdpRules
from shunter.key_file import read_key_file
from shunter.model.allowed_hosts import allowed_hosts
from shunter.model.health import HealthRules
from shunter.model.key import Role
from shunter.model.retry import Retry
from shunter.net.exposure import check_exposure
from shunter.net.tls import CallerFiles, ServerFiles
from shunter.settings import AuthSettings, HttpSettings, Settings
from shunter.wire.udp import job_names


def udp_rules_of(settings: Settings) -> UdpRules:
    """Take from the settings what the UDP gateway goes by."""
    udp = settings.udp
    return UdpRules(
        confirm_timeout=udp.confirm_timeout,
        heartbeat_timeout=udp.heartbeat_timeout,
        timeout_task_placement=udp.timeout_task_placement,
        max_packet_bytes=udp.max_packet_bytes,
        max_tasks_per_client=udp.max_tasks_per_client,
    )


def key_list_of(settings: Settings) -> KeyList:
    """Return the list of keys that a dispatcher goes by."""
    auth = settings.auth
    own = read_key_file(auth.key_file) if auth.key_file else None
    if own is not None and own.role is not Role.DISPATCHER:
        raise SettingsError(
            "the system",
            "auth.key_file",
            f"{auth.key_file}, the key of a {own.role}",
            "a key that `shunter key new NAME --role dispatcher` made",
        )
    return KeyList(own, file=auth.keys)


KEYS = "keys (auth.key_file)"
TLS = "TLS (http.tls_certificate and http.tls_key)"


def check_exposures(settings: Settings) -> None:
    """Refuse addresses that other hosts reach, unless keys or the user's word allow them."""
    udp, plain, http = settings.udp, settings.zmq, settings.http
    has_keys = bool(settings.auth.key_file)
    if plain.enabled:
        for key, where in (("zmq.frontend", plain.frontend), ("zmq.backend", plain.backend)):
            check_exposure(
                key,
                where,
                is_guarded=plain.insecure or has_keys,
                remedy=f"{KEYS}, or zmq.insecure = true among friends",
            )
    if udp.enabled:
        check_exposure(
            "udp.client_address.host",
            udp.client_address.host,
            is_guarded=udp.insecure or has_keys or bool(udp.secret_file),
            lacks="no keys and no secret",
            remedy=f"{KEYS}, a secret in udp.secret_file, or udp.insecure = true",
        )
    if http.enabled:
        has_tls = bool(http.tls_certificate)
        check_exposure(
            "http.host",
            http.host,
            is_guarded=http.insecure or (has_keys and has_tls),
            lacks="no TLS, so that keys would travel in clear" if has_keys else "no keys",
            remedy=f"{TLS if has_keys else KEYS}, or http.insecure = true among friends",
        )


def caller_files_of(auth: AuthSettings) -> CallerFiles:
    """Return whom our calls to workers trust, and what they show."""
    return CallerFiles(ca=auth.ca_file, certificate=auth.tls_certificate, key=auth.tls_key)


def http_files_of(http: HttpSettings) -> ServerFiles | None:
    """Return what the HTTP gateway shows its callers, if it speaks TLS."""
    if not http.tls_certificate:
        return None
    return ServerFiles(
        section="http",
        certificate=http.tls_certificate,
        key=http.tls_key,
        client_ca=http.tls_client_ca,
    )


def health_rules_of(settings: Settings) -> HealthRules:
    """Take from the settings how HTTP workers are watched."""
    workers = settings.dispatcher.workers
    return HealthRules(
        ping_interval=workers.ping_interval / 1000,
        max_retries=max(1, workers.max_retries),
        dead_ping_interval=workers.dead_worker_ping_interval / 1000,
        dead_max_retries=workers.dead_worker_max_retries,
        verification_interval=settings.dispatcher.jobs.job_verification_interval / 1000,
        kill_within=settings.lease.kill_within,
    )


def rules_of(settings: Settings) -> Rules:
    """Take from the settings what a dispatcher goes by."""
    jobs, calls = settings.dispatcher.jobs, settings.callbacks
    return Rules(
        intake=IntakeRules(
            max_payload_bytes=settings.zmq.max_message_bytes,
            refuse_unknown_types=jobs.unknown_types == "refuse",
            callback_hosts=allowed_hosts(calls.allowed_hosts),
        ),
        callbacks=CallbackRules(
            max_tries=calls.max_tries,
            timeout=calls.timeout_seconds,
            at_once=calls.at_once,
            at_once_by_scheme={job_names.SCHEME: job_names.NOTICES_AT_ONCE},
            waits=Retry(
                delay=calls.first_delay_seconds,
                factor=CALLBACK_FACTOR,
                max_delay=calls.max_delay_seconds,
            ),
        ),
        lease=settings.lease,
        cooldown=jobs.cooldown_period / 1000,
        max_losses=jobs.max_losses,
        resend_after=settings.zmq.resend_after_seconds,
        task_timeout=settings.udp.task_timeout,
        expiry_grace=2 * settings.worker.kill_grace_seconds + 3.0,
        silent_after=settings.zmq.worker_expire_seconds,
        retention=settings.store.retention_days * 86400,
    )
