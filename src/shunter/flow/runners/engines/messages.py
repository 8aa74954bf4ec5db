"""What a deployer and an engine say to each other, on the engine's management interface."""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.runners.engines.network import InboxAddress

MAX_BYTES = 256 * 1024 * 1024
"""How large a message may be, saved states included."""

VERSION = 1
"""Of these messages, of envelopes and of checkpoints. Engines of another one are refused."""


class Request(msgspec.Struct, frozen=True, tag_field="do", kw_only=True):
    """Has the number by which its answer is known."""

    id: int = 0
    version: int = VERSION


class EngineHello(Request, frozen=True, tag="hello"):
    """Who are you?"""


class Prepare(Request, frozen=True, tag="prepare"):
    """Load a flow, and take it on if it is the one that is meant; what was there is removed.

    `token` is known to the engines of this run alone: who sends into an inbox shows it.
    """

    run: str
    token: bytes
    flow: str
    fingerprint: str
    node: int
    nodes: int
    network: str
    limit: int
    output_run: str
    saved: bytes | None = None


class Deploy(Request, frozen=True, tag="deploy"):
    """Set up workers of one stage, with the inboxes of those behind them."""

    run: str
    workers: list[str]
    receivers: dict[str, InboxAddress]


class Start(Request, frozen=True, tag="start"):
    run: str


class TakeCheckpoint(Request, frozen=True, tag="checkpoint"):
    run: str
    number: int


class Quiesce(Request, frozen=True, tag="quiesce"):
    """Let sources give no more."""

    run: str


class Publish(Request, frozen=True, tag="publish"):
    """All have come to the end: let sinks publish."""

    run: str


class Remove(Request, frozen=True, tag="remove"):
    run: str


class EngineStatus(Request, frozen=True, tag="status"):
    """How far are you? It also says that the deployer is there."""

    run: str = ""


class ShutDown(Request, frozen=True, tag="shut down"):
    """End the engine itself."""


AnyRequest = (
    EngineHello
    | Prepare
    | Deploy
    | Start
    | TakeCheckpoint
    | Quiesce
    | Publish
    | Remove
    | EngineStatus
    | ShutDown
)


class EngineAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """To the request with this id; `error` is set where it was refused."""

    id: int
    data: Any = None
    error: str | None = None


class EngineEvent(msgspec.Struct, frozen=True, tag="happened"):
    """Told without being asked: kept, ended, done, failed, published."""

    run: str
    what: str
    data: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(AnyRequest)
_replies = msgspec.msgpack.Decoder(EngineAnswer | EngineEvent)


def encoded(message: Any) -> bytes:
    """Write a message; raises FlowError where it is larger than the other side takes."""
    written = _encoder.encode(message)
    if len(written) > MAX_BYTES:
        raise FlowError(
            f"the states of one engine take {len(written):,} bytes, and at most {MAX_BYTES:,} go "
            "in one message; run the flow on more engines, or with more workers for the stage"
        )
    return written


def request(message: bytes) -> AnyRequest:
    """Read what a deployer said; raises FlowError where it makes no sense."""
    try:
        found: AnyRequest = _requests.decode(message)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FlowError(
            f"a request was not understood: {error}; use a Shunter of the engine's version"
        ) from error
    if found.version != VERSION:
        raise FlowError(
            f"the deployer speaks version {found.version} and this engine {VERSION}; install the "
            "same Shunter on both"
        )
    return found


def reply(message: bytes) -> EngineAnswer | EngineEvent:
    """Read what an engine said."""
    try:
        found: EngineAnswer | EngineEvent = _replies.decode(message)
        return found
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FlowError(f"an engine's answer was not understood: {error}") from error
