"""Where a local Spark is started from: PySpark's own folder, without its zipped copy of itself.

Spark puts `python/lib/pyspark.zip` before everything else on the path of its Python processes.
There is no compiled code in it, so each of them compiles all of PySpark anew, for half a second of
processor time, and a stream starts five before its first batch. Here their Python is ours, which
has PySpark installed and compiled. So Spark is shown a folder that has all but the zip.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

LINKED = ("bin", "jars", "conf")
HOME, PYTHONS = "SPARK_HOME", ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


@contextmanager
def home_without_zip(pyspark: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Have Spark started from there, unless somebody chose a Spark or a Python."""
    is_chosen = HOME in os.environ or "spark.pyspark.python" in settings
    is_ours = all(os.environ.get(name, sys.executable) == sys.executable for name in PYTHONS)
    if is_chosen or not is_ours or not (pyspark / "jars").is_dir():
        yield
        return
    with suppress(OSError):
        os.environ[HOME] = str(_linked(pyspark))
    try:
        yield
    finally:
        os.environ.pop(HOME, None)


def _linked(pyspark: Path) -> Path:
    """Return a folder with links into PySpark's, which is made once for each PySpark."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "shunter" / f"spark-{sha256(bytes(pyspark)).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        if (pyspark / name).is_dir():
            with suppress(FileExistsError):
                (folder / name).symlink_to(pyspark / name)
    return folder
