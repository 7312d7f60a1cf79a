"""What people keep in a repository for an agent, put to use: notes, rules, a skill, a command, memory, and the way back."""

import os
import tempfile
from pathlib import Path

import anyio

from backstay import open_session

MODEL = f"scripted:{Path(__file__).parent / 'scripts' / 'repository.yaml'}"
FILES = {
    "AGENTS.md": "Run `make test` before you say that you are done.\n",
    ".backstay/settings.json": '{"permissions": {"allow": ["Edit(/**)"], "deny": ["Read(/keys/**)"]}}\n',
    ".backstay/skills/changelog/SKILL.md": (
        "---\nname: changelog\ndescription: Writes the changelog.\n---\nAdd a line about $ARGUMENTS to CHANGES.md.\n"
    ),
    ".claude/commands/greet.md": "---\ndescription: Say hello.\n---\nSay hello to $0.\n",
    "CHANGES.md": "# Changes\n",
}


async def main(folder: Path) -> None:
    async with open_session(model=MODEL, cwd=folder, trust=True, store=None) as session:
        found = [spec.name for spec in session.list_commands() if spec.source != "built-in"]
        print("Commands found here:", ", ".join(found))
        for line in ("/greet you", "/changelog the new sails"):
            name, _, args = line[1:].partition(" ")
            result = await session.command(name, args)
            print(f"{line}: {result.message if result else 'no such command'}")
        print((folder / "CHANGES.md").read_text().strip())

        await session.command("memory", "add project/boats The boat is called Hilda.")
        undone = await session.command("undo")
        print("/undo:", undone.message if undone else "")
        print((folder / "CHANGES.md").read_text().strip())
        context = await session.command("context")
        print(context.message if context else "")


with tempfile.TemporaryDirectory() as place:
    root = Path(place).resolve()
    os.environ["BACKSTAY_CONFIG_DIR"] = str(root / "config")  # an example sees nobody's settings
    for name, content in FILES.items():
        (root / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "work" / name).write_text(content)
    anyio.run(main, root / "work")
