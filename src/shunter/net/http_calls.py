"""Calls that we make over HTTP, to workers and to those who want to be called back.

One way for all of them: JSON out, no redirects, a time limit on the whole call, and no more of the
answer kept than an error message needs. Addresses are resolved once a call, and only those that
`may_call` lets through are connected to, so that a name can't lead elsewhere than was checked.
Over https:// the peer's certificate and name are verified, always.
The library for it is imported with the first call: most dispatchers never make one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from shunter.errors import ShunterError
from shunter.model.redaction import redacted_callback
from shunter.net.tls import TlsContext

if TYPE_CHECKING:
    import aiohttp

KEPT_BYTES = 64 * 1024
"""How much of an answer is read; the connection is closed on one that is longer."""

CONNECT_SECONDS = 3.0


class CallFailed(ShunterError):
    """A call that got no answer. `was_sent` tells whether the peer may have seen it."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class CallForbidden(CallFailed):
    """The address is one that may not be called."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, was_sent=False)


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Caller:
    """Makes calls on connections that are kept open for the next one. Close it last."""

    def __init__(
        self,
        *,
        at_once: int,
        may_call: Callable[[str, str], bool] = lambda host, address: True,
        headers: Mapping[str, str] | None = None,
        tls: TlsContext | None = None,
    ) -> None:
        self._at_once = at_once
        self._tls = tls
        self._may_call = may_call
        self._headers = {"User-Agent": "shunter", **(headers or {})}
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        json: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the answer, whatever its status, or raise CallFailed."""
        import aiohttp

        from shunter.net.checked_names import AddressForbidden

        session = self._open()
        self._check(url)
        if self._tls is not None and url.startswith("https:"):
            self._tls.refresh()
        sent = dict(headers or {})
        if json is not None:
            sent["Content-Type"] = "application/json"
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))
        try:
            async with session.request(
                method, url, data=json, headers=sent, timeout=limit, allow_redirects=False
            ) as response:
                return Answer(response.status, await _beginning(response))
        except aiohttp.ClientSSLError as error:
            reason = f"can't connect to {_place(url)}: {_tls_cause(error)}"
            raise CallFailed(reason, was_sent=False) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            cause = getattr(error, "os_error", None)
            if isinstance(cause, AddressForbidden):
                raise CallForbidden(_cause(cause)) from None
            raise CallFailed(f"can't connect to {_place(url)}: {_cause(error)}", was_sent=False)\
                from None  # fmt: skip
        except (aiohttp.InvalidURL, ValueError) as error:
            shown = redacted_callback(url)[:128]
            fault = str(error).replace(url, shown)
            raise CallFailed(f"{shown!r} can't be called: {fault}", was_sent=False) from None
        except TimeoutError:
            reason = f"no answer from {_place(url)} within {seconds:g} s"
            raise CallFailed(reason, was_sent=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallFailed(f"{_place(url)} broke off: {_cause(error)}", was_sent=True) from None

    def _check(self, url: str) -> None:
        """Refuse what can't be called; a host that is an address is never resolved."""
        from yarl import URL

        try:
            host = URL(url).host or ""
            ip_address(host)
        except ValueError:
            return
        if not self._may_call(host, host):
            raise CallForbidden(f"{host} may not be called")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        from shunter.net.checked_names import CheckedNames

        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._at_once,
                resolver=CheckedNames(self._may_call),
                use_dns_cache=False,
                keepalive_timeout=60.0,
                ssl=True if self._tls is None else self._tls.context,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
            )
        return self._session


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    body = await response.content.read(KEPT_BYTES)
    while len(body) < KEPT_BYTES and not response.content.at_eof():
        body += await response.content.read(KEPT_BYTES - len(body))
    if not response.content.at_eof():
        response.close()
    return body


def _place(url: str) -> str:
    """Write an address without its path and without what may be secret in it."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2][:128]


def _tls_cause(error: Any) -> str:
    """Say why a peer is not trusted, or does not trust us."""
    found = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    reason = getattr(found, "verify_message", None) or getattr(found, "reason", None) or found
    return f"TLS failed ({str(reason)[:200]}); its authority goes into auth.ca_file"


def _cause(error: Any) -> str:
    """Say in a few words what the system said."""
    found = getattr(error, "os_error", None) or error
    return str(getattr(found, "strerror", None) or found or type(found).__name__)[:200]
