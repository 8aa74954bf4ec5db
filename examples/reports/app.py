"""A job that can be killed anywhere and run again: a report in a file, a table and a collection.

`run.py` beside it does just that. By hand: `shunter up --app examples/reports/app.py`.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from shunter import App, Context
from shunter.rerun import staged_collection, staged_file, staged_table

app = App()

COLUMNS = ("account", "month", "cents")
SCHEMA = "account TEXT PRIMARY KEY, month TEXT NOT NULL, cents INTEGER NOT NULL"
BATCH = 500


@app.job
def report(
    ctx: Context,
    folder: str,
    month: str,
    accounts: int,
    pause: float = 0.0,
    mongodb: str | None = None,
) -> int:
    """Write what each account has spent, and return the sum; `pause` makes it slow to watch.

    Everything is staged first, and published when the block ends without an error.
    """
    total = 0
    with ExitStack() as stack:
        file = stack.enter_context(staged_file(Path(folder, "report.csv"), newline=""))
        table = stack.enter_context(
            staged_table(Path(folder, "report.db"), "report", schema=SCHEMA)
        )
        documents = stack.enter_context(staged_documents(stack, mongodb)) if mongodb else None
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for rows in batches(month, accounts):
            lines.writerows(rows)
            file.flush()
            table.insert(rows)
            if documents is not None:
                documents.insert_many([dict(zip(COLUMNS, row, strict=True)) for row in rows])
            total += sum(row[2] for row in rows)
            ctx.progress(int(rows[-1][0][1:]), accounts)
            time.sleep(pause)
    return total


def staged_documents(stack: ExitStack, url: str) -> Any:
    # Imported here, so that the example needs no MongoDB where none is given.
    from pymongo import MongoClient

    client = stack.enter_context(MongoClient[dict[str, Any]](url))
    return staged_collection(client.get_default_database("reports")["report"])


def batches(month: str, accounts: int) -> Iterator[list[tuple[str, str, int]]]:
    """Work out the figures, always the same ones for the same month."""
    rows = []
    for number in range(1, accounts + 1):
        account = f"A{number:07}"
        digest = sha256(f"{account} {month}".encode()).digest()
        rows.append((account, month, int.from_bytes(digest[:3], "big")))
        if len(rows) == BATCH or number == accounts:
            yield rows
            rows = []
