"""Calls over HTTP: with `httpx.get` and its like each one would load all certificates anew."""

from __future__ import annotations

import httpx

from system.yard import PATIENCE

calls = httpx.Client(
    trust_env=False, timeout=PATIENCE, limits=httpx.Limits(max_keepalive_connections=0)
)
"""No connection is used twice: who answers may have been killed meanwhile."""
