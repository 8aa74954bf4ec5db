"""A MongoDB that demands TLS and a password is reached by what stands in the store's URL."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from shunter.testing.mongod import find_mongod
from shunter.testing.servers import launch
from system.yard import Yard, free_port, until


class Server(NamedTuple):
    url: str
    ca: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A set of one, as deploy/kubernetes has it of three: key file, TLS, a user of one database."""
    folder = tmp_path_factory.mktemp("mongodb")
    subprocess.run(["bash", "-euc", MAKE_SECRETS], cwd=folder, check=True, capture_output=True)
    (folder / "data").mkdir()
    port = free_port()
    words = [
        *(find_mongod(), "--dbpath", "data", "--port", str(port), "--bind_ip", "127.0.0.1"),
        *("--replSet", "shunter", "--keyFile", "keyfile", "--nounixsocket", "--logpath", "log"),
        *("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", "server.pem"),
        *("--tlsCAFile", "ca.pem", "--tlsAllowConnectionsWithoutCertificates"),
        *("--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25"),
    ]
    process = launch(words, cwd=folder, stdout=subprocess.DEVNULL)
    ca = folder / "ca.pem"
    address = f"127.0.0.1:{port}"
    try:
        _initiate(address, ca)
        options = f"replicaSet=shunter&authSource=admin&tls=true&tlsCAFile={ca}"
        yield Server(f"mongodb://shunter:secret@{address}/shunter?{options}", ca)
    finally:
        process.kill()
        process.wait(20)


MAKE_SECRETS = """
umask 077
openssl rand -base64 756 > keyfile
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem
openssl req -newkey rsa:2048 -nodes -subj /CN=mongodb -keyout server.key -out server.csr
openssl x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
    -extfile <(echo subjectAltName=IP:127.0.0.1,DNS:localhost) -out server.crt
cat server.key server.crt > server.pem
"""


def _initiate(address: str, ca: Path) -> None:
    """Do what initiate.js of the manifests does, over localhost, where the first user is made."""
    with MongoClient[dict[str, Any]](
        address, directConnection=True, tls=True, tlsCAFile=str(ca), serverSelectionTimeoutMS=500
    ) as client:
        members = [{"_id": 0, "host": address}]

        def is_initiated() -> bool:
            try:
                client.admin.command("replSetInitiate", {"_id": "shunter", "members": members})
            except PyMongoError as error:
                return "already initialized" in str(error)
            return True

        until(is_initiated, what="a set of one")
        until(lambda: client.admin.command("hello")["isWritablePrimary"], what="a primary")
        client.admin.command("createUser", "admin", pwd="first", roles=["userAdminAnyDatabase"])
    with MongoClient[dict[str, Any]](
        address, directConnection=True, tls=True, tlsCAFile=str(ca), username="admin",
        password="first",
    ) as client:  # fmt: skip
        roles = [{"role": "readWrite", "db": "shunter"}]
        client.admin.command("createUser", "shunter", pwd="secret", roles=roles)


def test_jobs_run_over_tls_with_a_user_of_one_database(server: Server, yard: Yard) -> None:
    station = yard.dispatcher(store__url=server.url)
    yard.worker(station)

    assert yard.client(station).submit("work", 7, 0.0).result(timeout=40) == 7
    assert "secret" not in station.process.said()


def test_a_wrong_password_is_told_and_not_shown(server: Server, yard: Yard) -> None:
    refused = yard.shunter(
        "doctor", "--json", "--store", server.url.replace("secret@", "mistaken@")
    )

    assert refused.returncode == 3
    assert "Authentication failed" in refused.stdout + refused.stderr
    assert "mistaken" not in refused.stdout + refused.stderr
