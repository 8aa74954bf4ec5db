"""A worker over UDP: calculators, one for each slot, that share a pool.

`calculator_session` and `completions` decide; `calculator` does what they say.
Spec: docs/spec/udp.md.
"""
