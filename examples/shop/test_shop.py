"""The shop, its jobs and its clock in one process: no server, no socket, no sleep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from shop.api import make_api
from shop.tasks import app
from shunter.testing import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(app) as sandbox:
        yield sandbox


@pytest.fixture
def shop(sandbox: Sandbox) -> Iterator[TestClient]:
    with TestClient(make_api(sandbox.async_client)) as shop:
        yield shop


def placed(shop: TestClient, order: str, items: dict[str, int]) -> str:
    answer = shop.post(f"/orders/{order}", json={"customer": "ann", "items": items})
    assert answer.status_code == 202, answer.text
    job: str = answer.json()["job"]
    return job


def test_an_order_becomes_an_invoice(shop: TestClient, sandbox: Sandbox) -> None:
    job = placed(shop, "1001", {"tea": 4, "mug": 1})
    sandbox.run()

    assert shop.get("/orders/1001", params={"job": job}).json() == {
        "status": "completed",
        "invoice": {"order": "1001", "total": 18.0},
        "reason": None,
    }


def test_the_same_order_sent_twice_is_one_job(shop: TestClient) -> None:
    assert placed(shop, "1001", {"tea": 4}) == placed(shop, "1001", {"tea": 4})
    other = shop.post("/orders/1001", json={"customer": "ann", "items": {"mug": 1}})
    assert other.status_code == 409


def test_an_item_that_nobody_has_fails_without_retries(shop: TestClient, sandbox: Sandbox) -> None:
    job = placed(shop, "1002", {"yacht": 1})
    sandbox.run()

    shown = shop.get("/orders/1002", params={"job": job}).json()
    assert (shown["status"], "we have no yacht" in shown["reason"]) == ("failed", True)
    assert sandbox.job(job).attempt == 1
    waited = shop.get("/orders/1002/invoice", params={"job": job})
    assert waited.status_code == 422


def test_an_order_that_nobody_placed_is_not_found(shop: TestClient) -> None:
    assert shop.get("/orders/7", params={"job": "nothing"}).status_code == 404
