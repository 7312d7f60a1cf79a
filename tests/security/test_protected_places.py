"""What decides what runs, or what an agent does, is not written unasked: SEC-M2."""

from pathlib import Path

import pytest

from backstay import Answer, Question, Rule
from tests.contracts.kit import Reply, call, calls, talk

PLACES = (
    ".venv/bin/ls",
    "venv/bin/python",
    "sub/.venv/Scripts/activate",
    ".venv/pyvenv.cfg",
    "node_modules/.bin/tsc",
    "packages/a/node_modules/.bin/tsc",
    ".hg/hgrc",
    "rust-toolchain",
    "rust-toolchain.toml",
    "global.json",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".python-version",
    "toxfile.py",
    "☣.py",
    ".pdbrc",
    ".Rprofile",
    "ipython_config.py",
    ".irbrc",
    "sitecustomize.py",
    "conftest.py",
    ".cargo/config.toml",
    ".npmrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".envrc",
    ".gemini/settings.json",
    "opencode.json",
    ".GIT/config",
    "agents.md",
    "MAKEFILE",
    ".devcontainer.json",
    ".bazelrc",
    ".claude-plugin/plugin.json",
    ".rules",
    "WARP.md",
    ".ruby-version",
    ".kiro/hooks/a.json",
    ".roo/rules/a.md",
    ".continue/config.yaml",
    ".cursor/rules/a.mdc",
    ".codex/config.toml",
    ".claude/settings.json",
    "AGENTS.md",
    "docs/CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".mcp.json",
    ".git/hooks/pre-commit",
    ".git/config",
    "node_modules/a/index.js",
    ".venv/lib/python3.11/site-packages/a.py",
)
EVERYDAY = (
    "src/a.py",
    "tests/test_a.py",
    "package.json",
    "pyproject.toml",
    "Cargo.toml",
    "Dockerfile",
    ".gitignore",
    "bin/tool",
    "docs/agent-notes.md",
    ".github/dependabot.yml",
    "hooks/useThing.ts",
)


async def written(
    root: Path, *replies: Reply, rules: tuple[Rule, ...] = (), **options: str
) -> tuple[set[str], list[Question]]:
    """The files that are there afterwards, and what was asked; the person refuses everything."""
    asked: list[Question] = []

    async def refuse(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=False)

    async with talk(*replies, "Done.", cwd=root, asker=refuse, rules=rules, fs_scope="full", **options) as session:
        await session.run("Go.")
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}, asked


def writes(places: tuple[str, ...]) -> Reply:
    return calls(*(("Write", {"file_path": place, "content": "x"}) for place in places))


async def test_sec_m2_what_decides_what_runs_is_not_written_by_accept_edits(tmp_path: Path) -> None:
    files, asked = await written(tmp_path, writes(PLACES), permission_mode="acceptEdits")

    assert not files & set(PLACES)
    assert [question.kind for question in asked] == ["protected"] * len(PLACES)


@pytest.mark.parametrize("rule", ["Edit", "Edit(**)", "Edit(/**)", "Edit(.venv/**)"])
async def test_sec_m2_nor_by_a_rule_that_allows_edits(tmp_path: Path, rule: str) -> None:
    files, asked = await written(tmp_path, writes(PLACES), rules=(Rule.parse("allow", rule),))

    assert not files & set(PLACES)
    assert len(asked) == len(PLACES)


async def test_sec_m2_what_is_edited_all_day_is_free(tmp_path: Path) -> None:
    files, asked = await written(tmp_path, writes(EVERYDAY), permission_mode="acceptEdits")

    assert (files & set(EVERYDAY), asked) == (set(EVERYDAY), [])


async def test_sec_m2_a_program_of_the_virtual_environment_is_not_replaced_by_a_command(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/pip").write_text("x")
    (tmp_path / "node_modules/.bin").mkdir(parents=True)
    commands = ("cp .venv/bin/pip .venv/bin/ls", "echo x > node_modules/.bin/tsc", "mv .venv/bin/pip .venv/bin/cat")
    replies = [call("Bash", command=command) for command in commands]

    files, asked = await written(tmp_path, *replies, permission_mode="acceptEdits")

    assert files == {".venv/bin/pip"}
    assert [question.kind for question in asked] == ["protected"] * len(commands)


async def test_sec_m2_folders_of_packages_are_removed_as_before(tmp_path: Path) -> None:
    (tmp_path / "node_modules/.bin").mkdir(parents=True)
    (tmp_path / "node_modules/.bin/tsc").write_text("x")

    files, asked = await written(tmp_path, call("Bash", command="rm -rf node_modules"), permission_mode="acceptEdits")

    assert (files, asked) == (set(), [])
