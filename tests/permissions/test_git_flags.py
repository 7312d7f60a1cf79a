"""A flag in front of a file does not hide it from rules: which flags of git take a value differs from subcommand to subcommand."""

from string import ascii_letters

import pytest

from tests.permissions.desk import weighed

FILES = {".env": "TOKEN=1", "x": "x", "Makefile": "all:"}
TAKING = ("add", "stage", "rm", "mv", "checkout", "restore", "reset", "commit", "update-index", "hash-object", "apply")
"""Subcommands that read, keep, move or replace the files that they name."""
TEXTS = {"commit -m"}
"""Flags of these whose value is a text."""


@pytest.mark.parametrize("subcommand", TAKING)
@pytest.mark.parametrize("behind", ["", " x"])
def test_a_denied_file_behind_any_flag_of_git_is_denied(subcommand: str, behind: str) -> None:
    allowed = [
        f"{subcommand} -{letter}"
        for letter in ascii_letters
        if weighed(
            "Bash",
            f"git {subcommand} -{letter} .env{behind}",
            allow=["Bash", "Bash(git *)"],
            deny=["Read(.env)", "Edit(.env)"],
            files=FILES,
        ).decision
        == "allow"
    ]

    assert set(allowed) <= TEXTS


@pytest.mark.parametrize(
    "command",
    [
        "git add -f ./.env",
        "git add -A -f .env",
        "git add -f .e*",
        "git add -fv .env && git commit -m x && git push",
        "git mv -f .env notes.txt",
        "git add -f :/.env",
    ],
)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
def test_a_denied_file_is_not_taken_in_by_force(command: str, mode: str) -> None:
    verdict = weighed("Bash", command, allow=["Bash"], deny=["Read(.env)"], mode=mode, files=FILES)  # type: ignore[arg-type] # a mode

    assert verdict.decision != "allow"


@pytest.mark.parametrize("command", ["git rm -f Makefile", "git checkout -f Makefile", "git restore -s HEAD Makefile"])
def test_a_protected_file_behind_a_flag_is_asked_about(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash(git *)"], files=FILES).decision == "ask"


def test_a_sensitive_file_is_not_added_by_force_unasked() -> None:
    assert weighed("Bash", "git add -f .env", allow=["Bash(git add *)"], files=FILES).decision == "ask"


@pytest.mark.parametrize(
    "command", ["npm test -- .env", "npm test -- --config=.env", "yarn x .env", "pnpm run x .env", "make F=.env show"]
)
def test_a_denied_file_among_the_words_of_a_program_that_runs_scripts_is_denied(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash"], deny=["Read(.env)"], files=FILES).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'keep .env out'",
        "git checkout -b topic",
        "git commit -am 'Makefile: tidy'",
        "npm run test:unit -- --grep x",
    ],
)
def test_texts_behind_flags_are_no_files(command: str) -> None:
    assert (
        weighed("Bash", command, allow=["Bash"], deny=["Read(.env)", "Edit(Makefile)"], files=FILES).decision == "allow"
    )


@pytest.mark.parametrize(
    "command",
    [
        "git diff --ignore-submodules=none HEAD~2 HEAD~1",
        "git diff --ignore-submodules --ignore-submodules=untracked",
        "git status --ignore-submodules=dirty",
        "git log -p --ignore-submodules=none",
        "git show --submodule=diff",
        "git diff --submodule",
        "git grep --recurse-submodules x",
        "git ls-files --recurse-submodules",
        "git rev-parse --show-superproject-working-tree",
    ],
)
def test_git_in_submodules_is_not_free(command: str) -> None:
    assert weighed("Bash", command).decision == "ask"


@pytest.mark.parametrize("command", ["git diff --ignore-submodules", "git status --ignore-submodules=all"])
def test_git_out_of_submodules_is_free(command: str) -> None:
    assert weighed("Bash", command).decision == "allow"


@pytest.mark.parametrize("command", ["git init --template=sub", "git init -q --template sub .", "git lfs install"])
def test_git_that_puts_hooks_into_the_repository_is_asked_about(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash"], files={"x": ""}).decision == "ask"
    assert (
        weighed("Bash", command.partition(" --")[0].replace("install", "ls-files"), allow=["Bash"]).decision == "allow"
    )


def test_attributes_of_a_folder_outside_are_asked_about() -> None:
    assert weighed("Bash", "git check-attr -a d/x", files={"d/x": "", "y": ""}).decision == "allow"
    assert weighed("Bash", "git check-attr -a ../d/x", files={"d/x": "", "y": ""}).decision == "ask"
