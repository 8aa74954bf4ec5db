"""Every setting: its name, default, meaning and range.

These structs are the one list; loading, `shunter config` and docs/settings.md are made from it.
Everything listens on loopback unless told otherwise. Where values come from is decided in
`settings_sources.py`; nothing here reads a file or the environment.
Seconds are floats. `[dispatcher.*]` counts in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import fields

from shunter.model.allowed_hosts import ENTRY_RULE, LOOPBACK, allowed_hosts
from shunter.model.lease import LeaseTerms
from shunter.store.registry import BRIEFLY_ALLOWED, URL_PATTERN

_YEAR = 365 * 24 * 3600
_PORT = r"(6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|\d{1,4})"
_HOST = r"([A-Za-z0-9][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.%a-z]*)"
_ENDPOINT = (
    rf"^(tcp://(\*|[A-Za-z0-9][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.%a-z]+\]):{_PORT}|ipc://.{{1,107}})\Z"
)
_URL = rf"^https?://([A-Za-z0-9][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.%a-z]+\])(:{_PORT})?(/[^\s?#]*)?\Z"

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Addresses to listen on that nobody can call, and what to call on this host instead."""

# A type's title says what is allowed, in words that also stand in errors and in the docs.
Seconds = Annotated[float, Meta(gt=0, le=_YEAR, title="seconds, above 0, at most a year")]
Span = Annotated[float, Meta(ge=0, le=_YEAR, title="seconds, 0 or more, at most a year")]
Days = Annotated[float, Meta(gt=0, le=36500, title="days, above 0, at most 36500")]
Milliseconds = Annotated[
    int, Meta(ge=1, le=_YEAR * 1000, title="whole milliseconds, 1 or more, at most a year")
]
Cooldown = Annotated[
    int, Meta(ge=0, le=3_600_000, title="whole milliseconds, 0 or more, at most an hour")
]
Count = Annotated[int, Meta(ge=1, le=1_000_000, title="a whole number, 1 to 1000000")]
CountOrNone = Annotated[int, Meta(ge=0, le=1_000_000_000, title="a whole number, 0 or more")]
Slots = Annotated[int, Meta(ge=1, le=1024, title="a whole number, 1 to 1024")]
Size = Annotated[int, Meta(ge=1024, le=2**31 - 1, title="bytes, 1024 to 2147483647")]
Port = Annotated[int, Meta(ge=0, le=65535, title="a port, 0 to 65535 (0: the system picks)")]
Host = Annotated[str, Meta(pattern=rf"^{_HOST}\Z", title="a host name or an IP address")]
HostOrNone = Annotated[
    str, Meta(pattern=rf"^({_HOST})?\Z", title="a host name, an IP address, or nothing")
]
Urls = Annotated[
    tuple[Annotated[str, Meta(pattern=_URL)], ...],
    Meta(title="a list of http://host:port or https://host:port"),
]
Endpoint = Annotated[
    str, Meta(pattern=_ENDPOINT, title="tcp://host:port (port 0 to 65535) or ipc://path")
]
Endpoints = Annotated[
    tuple[Endpoint, ...], Meta(title="a list of tcp://host:port (port 0 to 65535) or ipc://path")
]
StoreUrl = Annotated[
    str,
    Meta(pattern=URL_PATTERN, title=BRIEFLY_ALLOWED),
]
HostNames = Annotated[
    tuple[Annotated[str, Meta(max_length=255)], ...], Meta(title=f"a list of {ENTRY_RULE}")
]
Masters = Annotated[
    tuple[Annotated[str, Meta(max_length=1024)], ...],
    Meta(title="a list of spark://host:port, yarn, k8s://… or sc://…"),
]
PacketSize = Annotated[int, Meta(ge=256, le=65507, title="bytes, 256 to 65507")]
FileName = Annotated[str, Meta(max_length=4096, title="the path of a file, or nothing")]
Switch = Annotated[bool, Meta(title="true or false")]
PageMode = Annotated[Literal["on", "read-only", "off"], Meta(title='"on", "read-only" or "off"')]
UnknownTypes = Annotated[Literal["wait", "refuse"], Meta(title='"wait" or "refuse"')]


def says(meaning: str) -> Meta:
    """Attach a setting's meaning to its field."""
    return Meta(description=meaning)


class Section(Struct, frozen=True, kw_only=True):
    """The shape that all sections share."""


def _check_pair(certificate: str, key: str, client_ca: str = "") -> None:
    if bool(certificate) != bool(key):
        raise ValueError("both of tls_certificate and tls_key, or neither")
    if client_ca and not certificate:
        raise ValueError("tls_certificate and tls_key beside tls_client_ca")


