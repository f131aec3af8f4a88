"""The graph documents of job mixes that ship are what their generator makes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_committed_graphs_of_the_horus_mix_are_what_is_extracted_now() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'manifests' / 'examples' / 'models')!r}); "
        "from published_models import __main__ as m; "
        f"sys.argv[1:] = ['--only', 'horus', '--check', {str(ROOT / 'simulator' / 'cotenant_simulator')!r}]; "
        "sys.exit(m.main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
