"""`python -m peryton`: the command line."""

from peryton.cli import main

main()
