"""Jobs submitted over HTTP, beside what an HTTP server in plain Python can do here at all.

The limit is a Starlette application on uvicorn, run as a dispatcher runs its own, that reads the
body of a POST and answers with a few bytes of JSON: no checks, no job, no commit. Against it a
real `shunter dispatcher` on an SQLite file, without workers, so that jobs are stored and wait.
The same load goes to both, in turns. In the end the store must have as many jobs as were answered.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from statistics import median
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bench.stage import Dispatcher, Stage, await_answer, conclude, free_ports, say, sizes
from shunter import AsyncClient
from shunter.net.web.server import bound_listener, http_server

PATH = "/dispatcher/jobs/"


async def _empty(request: Request) -> Response:
    await request.body()
    return JSONResponse({"ok": True}, 201)


def serve_empty(port: int) -> None:
    """Serve the empty POST."""
    app = Starlette(routes=[Route(PATH, _empty, methods=["GET", "POST"])])
    listener = bound_listener("127.0.0.1", port, key="port", remedy="another port")
    asyncio.run(http_server(app).serve(sockets=[listener]))


def load(port: int, seconds: int, token: str = "") -> dict[str, Any]:
    """Post jobs for some seconds, and return how many were answered."""
    command = [sys.executable, "-m", "bench.load", str(port), PATH, str(seconds), token]
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, timeout=seconds + 60
    ).stdout
    figures: dict[str, Any] = json.loads(printed)["figures"]
    return figures


async def _stored(frontend: str) -> int:
    async with AsyncClient(frontend) as client:
        return sum(count for _, _, count in (await client.standing()).backlog)


def main() -> None:
    chosen = sizes(__doc__ or "", seconds=3, rounds=5)
    with Stage() as stage:
        (port,) = free_ports(1)
        empty = stage.start("-m", "bench.posting", "as", "empty", str(port))
        dispatcher = Dispatcher(stage, "http").ready()
        await_answer(stage, empty, f"http://127.0.0.1:{port}{PATH}")
        runs: dict[str, list[dict[str, Any]]] = {"limit": [], "shunter": []}
        for number in range(chosen.rounds):
            for name, at in (("limit", port), ("shunter", dispatcher.port)):
                say(f"POSTs to {name}", number, chosen.rounds)
                runs[name].append(load(at, chosen.seconds))
        stored = asyncio.run(_stored(dispatcher.frontend))
        answered = sum(run["total"] for run in runs["shunter"])
        assert stored == answered, f"{stored:,} jobs are stored, {answered:,} were answered"
    conclude(
        limit_per_second=median(run["per_second"] for run in runs["limit"]),
        shunter_per_second=median(run["per_second"] for run in runs["shunter"]),
        runs=runs,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["as", "empty", port]:
            serve_empty(int(port))
        case _:
            main()
