"""Rules that do not mean what they seem to mean, found before they disappoint."""

import pytest

from holdfast.logic.permissions.lint import lint_rules

FOUND = [
    ("deny", "Read(/etc/passwd)", "absolute"),
    ("allow", "Edit(/home/u/x/**)", "absolute"),
    ("allow", "Write(src/**)", "never-consulted"),
    ("allow", "NotebookEdit(src/**)", "never-consulted"),
    ("allow", "Glob(src/**)", "never-consulted"),
    ("allow", "WebFetch(https://a.test/*)", "never-consulted"),
    ("allow", "mcp__srv__x(a:b)", "never-consulted"),
    ("deny", "Bsh", "unknown-tool"),
    ("deny", "bash(rm *)", "unknown-tool"),
    ("allow", "Ba*", "unknown-tool"),
    ("allow", "mcp__*", "server"),
    ("allow", "mcp__git*__x", "server"),
    ("deny", "mcp__", "server"),
    ("allow", "Bash(npx *)", "wide"),
    ("allow", "Bash(python3:*)", "wide"),
    ("allow", "Bash(docker exec *)", "wide"),
    ("allow", "Bash(* --version)", "wide"),
    ("allow", "Bash( *)", "wide"),
    ("deny", "Bash(rm", "syntax"),
    ("allow", "Bash()", "syntax"),
    ("deny", "Bash()", "pattern"),
    ("deny", "Bash(echo (a)", "syntax"),
    ("allow", 'Bash(echo "a)', "pattern"),
    ("allow", "Bash(a:*b)", "pattern"),
    ("deny", "Read(!a)", "pattern"),
    ("deny", "Read(a\\b)", "pattern"),
]


@pytest.mark.parametrize(("decision", "rule", "kind"), FOUND)
def test_a_rule_with_a_catch_is_found(decision: str, rule: str, kind: str) -> None:
    found = lint_rules(**{decision: [rule]})

    assert kind in [each.kind for each in found]
    assert all(each.rule == rule and each.decision == decision and each.words for each in found)


RIGHT = [
    ("allow", "Bash(npm test *)"),
    ("allow", "Bash(git log:*)"),
    ("deny", "Bash(rm *)"),
    ("deny", "Write(src/**)"),
    ("deny", "mcp__*"),
    ("allow", "mcp__srv__*"),
    ("allow", "mcp__srv"),
    ("allow", "Edit(/src/**)"),
    ("deny", "Read(//etc/**)"),
    ("deny", "Read(~/.ssh/**)"),
    ("allow", "WebFetch(domain:a.test)"),
    ("deny", "Agent(model:opus)"),
    ("allow", "Skill(deploy *)"),
    ("deny", "Cd(x)"),
    ("deny", "*"),
    ("allow", "Task"),
]


@pytest.mark.parametrize(("decision", "rule"), RIGHT)
def test_a_rule_that_means_what_it_says_passes(decision: str, rule: str) -> None:
    assert lint_rules(**{decision: [rule]}) == []


def test_an_allowance_that_a_denial_shuts_is_found() -> None:
    found = lint_rules(
        deny=["Bash(git push)", "Shell", "WebFetch"], allow=["Bash(git push)", "WebFetch(domain:a.test)", "Read"]
    )

    assert [(each.rule, each.kind) for each in found] == [
        ("Bash(git push)", "unreachable"),
        ("WebFetch(domain:a.test)", "unreachable"),
    ]
