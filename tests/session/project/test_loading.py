"""What a session finds is loaded when it looks, and what it does not find is not loaded at all."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
PROGRAM = """
import sys
from backstay import open_session
def loaded(*names):
    return sorted(each for each in sys.modules if each.startswith(names))
print(loaded("backstay.memory", "backstay.session.project.discover_extensions", "backstay.skills.scan", "backstay.plugins.load", "yaml"))
import anyio
async def main():
    async with open_session(model=sys.argv[1], cwd=sys.argv[2], trust=True, store=None) as session:
        print([each.name for each in session.project.found.skills])
anyio.run(main)
print(loaded("backstay.plugins.load", "backstay.plugins.install.install", "mcp.", "httpx", "jsonschema"))
"""


def test_opening_a_session_loads_neither_plugins_nor_servers_when_there_are_none(tmp_path: Path) -> None:
    skill = tmp_path / "work/.claude/skills/tidy/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: tidy\ndescription: Tidies.\nallowed-tools: [Read, Grep]\n---\nTidy.\n", encoding="utf-8"
    )
    script = tmp_path / "script.json"
    script.write_text('[{"text": "x"}]', encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "HOME": str(tmp_path),
        "BACKSTAY_CONFIG_DIR": str(tmp_path / "config"),
        "BACKSTAY_DATA_DIR": str(tmp_path / "data"),
    }

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, f"scripted:{script}", str(tmp_path / "work")],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env=environment,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == ["[]", "['tidy']", "[]"]
