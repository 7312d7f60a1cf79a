"""Opening a session in a repository where people keep a lot for an agent, against the same start where there is nothing."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.frame import Aim, Bench, Figure, Row

SKILLS: Final = 200
AGENTS: Final = 50
SETTINGS: Final[Mapping[str, object]] = {
    "permissions": {
        "deny": ["Read(.env)", "Bash(git push *)"],
        "ask": ["WebFetch"],
        "allow": ["Bash(make test)", "Edit(/docs/**)"],
        "additionalDirectories": ["docs"],
        "disableBypassPermissionsMode": "disable",
    },
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]},
    "allowedHttpHookUrls": ["https://example.org/*"],
    "httpHookAllowedEnvVars": ["TEAM"],
    "env": {"NODE_ENV": "test", "TEAM": "boats"},
    "providers": {
        "house": {
            "type": "openai-chat",
            "base_url": "https://llm.example.org/v1",
            "headers": {"X-Team": "boats"},
            "model": "m",
            "timeout": 300_000,
            "options": {"top_k": 20},
        }
    },
    "models": {"m": {"window": 40_960, "max_output": 8_192, "abilities": ["tools"]}},
    "chat": {
        "fs_scope": "project",
        "allowed_commands": ["git status", "make test"],
        "max_messages": 400,
        "max_session_turns": 100,
        "max_tool_turns": 40,
    },
    "auto_compact": 0.8,
    "retries": 5,
    "language": "English",
    "taskContext": {"enabled": True, "dir": ".agents/tasks"},
    "memory": {"enabled": True},
}
"""Thirty keys."""
OPEN: Final = """
import json, sys, time
begin = time.perf_counter()
import anyio
from backstay import open_session
imported = time.perf_counter()
async def main():
    start, cpu = time.perf_counter(), time.process_time()
    async with open_session(model=sys.argv[1], cwd=sys.argv[2], trust=True, store=None) as session:
        opened, busy = time.perf_counter() - start, time.process_time() - cpu
        await session.project.refresh_if_stale()
        fresh = time.perf_counter() - start - opened
        found = session.project.found
        counts = (len(found.skills), len([each for each in found.agents if each.file]), len(found.problems))
    print(json.dumps({"import": imported - begin, "open": opened, "cpu": busy, "look again": fresh, "found": counts}))
anyio.run(main)
"""


@dataclass
class _Place:
    """A repository, and what was measured there."""

    folder: Path
    skills: int
    agents: int
    measured: dict[str, list[float]] = field(default_factory=dict)

    def figure(self, name: str) -> Figure:
        """The measurements, without the first: that one only compiles."""
        return Figure(tuple(self.measured[name][1:]), "ms")


def measure(bench: Bench) -> Iterator[Row]:
    """A process that opens a session, in both places in turn."""
    full = _Place(bench.folder / "full", bench.pick(SKILLS, 4), bench.pick(AGENTS, 2))
    empty = _Place(bench.folder / "empty", 0, 0)
    _furnish(full)
    for place in (full, empty):
        (place.folder / ".git").mkdir(parents=True)
    for _ in range(bench.pick(15, 1) + 1):
        for place in (full, empty):
            _start(place, bench.folder)
    much = f"{full.skills} skills, {full.agents} agents, 30 settings"
    added = tuple(a - b for a, b in zip(full.figure("open").values, empty.figure("open").values, strict=True))
    yield Row(
        what=f"open a session with {much}",
        figure=full.figure("open"),
        aim=Aim(most=150),
        beside={"without": empty.figure("open"), "its CPU": full.figure("cpu"), "CPU without": empty.figure("cpu")},
    )
    yield Row(what="... what they add", figure=Figure(added, "ms"), aim=Aim(most=100))
    yield Row(
        what="... a look whether they changed, each turn",
        figure=full.figure("look again"),
        aim=Aim(most=10),
        beside={"without": empty.figure("look again")},
    )
    yield Row(
        what="... the whole process, imports included",
        figure=full.figure("process"),
        beside={"without": empty.figure("process"), "its imports": full.figure("import")},
    )


def _furnish(place: _Place) -> None:
    for number in range(place.skills):
        head = f"name: skill-{number}\ndescription: Does the work of number {number}, and does it well.\n"
        more = "allowed-tools: Read, Grep\nargument-hint: FILE\n" if number % 3 == 0 else ""
        _write(place.folder / f".claude/skills/skill-{number}/SKILL.md", f"---\n{head}{more}---\n" + "Do it.\n" * 200)
    for number in range(place.agents):
        head = f"name: agent-{number}\ndescription: Looks at number {number}.\ntools: Read, Grep\n"
        _write(place.folder / f".claude/agents/agent-{number}.md", f"---\n{head}---\n" + "You look.\n" * 100)
    _write(place.folder / ".claude/settings.json", json.dumps(SETTINGS, indent=1))
    _write(place.folder / "AGENTS.md", "Run make test.\n" * 50)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _start(place: _Place, folder: Path) -> None:
    script = folder / "script.json"
    _write(script, '[{"text": "x"}]')
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "BACKSTAY_CONFIG_DIR": str(folder / "config"),
        "BACKSTAY_DATA_DIR": str(folder / "data"),
        "HOME": str(folder / "home"),
    }
    begin = time.perf_counter()
    command = [sys.executable, "-c", OPEN, f"scripted:{script}", str(place.folder)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    taken = {**json.loads(ran.stdout), "process": time.perf_counter() - begin}
    found = taken.pop("found")
    if found != [place.skills, place.agents, 0]:
        raise RuntimeError(f"{place.folder} has {place.skills} skills and {place.agents} agents; found were {found}.")
    for name, seconds in taken.items():
        place.measured.setdefault(name, []).append(seconds * 1000)
