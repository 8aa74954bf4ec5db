"""What processes that stay have in common: how they log, and how they end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import structlog
import uvloop

from shunter.model.redaction import redacted
from shunter.shown_text import shown

T = TypeVar("T")


class _Runs(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a process's event loop until `main` ends.

    On uvloop, whose turns cost a fraction of asyncio's own: a job's way through a dispatcher has
    a dozen of them.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def run_until_signalled(make: Callable[[], _Runs]) -> int:
    """Make what is to be served in the loop, and run it until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    served = make()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, served.stop)
    await served.run()
    return 0


def set_up_logging() -> None:
    """Log to standard error: for people on a terminal, as JSON lines elsewhere."""
    renderers: list[structlog.typing.Processor] = (
        [_show_controls, structlog.dev.ConsoleRenderer()]
        if sys.stderr.isatty()
        else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _hide_secrets,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _hide_secrets(
    _logger: object, _method: str, said: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Keep passwords out of the log: others' errors may quote a URL, and tracebacks do."""
    return {key: _redacted(value) for key, value in said.items()}


def _redacted(value: object) -> object:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list | tuple):
        return [_redacted(each) for each in value]
    return value


def _show_controls(
    _logger: object, _method: str, said: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Keep the text of peers and jobs from steering the terminal that a process logs to."""
    return {
        key: shown(value) if isinstance(value, str) else _ShownValue(value)
        for key, value in said.items()
    }


class _ShownValue:
    """A value that a log line has as its `repr`, which may be somebody else's text too."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return shown(repr(self._value))
