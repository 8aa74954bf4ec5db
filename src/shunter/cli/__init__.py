"""The command line: what people type, and what they see."""
