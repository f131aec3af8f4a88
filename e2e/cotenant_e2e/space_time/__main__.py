"""`python -m cotenant_e2e.space_time`: measure, with the standard library and torch alone, and write JSON.

Tables and plots are made of it by `python -m cotenant_e2e space-time --from FILE`.
"""

import argparse
import sys
from pathlib import Path

from cotenant_e2e.space_time import measuring, processes


def main() -> int:
    """Measure. 1: a measured process has ended early."""
    parser = argparse.ArgumentParser(prog="cotenant_e2e.space_time", description=__doc__)
    measuring.add(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON document of the results")
    arguments = parser.parse_args()
    try:
        run = measuring.run(arguments)
    except processes.WorkerError as error:
        print(f"cotenant_e2e.space_time: {error}", file=sys.stderr)
        return 1
    measuring.keep(run, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
