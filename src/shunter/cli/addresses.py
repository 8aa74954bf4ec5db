"""Examinations of what the settings point at: the store, and the addresses to listen on."""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import zmq

from shunter.cli.diagnosis import Finding, State, Surroundings
from shunter.errors import ProtocolError, SettingsError
from shunter.settings import HttpSettings, Settings, reachable
from shunter.settings_sources import shown
from shunter.store.registry import driver_of, store_for
from shunter.wire import frames
from shunter.wire.messages import BareRequest, Kind

SLOW_FSYNC_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
SERVER_SECONDS = 5.0

_TCP = re.compile(r"tcp://(?P<host>.+):(?P<port>\d+)\Z")
_LOOPBACK = ("127.", "localhost", "::1")


def store(surroundings: Surroundings) -> Finding:
    url = surroundings.settings.store.url
    try:
        store_for(url)
    except SettingsError as error:
        fact = f"{shown(url)} is not a store that this version has"
        return Finding("store", State.MISSING, fact, f"set store.url to {error.allowed}")
    return driver_of(url).glance(url)


def listening(surroundings: Surroundings) -> Iterator[Finding]:
    """Look whether each gateway's address is free, or served by a dispatcher already."""
    settings = surroundings.settings
    for key, kind, host, port in _places(settings):
        if kind == "ipc":
            yield _ipc(key, Path(host))
            continue
        fault = _bind_fault(kind, host, port)
        if fault is not None and fault.errno == errno.EADDRINUSE:
            yield _taken(key, host, port, kind, settings)
        elif fault is not None:
            fact = f"{host}:{port}: {fault.strerror or fault}"
            yield Finding(key, State.MISSING, fact, f"set {key} to an address of this host")
        elif not host.startswith(_LOOPBACK):
            yield _open(key, f"{host}:{port} is open to other hosts", kind, settings)
        else:
            fact = f"{host}:{port} is free" if port else f"{host}, the system picks a port"
            yield Finding(key, State.OK, fact)


def _open(key: str, fact: str, kind: str, settings: Settings) -> Finding:
    """Say who keeps strangers away; a dispatcher insists on an answer."""
    if kind == "udp" and (settings.udp.secret_file or settings.auth.key_file):
        return Finding(key, State.OK, f"{fact}, and packets are signed")
    if kind == "udp" and not settings.udp.insecure:
        remedy = "set auth.key_file, udp.secret_file, or udp.insecure = true"
        return Finding(key, State.MISSING, f"{fact}, and no key or secret is set", remedy)
    section = key.partition(".")[0]
    if not getattr(settings, section).insecure:
        remedy = f"set {key} to an address of this host, or {section}.insecure = true"
        return Finding(key, State.MISSING, f"{fact}, and peers need no key", remedy)
    remedy = "nothing here asks for a password: keep to a trusted network"
    return Finding(key, State.WARN, fact, remedy)


def _places(settings: Settings) -> Iterator[tuple[str, str, str, int]]:
    """Yield key, kind, host and port of all that a dispatcher would listen on."""
    if settings.zmq.enabled:
        for key, endpoint in (
            ("zmq.frontend", settings.zmq.frontend),
            ("zmq.backend", settings.zmq.backend),
        ):
            if match := _TCP.match(endpoint):
                host = match["host"].strip("[]")
                yield key, "tcp", "0.0.0.0" if host == "*" else host, int(match["port"])  # noqa: S104
            else:
                yield key, "ipc", endpoint.removeprefix("ipc://"), 0
    if settings.udp.enabled:
        address = settings.udp.client_address
        yield "udp.client_address", "udp", address.host, address.port
    if settings.http.enabled:
        yield "http.port", "tcp", settings.http.host, settings.http.port


def _bind_fault(kind: str, host: str, port: int) -> OSError | None:
    """Try to listen there for a moment."""
    transport = socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=transport)[0]
        with socket.socket(family, transport) as probe:
            if kind == "tcp":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            if kind == "tcp":
                probe.listen()
    except OSError as error:
        return error
    return None


def _ipc(key: str, path: Path) -> Finding:
    if str(path).startswith("@") or os.access(path.absolute().parent, os.W_OK):
        return Finding(key, State.OK, f"{path} can be made")
    return Finding(key, State.MISSING, f"{path.absolute().parent} is not writable", f"set {key}")


def _taken(key: str, host: str, port: int, kind: str, settings: Settings) -> Finding:
    """Say who has the port; it is well where that is a dispatcher that answers."""
    owner = _owner(port, kind)
    whose = f" by process {owner.pid} ({owner.name()})" if owner else ""
    answering = _answering_port(settings)
    if answering is not None and (answering == port or owner == _owner(answering, "tcp")):
        fact = f"{host}:{port} is in use{whose}; a Shunter dispatcher answers"
        return Finding(key, State.OK, fact)
    fact = f"{host}:{port} is in use{whose}, and no Shunter dispatcher answers"
    return Finding(key, State.MISSING, fact, f"stop it, or set {key} to another port")


def _owner(port: int, kind: str) -> psutil.Process | None:
    """Return the process that listens on a port, where the system tells."""
    try:
        for connection in psutil.net_connections("udp" if kind == "udp" else "tcp"):
            address = connection.laddr
            if address and address.port == port and connection.pid and not connection.raddr:
                return psutil.Process(connection.pid)
    except psutil.Error:
        pass
    return None


def _answering_port(settings: Settings) -> int | None:
    """Ask for a Shunter dispatcher by ZeroMQ and by HTTP; return the port where one answers.

    The backend is not asked: whoever speaks there is taken for a worker.
    """
    frontend = _TCP.match(settings.zmq.frontend)
    if settings.zmq.enabled and frontend and _answers_status(reachable(settings.zmq.frontend)):
        return int(frontend["port"])
    if settings.http.enabled and _answers_healthz(settings.http):
        return settings.http.port
    return None


def _answers_status(endpoint: str) -> bool:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.setsockopt(zmq.MAXMSGSIZE, MAX_ANSWER_BYTES)
        dealer.connect(endpoint)
        dealer.send_multipart(frames.full(Kind.STATUS, BareRequest(1)))
        if not dealer.poll(round(PATIENCE_SECONDS * 1000)):
            return False
        try:
            answer = frames.read(dealer.recv_multipart())
        except ProtocolError:
            return False
    return isinstance(answer, frames.Full) and answer.kind is Kind.STATUS


def _answers_healthz(settings: HttpSettings) -> bool:
    """Who has the port is asked, whatever certificate it shows: nothing is told to it."""
    place = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "https" if settings.tls_certificate else "http"
    anybody = ssl._create_unverified_context()  # noqa: S323
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=anybody)
    )
    url = f"{scheme}://{place}:{settings.port}/healthz"
    try:
        with direct.open(url, timeout=PATIENCE_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False
