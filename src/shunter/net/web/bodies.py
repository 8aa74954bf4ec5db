"""Bodies of requests: kept up to the limit, and waited for no longer than a while.

What is beyond the limit is thrown away as it comes, up to twice the limit, so that a client which
sends first and reads later hears what was wrong. Beyond that the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

from starlette.requests import Request

from shunter.net.web.refusals import HttpRefusal

BODY_SECONDS = 30.0
LARGE_BYTES = 64 * 1024
"""From here on a document is read and written by a thread, so that the loop goes on."""

CLOSE = {"Connection": "close"}
JSON = "application/json"

T = TypeVar("T")


async def read_body(request: Request, limit: int, *, expected: str = JSON) -> bytes:
    """Return the text that was sent, or raise a HttpRefusal."""
    content_type = request.headers.get("content-type", "")
    kind, _, parameters = content_type.lower().partition(";")
    if kind.strip() != expected or "charset" in parameters.replace("charset=utf-8", ""):
        found = repr(content_type[:64]) if content_type else "none"
        raise HttpRefusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"found {found}; send {expected}, in UTF-8",
            field="Content-Type",
        )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > 2 * limit:
        raise _too_large(limit, headers=CLOSE)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > 2 * limit:
                    raise _too_large(limit, headers=CLOSE)
                if size <= limit:
                    chunks.append(chunk)
    except TimeoutError:
        message = f"the body did not arrive within {BODY_SECONDS:g} s; send it faster"
        raise HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, message, headers=CLOSE) from None
    if size > limit:
        raise _too_large(limit)
    return b"".join(chunks)


def _too_large(limit: int, headers: Mapping[str, str] | None = None) -> HttpRefusal:
    return HttpRefusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {limit:,} bytes (made from zmq.max_message_bytes); "
        "store the data elsewhere and send its address",
        headers=headers,
    )


async def aside(size: int, work: Callable[[], T]) -> T:
    """Do work on a document of this size: here if it is small, else in a thread."""
    return work() if size < LARGE_BYTES else await asyncio.to_thread(work)
