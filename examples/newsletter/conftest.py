"""Django wants its settings before tasks are imported."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "newsletter.settings")
django.setup()