class StoreSettings(Section, frozen=True, kw_only=True):
    """`[store]`"""

    url: Annotated[StoreUrl, says("where jobs and workers are kept")] = "sqlite:///shunter.db"
    retention_days: Annotated[Days, says("how long ended jobs are kept")] = 7.0


class ZmqSettings(Section, frozen=True, kw_only=True):
    """`[zmq]`"""

    enabled: Annotated[Switch, says("whether the ZeroMQ gateway starts")] = True
    frontend: Annotated[Endpoint, says("where clients connect")] = "tcp://127.0.0.1:5560"
    backend: Annotated[Endpoint, says("where workers connect")] = "tcp://127.0.0.1:5561"
    worker_expire_seconds: Annotated[
        Seconds, says("an idle plain worker silent for so long is dropped (WORKER_EXPIRE_SECONDS)")
    ] = 3.0
    resend_after_seconds: Annotated[
        Seconds, says("a plain worker silent for so long on a job is taken for dead")
    ] = 60.0
    max_message_bytes: Annotated[Size, says("the largest payload or result")] = 16 * 1024 * 1024
    high_water_mark: Annotated[Count, says("messages that may wait for one peer")] = 10_000
    insecure: Annotated[
        Switch, says("whether addresses beyond this host are opened, to whoever comes")
    ] = False

    def __post_init__(self) -> None:
        if self.frontend == self.backend and not self.frontend.endswith(":0"):
            raise ValueError("different addresses for frontend and backend")


class HttpWorkerSettings(Section, frozen=True, kw_only=True):
    """`[worker.http]`"""

    host: Annotated[Host, says("where `shunter worker --http` listens")] = "127.0.0.1"
    insecure: Annotated[
        Switch, says("whether an address beyond this host is opened, to whoever comes")
    ] = False
    port: Annotated[Port, says("where `shunter worker --http` listens")] = 0
    hostname: Annotated[
        HostOrNone, says("where dispatchers are told to call the worker; empty: `worker.http.host`")
    ] = ""
    dispatchers: Annotated[
        Urls, says("HTTP addresses of the dispatchers to serve; empty: `http.host` and `http.port`")
    ] = ()
    tls_certificate: Annotated[
        FileName, says("the PEM file of the worker's certificate, and of those that signed it")
    ] = ""
    tls_key: Annotated[FileName, says("the PEM file of its private key")] = ""
    tls_client_ca: Annotated[
        FileName,
        says("a PEM file of authorities: dispatchers must show a certificate that one has signed"),
    ] = ""

    def __post_init__(self) -> None:
        _check_pair(self.tls_certificate, self.tls_key, self.tls_client_ca)
        if self.host in EVERYWHERE and not self.hostname:
            raise ValueError(
                f"a hostname by which dispatchers reach this machine, beside host {self.host}"
            )


class WorkerSettings(Section, frozen=True, kw_only=True):
    """`[worker]`"""

    broker_timeout: Annotated[
        Seconds, says("how long an answer from a dispatcher may take (BROKER_TIMEOUT)")
    ] = 1.0
    n_timeouts: Annotated[
        Count, says("so many silent periods and the socket is opened anew (N_TIMEOUTS)")
    ] = 3
    max_jobs: Annotated[Slots, says("slots: jobs that run at the same time")] = 2
    dispatchers: Annotated[
        Endpoints, says("backends of the dispatchers to serve; empty: `zmq.backend`")
    ] = ()
    grace_seconds: Annotated[
        Span, says("after SIGTERM, how long running jobs may go on before they are given back")
    ] = 10.0
    kill_grace_seconds: Annotated[
        Span, says("how long a job that must stop has before each harder signal")
    ] = 1.0
    max_jobs_per_child: Annotated[
        CountOrNone, says("a child is replaced after this many jobs; 0: never")
    ] = 0
    max_child_megabytes: Annotated[
        CountOrNone, says("a child that has grown so large is replaced after its job; 0: never")
    ] = 0
    max_block_seconds: Annotated[
        Seconds, says("a coroutine that keeps the loop from others for so long is ended")
    ] = 5.0
    spark_masters: Annotated[
        Masters, says("Spark masters that flow jobs may name, beside those in the worker itself")
    ] = ()
    http: HttpWorkerSettings = HttpWorkerSettings()


class ClientSettings(Section, frozen=True, kw_only=True):
    """`[client]`"""

    dispatchers: Annotated[
        Endpoints, says("frontends of the dispatchers to ask; empty: `zmq.frontend`")
    ] = ()


_TERMS = LeaseTerms()


