"""A shop's HTTP interface: it accepts orders, hands the work to Shunter, and shows how it went.

In `examples/`, run a dispatcher and a worker with `shunter up --app shop.tasks`, and beside it
`uvicorn shop.api:api`. Then:

    curl -X POST localhost:8000/orders/1001 -H 'Content-Type: application/json' \\
      -d '{"customer": "ann", "items": {"tea": 4}}'
    curl 'localhost:8000/orders/1001?job=ID'
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from shop.tasks import make_invoice
from shunter import AsyncClient, JobFailed, JobNotFound, JobRefused, ResultTimeout, Unreachable


class Order(BaseModel):
    """What a customer sends."""

    customer: str
    items: dict[str, int]


def make_api(open_client: Callable[[], AsyncClient] = AsyncClient) -> FastAPI:
    """Return the application; a test passes `sandbox.async_client`."""

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        async with open_client() as api.state.client:  # one client for all requests
            yield

    api = FastAPI(title="shop", lifespan=lifespan)
    api.post("/orders/{order_id}", status_code=202)(place_order)
    api.get("/orders/{order_id}")(show_order)
    api.get("/orders/{order_id}/invoice")(await_invoice)
    api.add_exception_handler(Unreachable, busy)
    return api


def the_client(request: Request) -> AsyncClient:
    client: AsyncClient = request.app.state.client
    return client


Jobs = Annotated[AsyncClient, Depends(the_client)]


async def place_order(order_id: str, order: Order, jobs: Jobs) -> dict[str, str]:
    """Accept an order; a second one with the same id is the same job, or refused if it differs."""
    named = jobs.with_options(unique_key=f"order-{order_id}", keys={"customer": order.customer})
    try:
        job = await named.submit(make_invoice, order_id, order.items)
    except JobRefused as error:
        raise HTTPException(409, error.reason) from error
    return {"job": job.id}


async def show_order(order_id: str, job: str, jobs: Jobs) -> dict[str, Any]:
    """Show how far an order is, without waiting."""
    try:
        record = await jobs.job(job)
    except JobNotFound as error:
        raise HTTPException(404, f"order {order_id} is not known") from error
    reason = record.error.message if record.error else None
    return {"status": record.status.word, "invoice": record.value, "reason": reason}


async def await_invoice(order_id: str, job: str, jobs: Jobs) -> Any:
    """Wait up to five seconds for the invoice."""
    try:
        return await jobs.job_handle(job).result(timeout=5)
    except ResultTimeout as error:
        raise HTTPException(504, "not yet; ask again") from error
    except JobNotFound as error:
        raise HTTPException(404, f"order {order_id} is not known") from error
    except JobFailed as error:
        raise HTTPException(422, error.message) from error


async def busy(request: Request, error: Exception) -> JSONResponse:
    """No dispatcher answers: nothing was accepted as far as we know, and the same may be sent."""
    return JSONResponse({"detail": "try again in a minute"}, 503, {"Retry-After": "60"})


api = make_api()
