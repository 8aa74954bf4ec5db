"""What workers load: `shunter up --app newsletter.worker`, in `examples/`."""

import os

from shunter.django import make_worker_app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "newsletter.settings")
app = make_worker_app()
