"""Who is signed in, without a memory: a cookie that only dispatchers of this store can make. Pure.

It names a key, not its token, and holds as long as the key does. The token of a form ties it to
the session of the page that it stood on. Threat model: SECURITY.md.
"""

from __future__ import annotations

import hashlib
import hmac

from shunter.model.key import Key, KeyRing

COOKIE = "shunter_session"
SESSION_SECONDS = 12 * 3600.0


def sealed(key: Key, *, now: float, secret: bytes) -> str:
    """Return the cookie of somebody who has shown the token of a key."""
    expiry = int(now + SESSION_SECONDS)
    return f"{key.name}:{expiry}:{_mark(secret, key, expiry)}"


def opened(cookie: str, ring: KeyRing, *, now: float, secret: bytes) -> Key | None:
    """Return whose cookie it is, None if it does not count or no longer does."""
    name, _, rest = cookie.partition(":")
    expiry, _, mark = rest.partition(":")
    key = ring.named(name)
    if key is None or not (expiry.isascii() and expiry.isdecimal()) or len(expiry) > 12:
        return None
    is_genuine = hmac.compare_digest(mark.encode(), _mark(secret, key, int(expiry)).encode())
    return key if is_genuine and now < int(expiry) else None


def form_token(cookie: str, *, secret: bytes) -> str:
    """Return what a form of this session carries."""
    return hmac.new(secret, b"page-form:" + cookie.encode(), hashlib.sha256).hexdigest()


def is_own_form(token: str, cookie: str, *, secret: bytes) -> bool:
    """True if a form stood on a page of this session."""
    wanted = form_token(cookie, secret=secret)
    return hmac.compare_digest(token.encode(errors="replace"), wanted.encode())


def _mark(secret: bytes, key: Key, expiry: int) -> str:
    said = f"page-session:{key.name}:{key.token_hash}:{expiry}".encode()
    return hmac.new(secret, said, hashlib.sha256).hexdigest()
