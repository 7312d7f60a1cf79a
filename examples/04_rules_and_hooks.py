"""Rules that hold however a command is spelt, and a hook that is asked before each call."""

import tempfile
from pathlib import Path

import anyio

from backstay import Rule, hook, open_session

MODEL = f"scripted:{Path(__file__).parent / 'scripts' / 'guarded.yaml'}"
RULES = [
    Rule.parse("deny", "Bash(rm *)"),
    Rule.parse("allow", "Bash(git push *)"),
    Rule.parse("allow", "Edit(/notes/**)"),
]


@hook("PreToolUse", matcher="Bash")
def not_on_main(told: dict[str, object]) -> dict[str, object] | None:
    """Refuse to push to main. A command in settings.json could say the same with exit code 2."""
    if "push origin main" not in str(told["tool_input"]):
        return None
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "not to main",
        }
    }


async def main() -> None:
    (FOLDER / "notes").mkdir()
    async with open_session(model=MODEL, cwd=FOLDER, rules=RULES, hooks=[not_on_main], store=None) as session:
        session.on("tool_end", lambda ended: print(f"{ended.tool}: {ended.result.strip()}"))  # type: ignore[attr-defined]
        print(await session.run("Tidy up."))


with tempfile.TemporaryDirectory() as folder:
    FOLDER = Path(folder).resolve()
    anyio.run(main)
