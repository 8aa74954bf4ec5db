"""Real work in small pieces: count and factor numbers, and read text.

Run it with `make run`, or by hand: `shunter up --app examples/primes/app.py`.
"""

from __future__ import annotations

import asyncio
import hashlib

from shunter import App, Context

app = App()


@app.job
def count_primes(start: int, stop: int) -> int:
    """Count the primes in [start, stop)."""
    if stop <= 2:
        return 0
    sieve = bytearray([1]) * (stop - start)
    for prime in range(2, int(stop**0.5) + 1):
        first = max(prime * prime, -(-start // prime) * prime)
        if first < stop:
            sieve[first - start :: prime] = bytes(len(range(first, stop, prime)))
    for number in range(start, min(2, stop)):
        sieve[number - start] = 0
    return sum(sieve)


@app.job(timeout=10, retries=1)
def factor(number: int) -> list[int]:
    """Return the prime factors of a number, smallest first."""
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1 if divisor == 2 else 2
    return [*factors, number] if number > 1 else factors


@app.job(priority=1)
async def fingerprint(text: str) -> str:
    """Hash a text; an async handler, as one that waits for a network would be."""
    await asyncio.sleep(0)
    return hashlib.sha256(text.encode()).hexdigest()


@app.job(retries=3)
def moody(ctx: Context, number: int) -> int:
    """Fail now and then, to show that a failure is tried again."""
    if number % 5 == 0 and ctx.attempt == 1:
        raise RuntimeError(f"not in the mood for {number}")
    return number
