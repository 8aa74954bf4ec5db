"""A real S3 server on loopback, for tests of whatever keeps files at URLs.

A test module imports the fixtures: `from s3_server import s3_bucket, s3_server`. Processes that a
test starts find the server by the environment, as they would find Amazon's.
"""

from __future__ import annotations

import logging
import urllib.request
import uuid
import warnings
from collections.abc import Iterator

import pytest

from shunter.flow import location

ACCESS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Return the address of a server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server_module = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of an empty bucket, which this process and its children can reach."""
    for name, value in {**ACCESS, "AWS_ENDPOINT_URL": s3_server}.items():
        monkeypatch.setenv(name, value)
    location._store_of.cache_clear()
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    order = urllib.request.Request(f"{s3_server}/{name}", method="PUT")
    urllib.request.urlopen(order, timeout=30).close()
    yield f"s3://{name}"
    location._store_of.cache_clear()
