"""`python -m nlptools`, and the script `nlptools`."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has told the process to ignore it
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # first of all: Ctrl-C ends the imports without a traceback, too

from nlptools.cli import main

if __name__ == "__main__":
    main()
