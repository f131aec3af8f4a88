"""The graph documents of published jobs that ship are what their generator makes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


DATASETS = ROOT / "predictor" / "cotenant_predictor" / "datasets"
FOLDERS = {
    "horus": ROOT / "simulator" / "cotenant_simulator",
    **dict.fromkeys(("alnair", "carma", "gavel", "miso", "neusight", "timm", "zeus"), DATASETS),
}
EVERY = {"alnair": 6, "timm": 45, "horus": 7, "neusight": 4, "carma": 3, "miso": 4, "zeus": 5}
"""Of sets that take long each so many graphs alone."""


@pytest.mark.parametrize("name", FOLDERS)
def test_committed_graphs_of_published_jobs_are_what_is_extracted_now(name: str) -> None:
    arguments = ["--only", name, "--check", str(FOLDERS[name]), "--every", str(EVERY.get(name, 1))]
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'manifests' / 'examples' / 'models')!r}); "
        "from published_models import __main__ as m; "
        f"sys.argv[1:] = {arguments!r}; "
        "sys.exit(m.main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
