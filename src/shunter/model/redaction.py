"""Texts without the secrets that URLs bring along: passwords, tokens, keys.

A URL keeps what tells one from another: scheme, user, hosts, path, the names of its options. What
is hidden becomes ***. Where it is not clear what is the password, more is hidden than need be.
Callbacks belong to clients, who put secrets into any option and into paths; of their options no
value is shown at all. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

HIDDEN = "***"

_URL = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>\\]*)")
_OPTION = re.compile(r"(?P<name>[^=&;?#\s]*)=(?P<value>[^&;#]*)")
_SECRET_PARTS = re.compile(
    r"pass(word|wd|phrase)?|pwd|secret|token|api_?-?key|access_?-?key|private_?-?key|signature"
    r"|credential|authorization|session|jwt|authmechanismproperties",
    re.IGNORECASE,
)
_SECRET_NAMES = frozenset({"key", "auth", "sig", "code", "sas", "pw", "hmac"})
_PORTS = re.compile(r"(\[[^]]*\]|[^:,@]*)(:\d*)?(,(\[[^]]*\]|[^:,@]*)(:\d*)?)*\Z")
_UNGUESSABLE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_~.-]{16,}\Z")
_WEB = frozenset({"http", "https", "ws", "wss"})
_SHORTEST_SECRET = 3
_SHORTEST_SHOWN = 6
"""An option of a callback that is shorter is no token, and would hide parts of words."""


def redacted(text: str) -> str:
    """Return a text in which no URL has a secret."""
    if "://" not in text:
        return text
    return _URL.sub(lambda found: _redacted(found[1], found[2]), text)


def redacted_url(url: str) -> str:
    """Return a URL without its secrets: all of the text is taken for one, spaces and quotes too."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        user, _, place = url.rpartition("@")
        return f"{user.partition(':')[0]}:{HIDDEN}@{place}" if ":" in user else url
    return _redacted(scheme, rest)


def redacted_callback(url: str) -> str:
    """Return a client's URL without the values of its options and what in its path was drawn."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in _WEB:
        return url
    place, mark, options = _without_user(scheme, rest).partition("?")
    host, *steps = place.partition("#")[0].split("/")
    shown = "/".join([host, *(HIDDEN if _UNGUESSABLE.match(step) else step for step in steps)])
    named = (each.partition("=") for each in re.split(r"[&;]", options.partition("#")[0]))
    hidden = "&".join(f"{name}={HIDDEN}" if equals else HIDDEN for name, equals, _ in named)
    return f"{scheme}://{shown}{mark}{hidden if options else ''}"


def without_secrets_of(url: str, text: str) -> str:
    """Return a text, such as a library's complaint about a URL, without the URL's secrets."""
    for secret in sorted(set(_secrets(url)), key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return redacted(text)


def without_callback_of(url: str, text: str) -> str:
    """Return what a receiver answered without what it may repeat of its URL's secrets."""
    place, _, options = url.partition("://")[2].partition("#")[0].partition("?")
    secrets = [step for step in place.split("/") if _UNGUESSABLE.match(step)]
    secrets += [each.rpartition("=")[2] for each in re.split(r"[&;]", options)]
    for secret in sorted((s for each in secrets for s in (each, _unescaped(each))), key=len):
        if len(secret) >= _SHORTEST_SHOWN:
            text = text.replace(secret, HIDDEN)
    return text


def _redacted(scheme: str, rest: str) -> str:
    rest = _without_user(scheme, rest)
    place, mark, options = rest.partition("?")
    return f"{scheme}://{place}{mark}{_OPTION.sub(_shown_option, options)}"


def _without_user(scheme: str, rest: str) -> str:
    user, place = _split_user(scheme, rest)
    if user is None:
        return place
    name, colon, _ = user.partition(":")
    if colon:
        return f"{name}:{HIDDEN}@{place}"
    return f"{HIDDEN if scheme.lower() in _WEB else name}@{place}"


def _split_user(scheme: str, rest: str) -> tuple[str | None, str]:
    """Split off user and password, which may have in them what should have been escaped.

    Only addresses of the web have an @ behind their hosts.
    """
    hosts = re.split(r"[/?#]", rest, maxsplit=1)[0]
    is_web = scheme.lower() in _WEB
    if hosts and "@" in rest and (not is_web or "@" in hosts or not _PORTS.match(hosts)):
        user, _, place = rest.rpartition("@")
        return user, place
    return None, rest


def _shown_option(found: re.Match[str]) -> str:
    return f"{found['name']}={HIDDEN}" if _is_secret(found["name"]) else found[0]


def _is_secret(name: str) -> bool:
    return _SECRET_PARTS.search(name) is not None or name.lower() in _SECRET_NAMES


def _secrets(url: str) -> Iterator[str]:
    scheme, _, rest = url.partition("://")
    user, place = _split_user(scheme, rest)
    password = (user or "").partition(":")[2]
    values = [
        found["value"]
        for found in _OPTION.finditer(place.partition("?")[2])
        if _is_secret(found["name"])
    ]
    for secret in [password, *re.split(r"[/@:?#]", password), *values]:
        yield secret
        yield _unescaped(secret)


def _unescaped(text: str) -> str:
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})",
        lambda found: bytes([int(found[1], 16)]),
        text.encode(errors="replace").replace(b"+", b" "),
    )
    return raw.decode(errors="replace")
