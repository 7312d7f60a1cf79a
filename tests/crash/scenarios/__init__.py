"""The scenarios of the crash matrix: everything that a session can be in the middle of."""

from typing import Final

from backstay.testing.crash.stage import Scenario
from tests.crash.scenarios.files import FILES
from tests.crash.scenarios.hooks import HOOKS
from tests.crash.scenarios.limits import LIMITS
from tests.crash.scenarios.notes import NOTED
from tests.crash.scenarios.skills import SKILLED
from tests.crash.scenarios.turns import TURNS

SCENARIOS: Final[tuple[Scenario, ...]] = (*TURNS, *LIMITS, *HOOKS, FILES, NOTED, SKILLED)
