"""A worker over UDP: calculators, one for each slot, that share a crew.

`seat` and `completions` decide; `calculator` does what they say. Spec: docs/spec/udp.md.
"""
