"""Texts that must stay texts, wherever a page shows them."""

from __future__ import annotations

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><svg onload=window.hacked=1>',
    "'; window.hacked = 1; //",
    "{{ 7 * 7 }}{% raw %}${window.hacked = 1}",
    "</textarea></pre></title><script>window.hacked=1</script>",
    "javascript:window.hacked=1",
    "\x1b]8;;http://evil\x07click\x1b]8;;\x07 \u202egnp.exe \x00 \x85",
    "data: event\n\nevent: change\ndata: {}",
    "a" * 5000,
)
