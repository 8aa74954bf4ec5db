"""The UDP gateway: clients and calculators on one port. Spec: docs/spec/udp.md."""
