"""`python -m cotenant_predictor.profiling`."""

import sys

from cotenant_predictor.profiling import command

sys.exit(command.main())
