"""The only way to run a shell command unasked: prove what it does.

A command is proved when it lies in a small grammar (`grammar.py`), when every program in it has a row in the tables (`tables/*.toml`) and
every flag stands in that row. The proof names each file that is opened. Everything else is outside, and whoever judges asks.

The package imports nothing else of this program, so that it can be read, tested and replaced by itself.
"""

from holdfast.logic.unasked.grammar import Outside, Redirect, Word
from holdfast.logic.unasked.programs import Touch
from holdfast.logic.unasked.proof import Place, Proof, Step, prove

__all__ = ["Outside", "Place", "Proof", "Redirect", "Step", "Touch", "Word", "prove"]
