"""A worker behind HTTP alone: dispatchers call it, and it calls them.

`holdings`, `http_lease`, `postbag`, `schedule`, `verdicts` and `offers` decide; `host`, `routes`,
`reporter` and `registrar` do what they say. Spec: docs/spec/http-workers.md.
"""
