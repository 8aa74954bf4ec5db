"""How fast Shunter is, measured beside what this machine allows at all. Run with `make bench`."""
