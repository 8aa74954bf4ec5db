"""The settings that matter here; a real project has more."""

SECRET_KEY = "only for the example"
USE_TZ = True
INSTALLED_APPS = ["newsletter.letters"]
TASKS = {
    "default": {
        "BACKEND": "shunter.django.ShunterBackend",
        "QUEUES": ["default", "bulk"],
        "OPTIONS": {"retries": 3, "timeout": 60},
    }
}
