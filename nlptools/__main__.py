"""`python -m nlptools`, and the script `nlptools`."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has told the process to ignore it
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # first of all: Ctrl-C ends the imports without a traceback, too

from nlptools.errors import NotInstalled

try:
    from nlptools.cli import main
except ModuleNotFoundError as error:
    missing = NotInstalled(error)
    sys.stderr.write(f"nlptools: {missing}\n  hint: {missing.hint}\n")
    sys.exit(missing.exit_code)

if __name__ == "__main__":
    main()
