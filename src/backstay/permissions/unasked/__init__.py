"""The only way to run a shell command unasked: prove what it does.

A command is proved when it lies in a small grammar (`shell_grammar.py`), when every program in it has a row in the tables
(`tables/*.toml`) and every flag stands in that row. The proof names each file that is opened. Everything else is outside, and the judge
asks.

The package imports nothing else of this program, so that it can be read, tested and replaced by itself.
"""

from backstay.permissions.unasked.programs import Place, Touch
from backstay.permissions.unasked.proof import Proof, Step, prove
from backstay.permissions.unasked.scripts import is_awk_program, is_sed_script
from backstay.permissions.unasked.shell_grammar import Outside, Redirect, Word
from backstay.permissions.unasked.table import free_programs, loading_programs, operand_kinds, trusting_programs

__all__ = [
    "Outside",
    "Place",
    "Proof",
    "Redirect",
    "Step",
    "Touch",
    "Word",
    "free_programs",
    "is_awk_program",
    "is_sed_script",
    "loading_programs",
    "operand_kinds",
    "prove",
    "trusting_programs",
]
