"""A Django project whose tasks run on Shunter."""
