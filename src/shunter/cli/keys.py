"""`shunter key new|ls|revoke|export`, and `shunter audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shunter.model.key import Role

app = typer.Typer(
    name="key",
    help="Make and revoke the keys that peers beyond this host show.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
StoreOption = Annotated[str | None, typer.Option("--store", help="Where jobs are kept: a URL.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file; ./shunter.toml is used where there is one."),
]


@app.command()
def new(
    name: NameArgument,
    role: Annotated[Role, typer.Option(help="What the key is for.")],
    types: Annotated[
        str, typer.Option(metavar="A,B", help="With --role worker: the types it may serve.")
    ] = "",
    namespace: Annotated[
        str, typer.Option(help="The jobs that it may see and cancel are those of this namespace.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="The file to write the key to; else NAME.key.")
    ] = None,
    store: StoreOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Make a key: a file for the peer that shows it, and a line in the list of keys."""
    from shunter.cli.key_administration import KeyAdministration

    served = tuple(filter(None, (word.strip() for word in types.split(","))))
    path = out or Path(f"{name}.key")
    keys = KeyAdministration(store, config_file)
    keys.make(name, role, types=served, namespace=namespace, path=path)
    typer.echo(f"{path}: the key of {role} {name!r}; give it to that process alone")


@app.command("ls")
def list_keys(
    as_json: JsonOption = False, store: StoreOption = None, config_file: ConfigOption = None
) -> None:
    """List the keys."""
    from shunter.cli.key_administration import KeyAdministration, print_keys

    print_keys(KeyAdministration(store, config_file).listed(), as_json=as_json)


@app.command()
def revoke(name: NameArgument, store: StoreOption = None, config_file: ConfigOption = None) -> None:
    """Revoke a key: within seconds no dispatcher knows it any more."""
    from shunter.cli.key_administration import KeyAdministration

    KeyAdministration(store, config_file).revoke(name)
    typer.echo(f"{name}: revoked; dispatchers know within 5 s")


@app.command()
def export(store: StoreOption = None, config_file: ConfigOption = None) -> None:
    """Print the list of keys, for `auth.keys` on hosts that don't reach the store.

    It holds nothing that is shown over ZeroMQ or HTTP, but what packets over UDP are signed with:
    keep it from others all the same.
    """
    import msgspec

    from shunter.cli.key_administration import KeyAdministration

    listed = KeyAdministration(store, config_file).listed()
    typer.echo(msgspec.json.format(msgspec.json.encode(listed), indent=1).decode())


def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many lines.")] = 50,
    before: Annotated[str | None, typer.Option(help="The id of the last line seen.")] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    config_file: ConfigOption = None,
) -> None:
    """Show what operators have done: who, when, what and to whom."""
    from shunter.cli.key_administration import KeyAdministration, print_audit

    found = KeyAdministration(store, config_file).audited(before=before, limit=limit)
    print_audit(found, as_json=as_json)
