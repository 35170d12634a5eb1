"""The same bad inputs and faults for nlptools and for the usual packages: see README.md here."""
