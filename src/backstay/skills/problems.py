"""Problems in the files that people write for agents, and where they are."""

from typing import Literal

import msgspec

from backstay.vocab.errors import UserError

Severity = Literal["error", "warning"]


class SkillProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a file. With an error the file is left out; with a warning it is used."""

    file: str
    line: int
    """From 1 on."""
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Unusable(UserError):
    """A file that cannot be used; `problem` says why."""

    code = "Extension.FileUnusable"

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.problem = SkillProblem(file=file, line=line, message=message)
