"""What a fourth look at the policy found: holes that are closed, and questions that nobody needs."""

from typing import Any

import pytest

from tests.logic.permissions.desk import weighed

NPM = {"allow": ["Bash(npm test *)"]}
GIT = {"allow": ["Bash(git log *)", "Bash(git diff *)"]}
NO_ENV = {"deny": ["Read(.env)"], "files": {".env": "K=1", "linked": "symlink:.env", "a.py": "x"}}

SERVERS = [
    ({"deny": ["mcp__github"], "allow": ["mcp__github"]}, "deny"),
    ({"deny": ["mcp__github"], "mode": "bypassPermissions"}, "deny"),
    ({"deny": ["mcp__GitHub"], "allow": ["mcp__github"]}, "deny"),
    ({"ask": ["mcp__github"], "mode": "bypassPermissions"}, "ask"),
    ({"deny": ["mcp__github"], "source": "project", "trusted": False}, "deny"),
    ({"deny": ["mcp__git"], "allow": ["mcp__github"]}, "allow"),
    ({"deny": ["mcp__github_evil"], "allow": ["mcp__github"]}, "allow"),
]


@pytest.mark.parametrize(("held", "decision"), SERVERS)
def test_a_rule_with_the_name_of_a_server_forbids_all_of_its_tools(held: dict[str, Any], decision: str) -> None:
    """`mcp__srv` means the server, whoever says it: what allows and what denies."""
    assert weighed("mcp__github__get_issue", {}, **held).decision == decision


COMMANDS = [
    # a wildcard is looked up where it is, however the way there is written
    ("cat ./*", NO_ENV, "deny"),
    ("cat .//*", NO_ENV, "deny"),
    ("cat /repo/./*", NO_ENV, "deny"),
    ("cat ./*.py", NO_ENV, "allow"),
    # env is a program of its own for rules that allow, and harmless around what is harmless
    ("env npm test", NPM, "ask"),
    ("env ls", {}, "allow"),
    ("env rm x", {"deny": ["Bash(rm *)"]}, "deny"),
    # arithmetic sets variables too
    ("let PATH=1; ls", {}, "ask"),
    ("let ++PATH; ls", {}, "ask"),
    ("(( ++PATH )); ls", {}, "ask"),
    ("let i=1; ls", {}, "allow"),
    # sed's empty script
    ("sed '' .env", NO_ENV, "deny"),
    ("sed -i '' s/a/b/ a.py", {"mode": "acceptEdits"}, "allow"),
    # no pager, no editor
    ("GIT_PAGER=cat git log", GIT, "allow"),
    ("GIT_PAGER= git log", GIT, "allow"),
    ("PAGER=cat git diff", {}, "allow"),
    ("env GIT_PAGER=cat git log", {}, "allow"),
    ("export GIT_PAGER=cat; git log", {}, "allow"),
    ("PAGER=cat; git log", {}, "allow"),
    ("GIT_EDITOR=true git rebase --continue", {"allow": ["Bash(git rebase *)"]}, "allow"),
    ("GIT_PAGER=./cat git log", GIT, "ask"),
    ("GIT_PAGER='cat; id' git log", GIT, "ask"),
    ("GIT_PAGER=$X git log", GIT, "ask"),
    ("GIT_SSH_COMMAND=cat git log", GIT, "ask"),
    ("export GIT_PAGER=./x; git log", {}, "ask"),
    ("GIT_PAGER=cat LD_PRELOAD=x git log", GIT, "ask"),
    # wildcards that no option can hide in
    ("file src/*", {}, "allow"),
    ("rg foo src/*.py", {}, "allow"),
    ("sort src/*.txt", {}, "allow"),
    ("sort *", {}, "ask"),
    ("rg foo *", {}, "ask"),
    ("uniq src/*", {}, "ask"),
    # a loop over files
    ("for f in src/*.py; do wc -l $f; done", {}, "allow"),
    ("for f in *.py; do cat $f; done", NO_ENV, "allow"),
    ("for f in *; do cat $f; done", NO_ENV, "deny"),
    ("for f in *.py; do cat $f; done", {"files": {"a .env x.py": "1"}}, "ask"),
    ("IFS=x; for f in *.py; do cat $f; done", {}, "ask"),
    # names of variables
    ("printenv PATH", {}, "allow"),
    ("printenv", {}, "ask"),
    ("printenv GITHUB_TOKEN", {}, "ask"),
    ("printenv $X", {}, "ask"),
    ("printenv -0 HOME", {}, "ask"),
    ("bash --version", {}, "allow"),
    ("bash --version x", {}, "ask"),
]


@pytest.mark.parametrize(("command", "held", "decision"), COMMANDS)
def test_commands(command: str, held: dict[str, Any], decision: str) -> None:
    """What is hidden is found, and what everybody types every day is not asked about."""
    assert weighed("Bash", command, **held).decision == decision
