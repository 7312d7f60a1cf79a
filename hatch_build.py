"""Record the commit in what is built, so that `backstay --version` can name it where there is no checkout."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Put the commit beside the package's files, where git knows it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # Any: as hatchling has it
        """Add a file with the commit to a wheel or a source distribution; an editable installation has its checkout."""
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=self.root, capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            recorded = Path(tempfile.mkdtemp(), "commit.txt")
            recorded.write_text(asked.stdout, encoding="utf-8")
            inside = "src/backstay" if self.target_name == "sdist" else "backstay"
            build_data["force_include"][str(recorded)] = f"{inside}/{recorded.name}"
