"""Who a peer is, and what it may do: keys, their roles, and the one table of rights.

A key has a name, a role and limits; peers show it as a CURVE key (ZeroMQ), as a token (HTTP) or as
a signature (UDP). Only what proves a key is kept here, never what it is proved with: the
CURVE secret and the token stay in the peer's key file. Over UDP both sides sign with the same
bytes, so `udp_key` is kept; it is made from the token and proves nothing elsewhere.
Pure: randomness and clocks are the caller's. Threat model: SECURITY.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
NAME_RULE = "1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"

PUBLIC_LENGTH = 40
"""Characters of a CURVE key in Z85."""

TOKEN_BYTES = 32


class Role(StrEnum):
    """What a key is for."""

    CLIENT = "client"
    WORKER = "worker"
    DISPATCHER = "dispatcher"
    OPERATOR = "operator"
    READER = "reader"


class Action(StrEnum):
    """What a peer may ask for."""

    SUBMIT = "submit jobs"
    SEE_JOBS = "see jobs"
    CANCEL = "cancel jobs"
    WORK = "serve as a worker"
    SEE_SYSTEM = "see workers and metrics"
    OPERATE = "change what belongs to others"


RIGHTS: dict[Role, frozenset[Action]] = {
    Role.CLIENT: frozenset({Action.SUBMIT, Action.SEE_JOBS, Action.CANCEL}),
    Role.WORKER: frozenset({Action.WORK}),
    Role.DISPATCHER: frozenset(),
    Role.OPERATOR: frozenset(Action) - {Action.WORK},
    Role.READER: frozenset({Action.SEE_JOBS, Action.SEE_SYSTEM}),
}
"""All that each role may do. What a dispatcher's key is good for is to be recognised by."""


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One key, as dispatchers know it. Without `types` it may serve any."""

    name: str
    role: Role
    public: str
    token_hash: str
    udp_key: str
    types: tuple[str, ...] = ()
    namespace: str = ""
    created: float = 0.0
    revoked: float | None = None

    def permits(self, action: Action) -> bool:
        """True if the key's role may do that."""
        return action in RIGHTS[self.role]

    def serves(self, job_type: str) -> bool:
        """True if a worker with this key may be given jobs of a type."""
        return self.role is Role.WORKER and (not self.types or job_type in self.types)

    def owns_worker(self, worker_id: str) -> bool:
        """True if a worker of this id is this key's: a name and a colon stand before it."""
        return worker_id.startswith(f"{self.name}:")

    def refusal(self, action: Action) -> str | None:
        """Say that this key may not do something, if so."""
        if self.permits(action):
            return None
        may = ", ".join(role for role in Role if action in RIGHTS[role])
        return f"key {self.name!r} is a {self.role}'s and may not {action}; use the key of a {may}"

    def sees(self, namespace: str) -> bool:
        """True if jobs of a namespace are for this key to see.

        Operators and readers without a namespace of their own see all.
        """
        sees_all = self.role in (Role.OPERATOR, Role.READER) and not self.namespace
        return sees_all or self.namespace == namespace


class CurvePair(Struct, frozen=True):
    """A key pair of ZeroMQ's, in Z85. `server` is the public key of whoever is connected to."""

    public: str
    secret: str
    server: str | None = None

    def __repr__(self) -> str:
        return f"CurvePair({self.public!r})"


class KeyRing:
    """All keys that count. It never changes: whoever reads the list anew makes another."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._live = {key.name: key for key in keys if key.revoked is None}
        self._by_public = {key.public: key for key in self._live.values()}
        self._by_token = {key.token_hash: key for key in self._live.values()}

    def __len__(self) -> int:
        return len(self._live)

    def named(self, name: str) -> Key | None:
        """Return the key of this name."""
        return self._live.get(name)

    def with_public(self, public: str) -> Key | None:
        """Return the key that a CURVE peer has shown."""
        return self._by_public.get(public)

    def with_token(self, token: str) -> Key | None:
        """Return the key that a token belongs to."""
        return self._by_token.get(token_hash(token))


def token_hash(token: str) -> str:
    """Return what is kept of a token: it is long and random, so one hash hides it."""
    return hashlib.sha256(b"http:" + token.encode()).hexdigest()


def udp_key(token: str) -> bytes:
    """Return what both sides sign packets with."""
    return hashlib.sha256(b"udp:" + token.encode()).digest()


def run_secret(system_secret: bytes, job_id: str, attempt: int) -> bytes:
    """Return the bytes that come with a run, and that only its worker can show with its reports."""
    run = f"{job_id}/{attempt}".encode()
    return hashlib.blake2b(run, key=system_secret, digest_size=16).digest()