class LeaseSettings(LeaseTerms, frozen=True, kw_only=True):
    """`[lease]`: the terms of a lease, with ranges."""

    heartbeat: Annotated[Seconds, says("how often a worker shows itself")] = _TERMS.heartbeat
    worker_gives_up: Annotated[Seconds, says("unanswered for so long, a worker stops its jobs")] = (
        _TERMS.worker_gives_up
    )
    kill_within: Annotated[Seconds, says("how long stopping them may take")] = _TERMS.kill_within
    dispatcher_takes_over: Annotated[
        Seconds, says("a worker silent for so long loses its jobs to others")
    ] = _TERMS.dispatcher_takes_over

    def __post_init__(self) -> None:
        if self.heartbeat >= self.worker_gives_up:
            raise ValueError("a heartbeat shorter than worker_gives_up")
        super().__post_init__()


class Address(Section, frozen=True, kw_only=True):
    """A host and a port."""

    host: Annotated[Host, says("where to listen")] = "127.0.0.1"
    port: Annotated[Port, says("where to listen")] = 5555


class UdpSettings(Section, frozen=True, kw_only=True):
    """`[udp]`"""

    enabled: Annotated[Switch, says("whether the UDP gateway starts")] = True
    client_address: Address = Address()
    timeout_task_placement: Annotated[
        Seconds, says("a task that found no calculator for so long is given up")
    ] = 120.0
    confirm_timeout: Annotated[Seconds, says("how long a confirmation may take")] = 5.0
    heartbeat_timeout: Annotated[
        Seconds, says("a calculator silent for so long counts as unavailable")
    ] = 10.0
    task_timeout: Annotated[Seconds, says("how long a calculator may take for a task")] = 60.0
    max_packet_bytes: Annotated[
        PacketSize, says("the largest packet; more than 1200 does not pass every network")
    ] = 1200
    max_tasks_per_client: Annotated[
        Count, says("so many tasks of one client may be under way; more are refused as busy")
    ] = 1000
    secret_file: Annotated[
        FileName, says("a file with the secret that signs all packets; empty: none is signed")
    ] = ""
    insecure: Annotated[
        Switch, says("whether unsigned packets are taken on an address beyond this host")
    ] = False


class HttpSettings(Section, frozen=True, kw_only=True):
    """`[http]`"""

    enabled: Annotated[Switch, says("whether the HTTP gateway starts")] = True
    host: Annotated[Host, says("where to listen")] = "127.0.0.1"
    port: Annotated[Port, says("where to listen")] = 8081
    allowed_hosts: Annotated[
        HostNames,
        says("names by which callers may know this server, beside `http.host` and its address"),
    ] = LOOPBACK
    page: Annotated[
        PageMode, says("whether people get a page at `/`, and whether they may change things there")
    ] = "on"
    insecure: Annotated[
        Switch, says("whether an address beyond this host is opened, to whoever comes")
    ] = False
    tls_certificate: Annotated[
        FileName,
        says("the PEM file of the server's certificate, and of those that signed it; read anew"),
    ] = ""
    tls_key: Annotated[FileName, says("the PEM file of its private key")] = ""
    tls_client_ca: Annotated[
        FileName,
        says("a PEM file of authorities: callers must show a certificate that one has signed"),
    ] = ""

    def __post_init__(self) -> None:
        _check_pair(self.tls_certificate, self.tls_key, self.tls_client_ca)
        allowed_hosts(self.allowed_hosts)


class AuthSettings(Section, frozen=True, kw_only=True):
    """`[auth]`"""

    key_file: Annotated[
        FileName,
        says(
            "the key that this process shows, from `shunter key new`; a dispatcher that has one "
            "demands keys of all peers"
        ),
    ] = ""
    keys: Annotated[
        FileName,
        says("the keys that are let in, from `shunter key export`; empty: those in the store"),
    ] = ""
    ca_file: Annotated[
        FileName,
        says("a PEM file of authorities that calls over https:// trust, beside the system's"),
    ] = ""
    tls_certificate: Annotated[
        FileName, says("the PEM file of the certificate that is shown to servers that ask for one")
    ] = ""
    tls_key: Annotated[FileName, says("the PEM file of its private key")] = ""

    def __post_init__(self) -> None:
        _check_pair(self.tls_certificate, self.tls_key)


class CallbackSettings(Section, frozen=True, kw_only=True):
    """`[callbacks]`"""

    allowed_hosts: Annotated[
        HostNames,
        says(
            "whom jobs may call back; what a listed name leads to must be a public address or be "
            "listed as well"
        ),
    ] = LOOPBACK
    max_tries: Annotated[Count, says("a callback that failed so often is given up")] = 10
    timeout_seconds: Annotated[Seconds, says("how long a call may take")] = 10.0
    at_once: Annotated[Slots, says("calls that one dispatcher makes at the same time")] = 16
    first_delay_seconds: Annotated[
        Seconds, says("how long after a failed call the next one is made; then three times as long")
    ] = 1.0
    max_delay_seconds: Annotated[Seconds, says("the longest wait between two calls")] = 3600.0

    def __post_init__(self) -> None:
        allowed_hosts(self.allowed_hosts)


