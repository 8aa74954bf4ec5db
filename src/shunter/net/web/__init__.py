"""Serving HTTP: what dispatchers and HTTP workers have in common.

A server inside the loop, bodies of bounded size, and one form for all errors. What is served is
decided in `gateway/web/` and `worker/http/`.
"""
