"""Ask the dispatcher in this container whether it serves; ends with 1 if it does not.

It reads the settings as the dispatcher does (./shunter.toml and the environment), so it knocks at
the right port. The certificate is not checked: this is about life, and never leaves loopback.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request

from shunter.settings import EVERYWHERE
from shunter.settings_sources import load_settings

http = load_settings(None, os.environ, {}).settings.http
has_tls = bool(getattr(http, "tls_certificate", ""))
host = EVERYWHERE.get(http.host, http.host)
url = (
    f"{'https' if has_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{http.port}/healthz"
)
unchecked = ssl._create_unverified_context() if has_tls else None  # noqa: S323
try:
    urllib.request.urlopen(url, timeout=4, context=unchecked).close()  # noqa: S310
except OSError as error:
    sys.exit(f"{url}: {error}")
