"""Apps whose jobs are encrypted: one for each kind of worker, so that a test can choose."""

from __future__ import annotations

import os
import signal
import time

from shunter import AesCodec, App, Codec, Context, Retry

K1, K2 = bytes([1]) * 32, bytes([2]) * 32


def vault(prefix: str, codec: Codec) -> App:
    app = App(codec=codec)

    @app.job(name=f"{prefix}.speak")
    def speak(ctx: Context, text: str) -> dict[str, str]:
        ctx.progress(1, 2, note=f"note {text}")
        print("log", text)
        return {"said": text}

    @app.job(name=f"{prefix}.fail", retry=Retry(limit=1, delay=0.01))
    def fail(text: str) -> None:
        raise ValueError(f"error {text}")

    @app.job(name=f"{prefix}.die")
    def die(text: str) -> None:
        print("last words", text, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    @app.job(name=f"{prefix}.hang", timeout=0.3)
    def hang(ctx: Context, text: str) -> None:
        while not ctx.cancelled():
            time.sleep(0.01)
        raise TimeoutError(f"stopped {text}")

    @app.job(name=f"{prefix}.size")
    def size(data: bytes) -> bytes:
        return data

    return app


app = vault("zmq", AesCodec({"k1": K1}))
over_http = vault("http", AesCodec({"k1": K1}))
over_udp = vault("udp", AesCodec({"k1": K1}))
rotated = vault("rotated", AesCodec({"k2": K2, "k1": K1}, current="k2"))
