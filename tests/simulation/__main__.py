"""Runs simulated worlds: `python -m tests.simulation --seed 7 -v`."""

import sys

from tests.simulation.simulate import main

sys.exit(main())
