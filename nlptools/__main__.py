"""`python -m nlptools`."""

from nlptools.cli import main

main()