class JobSettings(Section, frozen=True, kw_only=True):
    """`[dispatcher.jobs]`"""

    cooldown_period: Annotated[
        Cooldown, says("milliseconds between claiming a job and starting it")
    ] = 0
    job_verification_interval: Annotated[
        Milliseconds, says("milliseconds between looks at whether workers still have their jobs")
    ] = 10_000
    max_losses: Annotated[Count, says("a job whose worker was lost so often fails")] = 5
    unknown_types: Annotated[
        UnknownTypes, says("what happens to a job of a type that no known worker does")
    ] = "wait"


class HealthSettings(Section, frozen=True, kw_only=True):
    """`[dispatcher.workers]`: how HTTP workers are checked."""

    ping_interval: Annotated[
        Milliseconds, says("milliseconds between health checks of an HTTP worker")
    ] = 30_000
    max_retries: Annotated[CountOrNone, says("failed checks until a worker counts as dead")] = 3
    dead_worker_ping_interval: Annotated[
        Milliseconds, says("milliseconds between checks of a dead worker")
    ] = 60_000
    dead_worker_max_retries: Annotated[
        CountOrNone, says("failed checks until a dead worker is forgotten")
    ] = 10
    allowed_hosts: Annotated[
        HostNames,
        says(
            "where HTTP workers may be; what a listed name leads to must be a public address or "
            "be listed as well"
        ),
    ] = LOOPBACK

    def __post_init__(self) -> None:
        allowed_hosts(self.allowed_hosts)


class DispatcherSettings(Section, frozen=True, kw_only=True):
    """`[dispatcher]`"""

    jobs: JobSettings = JobSettings()
    workers: HealthSettings = HealthSettings()


class Settings(Section, frozen=True, kw_only=True):
    """All settings."""

    store: StoreSettings = StoreSettings()
    zmq: ZmqSettings = ZmqSettings()
    worker: WorkerSettings = WorkerSettings()
    client: ClientSettings = ClientSettings()
    lease: LeaseSettings = LeaseSettings()
    udp: UdpSettings = UdpSettings()
    http: HttpSettings = HttpSettings()
    auth: AuthSettings = AuthSettings()
    callbacks: CallbackSettings = CallbackSettings()
    dispatcher: DispatcherSettings = DispatcherSettings()

    @property
    def worker_dispatchers(self) -> tuple[str, ...]:
        """The backends that a worker connects to."""
        return self.worker.dispatchers or (reachable(self.zmq.backend),)

    @property
    def http_dispatchers(self) -> tuple[str, ...]:
        """The addresses of the dispatchers that an HTTP worker calls."""
        host = EVERYWHERE.get(self.http.host, self.http.host)
        host = f"[{host}]" if ":" in host else host
        scheme = "https" if self.http.tls_certificate else "http"
        return self.worker.http.dispatchers or (f"{scheme}://{host}:{self.http.port}",)

    @property
    def udp_dispatcher(self) -> tuple[str, int]:
        """The address that calculators and UDP clients send to."""
        listens = self.udp.client_address
        return EVERYWHERE.get(listens.host, listens.host), listens.port

    @property
    def client_dispatchers(self) -> tuple[str, ...]:
        """The frontends that a client connects to."""
        return self.client.dispatchers or (reachable(self.zmq.frontend),)


class Setting(Struct, frozen=True, kw_only=True):
    """One key: its dotted name, type and default, what is allowed and what it means."""

    key: str
    type: Any
    default: object
    allowed: str
    meaning: str


def all_settings(section: type[Struct] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Yield every key under `section`, in the order in which they are declared."""
    hints = _hints_of(section)
    for field in fields(section):
        hint, key = hints[field.name], prefix + field.name
        if isinstance(hint, type) and issubclass(hint, Struct):
            yield from all_settings(hint, f"{key}.")
            continue
        notes = [note for note in hint.__metadata__ if isinstance(note, Meta)]
        allowed, meaning = (
            next(text for note in notes if (text := getattr(note, part)))
            for part in ("title", "description")
        )
        yield Setting(key=key, type=hint, default=field.default, allowed=allowed, meaning=meaning)


@cache
def _hints_of(section: type[Struct]) -> dict[str, Any]:
    return get_type_hints(section, include_extras=True)


def reachable(endpoint: str) -> str:
    """Return what to connect to where somebody listens on `endpoint` of this host."""
    for anywhere, here in (("*", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]")):  # noqa: S104
        endpoint = endpoint.replace(f"tcp://{anywhere}:", f"tcp://{here}:")
    return endpoint
