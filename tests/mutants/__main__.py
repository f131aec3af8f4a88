"""Run mutants of the extender: `python -m mutants` (see `make mutants`)."""

import sys

from mutants import cli

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
