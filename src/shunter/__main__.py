"""`python -m shunter` is `shunter`."""

from shunter.cli.main import main

main()
