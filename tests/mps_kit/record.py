"""`python -m mps_kit.record`: ask NVIDIA's control programs of the cache everything, and keep what they say."""

import json
import sys

from mps_kit import programs, session
from node_kit import quick


def main() -> int:
    """One file for each driver."""
    session.heed_interrupts()
    session.ANSWERS.mkdir(exist_ok=True)
    for real in programs.found():
        with quick.folder() as folder:
            exchanges = list(session.run(real, folder))
        for old in session.ANSWERS.glob(f"{real.major}.*[0-9].json"):
            old.unlink()
        kept = {"driver": real.version, "arguments": real.arguments, "exchanges": exchanges}
        text = json.dumps(kept, indent=1)
        (session.ANSWERS / f"{real.version}.json").write_text(f"{text}\n")
        print(f"{real.version}: {len(exchanges)} exchanges")
    return 0 if programs.found() else 1


if __name__ == "__main__":
    sys.exit(main())
