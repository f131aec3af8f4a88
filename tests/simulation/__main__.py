"""Run seeds: `python -m simulation --seed 7 --trace`, or many with `--seeds 0-9999 --jobs 8`."""

import sys

from simulation import soak

if __name__ == "__main__":
    sys.exit(soak.main(sys.argv[1:]))
