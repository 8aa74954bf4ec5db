"""Which bucket a key is in: the same for equal keys in every task, and quickly worked out.

A bucket is a share of the keys of one node, small enough to be worked on at once. It is not the
digest that `stable_hash` makes, which takes two microseconds for each key: numbers are multiplied,
texts have their CRC, and only other keys have the digest. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any
from zlib import crc32

from shunter.flow.arrow import arrow
from shunter.flow.graph.keys import stable_hash

MOST_BUCKETS, LEAST_EACH = 256, 8
"""As many buckets as all nodes have together, and what one node has at least."""

_FACTOR = 0x9E3779B97F4A7C15
_SHIFT = 33
_64_BITS = (1 << 64) - 1


def buckets_for(nodes: int) -> int:
    """Return into how many buckets the keys of each node are put."""
    return max(LEAST_EACH, MOST_BUCKETS // nodes)


def bucket_indexes(keys: Sequence[Any], count: int) -> Any:
    """Return for each key its bucket among all of them, as an array; raises as `stable_hash`."""
    np = arrow("numpy")
    kinds = set(map(type, keys))
    if kinds <= {int}:
        try:
            return number_indexes(np.array(keys, np.int64), count)
        except OverflowError:
            pass
    if kinds == {str}:
        hashes = [crc32(key.encode("utf-8", "surrogatepass")) for key in keys]
        return np.array(hashes, np.int64) % count
    return np.array([_hash(key) % count for key in keys], np.int64)


def number_indexes(keys: Any, count: int) -> Any:
    """Return the bucket of each number of an array."""
    np = arrow("numpy")
    mixed = keys.astype(np.int64).view(np.uint64) * np.uint64(_FACTOR)
    return ((mixed >> np.uint64(_SHIFT)) % np.uint64(count)).astype(np.int64)


def _hash(key: Any) -> int:
    match key:
        case Enum():
            return _hash(key.value)
        case str():
            return crc32(str.__str__(key).encode("utf-8", "surrogatepass"))
        case int() if -(2**63) <= key < 2**63:
            return ((int(key) * _FACTOR) & _64_BITS) >> _SHIFT
        case float() if key.is_integer():
            return _hash(int(key))
    return stable_hash(key)
