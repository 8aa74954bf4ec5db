"""Two directories change places in one step: renameat2(2) with RENAME_EXCHANGE.

Python has no call for it. Linux has it since 3.15, on ext4, xfs, btrfs, tmpfs and others; not
on NFS. Must not know staging.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}


def exchange(one: Path, other: Path) -> bool:
    """Let two paths that exist change places; False where the system or disk can't."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        renameat2 = libc.renameat2
    except AttributeError:
        return False
    if renameat2(_AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
