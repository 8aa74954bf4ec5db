"""Jobs under a full load, in turns with pages open and without: what do open pages cost?

A dispatcher, a worker and a client that keeps both busy, for all of a round. Every few seconds
pages are opened, which follow views by server-sent events, or closed again. Of each turn without
its first moment it is noted how many jobs ended and how much processor time the dispatcher took.
A round is some turns of each kind, and compares the median of those with pages with that of the
others. Turns are short, since a store that grows is slower, and now and then the dispatcher reads
its whole file for damage.

In a round of nothing no page is ever opened, and turns are compared all the same: by so much
rounds differ without any reason.

The pages' readers are a process of their own that drops what it reads. They use the processors
of the same machine, so what they take counts as a cost of pages here; how much that is, is kept.
"""

from __future__ import annotations

import asyncio
import sys
import time
from statistics import median
from typing import NamedTuple

import psutil

from bench.bench_app import echo
from bench.stage import Dispatcher, say
from shunter import AsyncClient

VIEWS = ("overview", "jobs", "workers", "dispatchers")
AT_ONCE = 3
"""So many batches are under way, so that the dispatcher never waits for the client."""

BATCH = 2000
SETTLE_SECONDS = 0.5
WARM_UP_SECONDS = 3.0


class Turn(NamedTuple):
    """What was done in one turn."""

    jobs_per_second: float
    cpu_per_job: float
    readers_cpu: float


class Load:
    """Jobs without a pause; `done` is how many have ended so far."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._is_over = False
        self.done = 0

    async def run(self) -> None:
        async with AsyncClient(self._dispatcher.frontend) as client:
            await asyncio.gather(*(self._batches(client) for _ in range(AT_ONCE)))

    def stop(self) -> None:
        self._is_over = True

    async def _batches(self, client: AsyncClient) -> None:
        while not self._is_over:
            for job in await client.submit_many(echo, range(BATCH)):
                await job.result(timeout=60.0)
                self.done += 1


class Readers:
    """Open pages, whenever they are asked for."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process, self._watched = process, psutil.Process(process.pid)

    @classmethod
    async def started(cls, dispatcher: Dispatcher, pages: int) -> Readers:
        command = ("-m", "bench.watched", "as", "readers", str(dispatcher.port), str(pages))
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(sys.executable, *command, stdin=pipe, stdout=pipe)
        )

    async def order(self, word: str) -> int:
        """Have all pages opened or closed, and return how many bytes they have read so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n".encode())
        return int(await self._process.stdout.readline())

    def cpu_seconds(self) -> float:
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    async def stop(self) -> None:
        self._process.kill()
        await self._process.wait()


async def turn(dispatcher: Dispatcher, load: Load, readers: Readers, seconds: float) -> Turn:
    """Measure one turn."""
    await asyncio.sleep(SETTLE_SECONDS)
    began, done = time.perf_counter(), load.done
    cpu, readers_cpu = dispatcher.cpu_seconds(), readers.cpu_seconds()
    await asyncio.sleep(seconds)
    ended = load.done - done
    return Turn(
        ended / (time.perf_counter() - began),
        (dispatcher.cpu_seconds() - cpu) / ended,
        readers.cpu_seconds() - readers_cpu,
    )


async def rounds_of(
    dispatcher: Dispatcher, *, rounds: int, turns: int, seconds: float, pages: int
) -> list[dict[str, float]]:
    """Return what each round found; the last one is the round of nothing."""
    load, readers = Load(dispatcher), await Readers.started(dispatcher, pages)
    found = []
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await asyncio.sleep(WARM_UP_SECONDS)
        for number in range(rounds + 1):
            say("rounds", number, rounds + 1)
            is_of_nothing = number == rounds
            seen: dict[bool, list[Turn]] = {False: [], True: []}
            read = await readers.order("close")
            for at in range(2 * turns):
                is_watched = at % 4 in (1, 2)
                await readers.order("open" if is_watched and not is_of_nothing else "close")
                seen[is_watched].append(await turn(dispatcher, load, readers, seconds))
            read = await readers.order("close") - read
            assert (read == 0) is is_of_nothing, f"pages read {read} bytes"
            found.append(_compared(seen[False], seen[True], read))
        load.stop()
    await readers.stop()
    return found


def _compared(alone: list[Turn], watched: list[Turn], read: int) -> dict[str, float]:
    rate, price = median(it.jobs_per_second for it in alone), median(it[1] for it in alone)
    return {
        "part": median(it.jobs_per_second for it in watched) / rate,
        "price": median(it.cpu_per_job for it in watched) / price,
        "jobs_per_second": rate,
        "readers_cpu": sum(it.readers_cpu for it in watched),
        "bytes": read,
    }


class Page(asyncio.Protocol):
    """Asks for the stream of a view, and counts its bytes."""

    read = 0

    def __init__(self, port: int, view: str) -> None:
        self._request = f"GET /live?view={view} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request.encode())

    def data_received(self, data: bytes) -> None:
        Page.read += len(data)


async def _read(port: int, pages: int) -> None:
    loop, opened = asyncio.get_running_loop(), list[asyncio.BaseTransport]()
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        for transport in opened:
            transport.close()
        opened.clear()
        for at in range(pages if word == "open" else 0):
            view = VIEWS[at % len(VIEWS)]
            transport, _ = await loop.create_connection(
                lambda view=view: Page(port, view),  # type: ignore[misc]
                "127.0.0.1",
                port,
            )
            opened.append(transport)
        print(Page.read, flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["as", "readers", port, pages]:
            asyncio.run(_read(int(port), int(pages)))
