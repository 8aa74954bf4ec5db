"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shunter.codec import Codec

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file; ./shunter.toml is used where there is one."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DispatcherOption = Annotated[
    list[str] | None,
    typer.Option("--dispatcher", help="Where a dispatcher listens for us; may be repeated."),
]
UdpDispatcherOption = Annotated[
    list[str] | None,
    typer.Option("--dispatcher", metavar="HOST:PORT", help="Where the dispatcher listens."),
]
AppOption = Annotated[
    str | None,
    typer.Option("--app", help="Where the handlers are: module:app or path/to/file.py:app."),
]
CodecAppOption = Annotated[
    str | None,
    typer.Option(
        "--app", help="The app whose codec opens what is encrypted: module:app or a file."
    ),
]
StoreOption = Annotated[str | None, typer.Option("--store", help="Where jobs are kept: a URL.")]
SlotsOption = Annotated[
    int | None, typer.Option("--max-jobs", help="Slots: how many jobs run at the same time.")
]
WaitTimeoutOption = Annotated[float | None, typer.Option(help="Wait at most this many seconds.")]


def codec_of(app_spec: str | None) -> Codec | None:
    """Return the codec of an app, if one was named and has one."""
    if app_spec is None:
        return None
    from shunter.app import load_app

    return load_app(app_spec).codec
