"""What each layer may import.

A layer is the first part of a module's name inside `shunter`; an entry allows the named module and
all that lies under it.
"""

LAYERS = {
    "model": ("errors", "model"),
    "settings": ("errors", "model", "store.registry"),
    "settings_sources": ("errors", "model", "settings"),
    "wire": ("errors", "model", "wire"),
    "net": ("errors", "model", "wire", "net", "refusal_log"),
    **dict.fromkeys(("errors", "refusal_log", "shown_text", "durable_files"), ()),
    "tracing": ("app", "wire.messages"),  # for annotations
    "private_folder": ("errors",),
    "secret_file": ("errors", "model", "settings", "key_file", "wire"),
    "key_file": ("errors", "model", "durable_files"),
    "store": ("errors", "model", "durable_files", "store"),
    "context": ("errors", "model"),
    "codec": ("errors", "model"),
    "aes_codec": ("errors", "model", "codec"),
    "payload": ("errors", "model", "context"),
    "handler": ("errors", "model", "context", "handler"),
    "job_function": ("errors", "model", "context", "codec", "payload"),
    "app": ("errors", "model", "wire", "context", "codec", "payload", "handler", "job_function"),
    "rerun": ("errors", "context", "durable_files", "rerun"),
    "flow": (
        "errors", "model", "store", "shown_text", "context", "codec", "payload", "app", "rerun",
        "client", "flow",
    ),
    "flow.arrow": ("errors",),
    "flow.location": ("errors", "durable_files", "flow.arrow"),
    "flow.manifest": ("errors", "flow.location"),
    "flow.graph": ("errors", "model", "flow.graph"),
    "flow.sources": (
        "errors", "model", "store", "codec", "client", "rerun", "flow.arrow", "flow.location",
        "flow.manifest", "flow.graph", "flow.sources",
    ),
    "flow.sinks": (
        "errors", "shown_text", "codec", "payload", "client", "rerun", "flow.arrow",
        "flow.location", "flow.manifest", "flow.graph", "flow.sources", "flow.sinks",
        "durable_files",
    ),
    "flow.runtime": (
        "errors", "flow.graph", "flow.sources.port", "flow.sinks.port", "flow.runtime",
    ),
    "flow.pictures": ("errors", "flow.graph", "flow.pictures"),
    "flow.runners": (
        "errors", "flow.graph", "flow.runtime", "flow.sources", "flow.sinks", "flow.runners",
        "flow.arrow", "flow.location", "flow.manifest", "flow.loader", "private_folder",
        "net.connections", "net.unsent_bytes", "key_file", "model.key", "model.retry",
        "net.curve", "durable_files",
    ),
    "flow.runners.local": (
        "errors", "flow.graph", "flow.runtime", "flow.sources", "flow.sinks",
        "flow.runners.assembly", "flow.runners.checkpoint_stores", "flow.runners.port",
        "flow.runners.shared_outputs", "flow.arrow", "flow.location", "flow.manifest",
    ),
    "flow.loader": ("errors", "flow.graph"),
    "reporting": ("errors", "codec", "flow", "rerun", "reporting"),
    "dispatch": ("errors", "model", "store.port", "store.search", "dispatch"),
    "why": ("errors", "model", "store.port", "store.search", "store.memory", "dispatch", "why"),
    "gateway": (
        "errors", "model", "settings", "secret_file", "key_file", "wire", "net", "refusal_log",
        "store.port", "store.search", "store.registry", "store.key_records", "dispatch", "why",
        "gateway",
    ),
    "page": (
        "errors", "model", "wire", "net", "shown_text", "store.port", "store.search", "dispatch",
        "why", "gateway", "flow.job_progress", "flow.runtime.progress", "flow.terms", "page",
    ),
    "worker": (
        "errors", "model", "settings", "key_file", "wire", "net", "refusal_log", "context", "codec",
        "payload", "handler", "app", "tracing", "worker",
    ),
    "client": (
        "errors", "model", "key_file", "wire", "net", "context", "codec", "payload", "app",
        "tracing", "client",
    ),
    "testing": (
        "errors", "model", "settings", "settings_sources", "wire", "net", "store", "context",
        "codec", "payload", "handler", "app", "flow", "dispatch", "gateway", "worker", "client",
        "testing",
    ),
    "django": ("app", "client", "context", "errors", "model", "payload"),
    "pytest_plugin": ("app", "errors", "flow.runners", "testing", "__init__"),
    "cli": (
        "errors", "model", "settings", "settings_sources", "secret_file", "key_file", "wire", "net",
        "private_folder", "shown_text", "store", "context", "codec", "payload", "app", "flow",
        "reporting", "dispatch", "why", "gateway", "page", "worker", "client", "testing", "cli",
        "__init__",
    ),
    "__init__": (
        "errors", "model", "context", "codec", "aes_codec", "payload", "app", "flow", "client",
    ),
    "__main__": ("cli",),
}  # fmt: skip
