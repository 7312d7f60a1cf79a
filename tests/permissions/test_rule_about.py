"""Whether a rule is about a call: the `if` of hooks."""

import pytest

from backstay.permissions import rule_about
from backstay.permissions.call_site import CallSite
from tests.permissions.desk import arguments

GROUND = CallSite(cwd="/repo", home="/home/u")


def about(rule: str, tool: str, args: str | dict[str, object]) -> bool:
    return rule_about(rule, tool, arguments(tool, args), GROUND)


@pytest.mark.parametrize(
    ("rule", "tool", "args"),
    [
        ("Bash", "Bash", "ls"),
        ("Bash(git push *)", "Bash", "git push origin"),
        ("Bash(git push *)", "Bash", "ls && sudo git -C . push"),
        ("Bash(git push *)", "Bash", "bash -c 'git push'"),
        ("Bash(rm *)", "Bash", "rm -rf /"),
        ("Bash(git push:*)", "Bash", "git push"),
        ("Read(.env)", "Bash", "cat .env"),
        ("Read(.env)", "Bash", "cat $F"),
        ("Read(.env)", "Read", "sub/.env"),
        ("Edit(src/**)", "Write", "src/a.py"),
        ("Edit(src/**)", "Bash", "echo x > src/a.py"),
        ("Edit(src/**)", "apply_patch", "*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch"),
        ("Edit(//etc/**)", "Bash", "rm -rf /etc"),
        ("Edit", "NotebookEdit", "a.ipynb"),
        ("WebFetch(domain:example.com)", "WebFetch", "https://example.com/a"),
        ("mcp__files__*", "mcp__files__write", {"path": "a"}),
        ("Agent(Explore)", "Task", "Explore"),
        ("Grep(output_mode:content)", "Grep", {"pattern": "x", "output_mode": "content"}),
    ],
)
def test_a_rule_is_about_every_form_of_what_it_names(rule: str, tool: str, args: str | dict[str, object]) -> None:
    assert about(rule, tool, args)


@pytest.mark.parametrize(
    ("rule", "tool", "args"),
    [
        ("Bash(git push *)", "Bash", "git pull"),
        ("Bash(git push *)", "Bash", "echo git push"),
        ("Bash(git push *)", "Bash", "echo $X"),
        ("Bash(git push *)", "Read", "git"),
        ("Bash", "Read", "a"),
        ("Read(.env)", "Bash", "cat a"),
        ("Read(.env)", "Read", ".env.md/a"),
        ("Edit(src/**)", "Read", "src/a.py"),
        ("Read(.env)", "Read", ".claude/a"),
        ("Edit(src/**)", "Write", "docs/a.md"),
        ("Edit(src/**)", "Write", "/etc/passwd"),
        ("Edit(src/**)", "WebFetch", {}),
        ("WebFetch(domain:example.com)", "WebFetch", "https://example.org/a"),
        ("mcp__files__*", "mcp__mail__send", {"to": "a"}),
        ("Agent(Explore)", "Task", "Plan"),
    ],
)
def test_a_rule_is_not_about_other_calls(rule: str, tool: str, args: str | dict[str, object]) -> None:
    assert not about(rule, tool, args)


@pytest.mark.parametrize(
    ("rule", "tool", "args"),
    [
        ("Bash(git push", "Bash", "ls"),
        ("", "Read", "a"),
        ("Bash(git push *)", "Bash", "git push 'origin"),
        ("Bash(git push *)", "Bash", "ls 'a"),
        ("Bash(git push *)", "Bash", "$X origin"),
        ("Bash(git push *)", "Bash", "git $X"),
        ("Bash(git push *)", "Bash", {"command": 3}),
        ("Read(.env)", "Bash", {}),
        ("Read(.env)", "Read", {}),
        ("Read(.env)", "Read", "a\0b"),
        ("Edit(src/**)", "apply_patch", "no patch"),
    ],
)
def test_what_cannot_be_told_counts_as_a_yes(rule: str, tool: str, args: str | dict[str, object]) -> None:
    assert about(rule, tool, args)
