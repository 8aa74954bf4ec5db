"""Where settings come from: defaults, then `shunter.toml`, then the environment, then flags.

A later source overrides an earlier one, key by key, and each value remembers its source. What
is wrong is refused with its source, key, what was found and what is allowed. The environment is
an argument. What settings there are stands in `settings.py`.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from shunter.errors import SettingsError
from shunter.model.redaction import redacted_url
from shunter.settings import Setting, Settings, all_settings

DEFAULT_FILE = Path("shunter.toml")
ENVIRONMENT_PREFIX = "SHUNTER__"

FLAG_NAMES = {
    "store.url": "--store",
    "worker.dispatchers": "--dispatcher",
    "worker.http.dispatchers": "--dispatcher",
    "worker.http.host": "--listen",
    "worker.http.port": "--listen",
    "client.dispatchers": "--dispatcher",
    "udp.client_address.host": "--dispatcher",
    "udp.client_address.port": "--dispatcher",
    "http.host": "--http-host",
    "http.port": "--http-port",
}
"""Flags that are not called like the last part of their key."""


class LoadedSettings(Struct, frozen=True):
    """The settings, and for each dotted key where its value came from."""

    settings: Settings
    sources: dict[str, str]


class _Found(Struct, frozen=True):
    """A value that some source gives for a key; `is_text` where that source knows no types."""

    source: str
    key: str
    value: object
    is_text: bool = False


def load_settings(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> LoadedSettings:
    """Read all sources; flags are by dotted key, and one that is None was not given.

    Without a `path`, `shunter.toml` is read if it is there.
    """
    known = {setting.key: setting for setting in all_settings()}
    values = {key: setting.default for key, setting in known.items()}
    sources = dict.fromkeys(known, "default")
    for table in (_from_file(path), _from_environment(environ), _from_flags(flags)):
        for given in table:
            for found in _leaves(given, known):
                values[found.key] = _checked(found, known[found.key])
                sources[found.key] = found.source
    return LoadedSettings(_built(values, sources), sources)


def value_of(settings: Settings, key: str) -> object:
    """Return the value of a dotted key."""
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def shown(value: object) -> str:
    """Write a value as TOML would have it, without passwords."""
    return json.dumps(_without_secrets(value), default=str, ensure_ascii=False)


def _without_secrets(value: object) -> object:
    match value:
        case str():
            return redacted_url(value)
        case list() | tuple():
            return [_without_secrets(each) for each in value]
        case dict():
            return {name: _without_secrets(each) for name, each in value.items()}
    return value


def flag_name(key: str) -> str:
    """Return what the flag for this key is called."""
    return FLAG_NAMES.get(key, "--" + key.rpartition(".")[2].replace("_", "-"))


def variable_name(key: str) -> str:
    """Return what the environment variable for this key is called."""
    return ENVIRONMENT_PREFIX + key.replace(".", "__").upper()


def _from_file(path: Path | None) -> Iterator[_Found]:
    if path is None and not DEFAULT_FILE.exists():
        return
    path = path or DEFAULT_FILE
    for name, value in _read(path).items():
        yield _Found(str(path), name, value)


def _read(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise SettingsError(str(path), "file", "no such file", "an existing TOML file") from None
    except OSError as error:
        fact = error.strerror or str(error)
        raise SettingsError(str(path), "file", fact, "a readable TOML file") from None
    except UnicodeDecodeError as error:
        fact = f"bytes that are not UTF-8 at offset {error.start}"
        raise SettingsError(str(path), "file", fact, "a TOML file in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise _malformed(path, text, str(error)) from None


def _malformed(path: Path, text: str, fault: str) -> SettingsError:
    """Name the line that is not TOML; the parser gives its number in words, or its end."""
    lines = text.splitlines() or [""]
    place = re.search(r"\(at line (\d+)", fault)
    number = int(place[1]) if place else len(lines)
    fact = f"{shown(lines[number - 1].strip())} ({fault.partition(' (at ')[0]})"
    return SettingsError(str(path), f"line {number}", fact, "TOML, such as: http.port = 8081")


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Found]:
    for name in sorted(environ):
        if name.startswith(ENVIRONMENT_PREFIX):
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
            yield _Found(name, key, environ[name], is_text=True)


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Found]:
    for key, value in flags.items():
        if value is not None:
            yield _Found(flag_name(key), key, value, is_text=isinstance(value, str))


def _leaves(found: _Found, known: Mapping[str, Setting]) -> Iterator[_Found]:
    """Yield what `found` says about single keys; it may be a whole section."""
    if found.key in known:
        yield found
        return
    if not any(key.startswith(f"{found.key}.") for key in known):
        raise _unknown(found, known)
    table = _as_toml(found.value) if found.is_text else found.value
    if not isinstance(table, dict):
        raise SettingsError(found.source, found.key, shown(found.value), "a table of keys")
    for name, value in table.items():
        yield from _leaves(_Found(found.source, f"{found.key}.{name}", value), known)


def _unknown(found: _Found, known: Iterable[str]) -> SettingsError:
    """Say what there is in place of this key, and what was probably meant."""
    names = {key[:end] for key in known for end in _ends(key)}
    section = found.key.rpartition(".")[0]
    while section and section not in names:
        section = section.rpartition(".")[0]
    beside = sorted(name for name in names if name.rpartition(".")[0] == section)
    near = difflib.get_close_matches(found.key, [*beside, *sorted(names)], n=1)
    allowed = ", ".join(beside) + (f"; did you mean {near[0]}?" if near else "")
    fact = "an unknown section" if isinstance(found.value, dict) else "an unknown key"
    return SettingsError(found.source, found.key, fact, allowed)


def _ends(key: str) -> list[int]:
    """Return where the key's sections end, and the key itself."""
    return [at for at, letter in enumerate(key) if letter == "."] + [len(key)]


def _checked(found: _Found, setting: Setting) -> object:
    """Return the value in the setting's type, or raise."""
    for candidate in _readings(found):
        try:
            return msgspec.convert(candidate, setting.type)
        except msgspec.ValidationError:
            continue
    raise SettingsError(found.source, found.key, shown(found.value), setting.allowed)


def _readings(found: _Found) -> Iterator[object]:
    """Yield what a value may stand for: text may be TOML, itself, or a list with commas."""
    if found.is_text:
        yield _as_toml(found.value)
        yield found.value
        yield [part.strip() for part in str(found.value).split(",")]
    else:
        yield found.value


def _as_toml(text: object) -> object:
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return None
    return document["value"] if len(document) == 1 else None


def _built(values: Mapping[str, object], sources: Mapping[str, str]) -> Settings:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = key.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[name] = value
    try:
        return msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise _disagreement(error, values, sources) from None


def _disagreement(
    error: msgspec.ValidationError, values: Mapping[str, object], sources: Mapping[str, str]
) -> SettingsError:
    """Say which keys of a section don't go together."""
    message, _, place = str(error).partition(" - at `$.")
    section = place.rstrip("`")
    inside = [key for key in values if key.startswith(f"{section}.")]
    given = [key for key in inside if sources[key] != "default"]
    found = ", ".join(f"{key} = {shown(values[key])}" for key in given)
    return SettingsError(
        ", ".join(sorted({sources[key] for key in given})), section, found, message
    )
