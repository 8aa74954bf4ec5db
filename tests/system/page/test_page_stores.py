"""Any dispatcher's page shows the whole system, on either store: it goes by the store alone."""

from __future__ import annotations

import httpx
import pytest

from system.yard import Yard, until


@pytest.mark.parametrize("store_url", ["sqlite", "mongodb"], indirect=True)
def test_each_view_shows_what_went_by_another_dispatcher(yard: Yard, store_url: str) -> None:
    other = yard.dispatcher("other", store__url=store_url, udp__enabled=False)
    asked = yard.dispatcher("asked", store__url=store_url, udp__enabled=False)
    yard.worker(other, slots=2)
    client = yard.client(other)
    done, kept = client.submit("add", 1, 2), client.submit("nobody_does_this", 1)
    assert done.result() == 3
    with client.workflow("thumbnails") as run:
        run.job("nobody_does_this", 2, after=run.job("nobody_does_this", 1))
    for words in (
        ("schedule", "put", "nightly", "add", "1", "2", "--cron", "0 3 * * *"),
        ("limits", "set", "add", "--total", "3"),
    ):
        told = yard.shunter(*words, station=other)
        assert told.returncode == 0, told.stderr
    worker_id = client.workers()[0].id

    views = {
        "/": ("nobody_does_this", "no worker"),
        "/jobs": (done.id, kept.id),
        "/jobs?type=add": (done.id,),
        "/jobs?status=queued": (kept.id,),
        f"/jobs?worker={worker_id}": (done.id,),
        f"/jobs?key={kept.id}": (kept.id,),
        f"/jobs/{done.id}": ("completed", "Attempts", worker_id),
        f"/jobs/{kept.id}": ("queued", "no worker"),
        "/workflows": ("thumbnails", run.id),
        f"/workflows/{run.id}": ("<svg", run.jobs[0].id),
        "/flows": ("Flows",),
        "/schedules": ("nightly", "03:00:00"),
        "/schedules/nightly": ("0 3 * * *",),
        "/limits": ("add", "3 at once"),
        "/limits/add": ("3 at once",),
        "/workers": (worker_id, "ZeroMQ"),
        "/dispatchers": ("serves this page",),
    }
    with httpx.Client(base_url=asked.url, trust_env=False) as page:

        def missing() -> list[tuple[str, str]]:
            return [
                (path, text)
                for path, texts in views.items()
                for text in texts
                if text not in page.get(path).raise_for_status().text
            ]

        until(lambda: not missing(), what="all views of all there is")
        seen: list[str] = []
        path: str | None = "/jobs?status=queued&type=nobody_does_this"
        many = [client.submit("nobody_does_this", n).id for n in range(60)]
        while path is not None:  # page by page, by the cursor
            text = page.get(path).raise_for_status().text
            seen += [row.partition('"')[0] for row in text.split('<tr data-row="')[1:]]
            following = text.partition('<a rel="next" href="')[2].partition('"')[0]
            path = following.replace("&amp;", "&") or None
    assert len(seen) == len(set(seen))
    assert set(many) <= set(seen)
