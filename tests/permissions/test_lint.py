"""Rules that do not mean what they seem to mean, found before they disappoint."""

import pytest

from backstay.permissions.lint import command_kinds, lint_rules

FOUND = [
    ("deny", "Read(/etc/passwd)", "from-root"),
    ("ask", "Read(/etc/passwd)", "from-root"),
    ("allow", "Edit(/home/u/x/**)", "absolute"),
    ("allow", "Write(src/**)", "never-consulted"),
    ("allow", "NotebookEdit(src/**)", "never-consulted"),
    ("allow", "Glob(src/**)", "never-consulted"),
    ("allow", "WebFetch(https://a.test/*)", "never-consulted"),
    ("allow", "mcp__srv__x(a:b)", "never-consulted"),
    ("deny", "Bsh", "unknown-tool"),
    ("deny", "bash(rm *)", "spelling"),
    ("ask", "read(README.md)", "spelling"),
    ("allow", "bash", "unknown-tool"),
    *(("allow", f"Bash({text} *)", "wide") for text in ("docker", "npm", "kubectl", "gh", "uv", "rm", "git", "curl")),
    ("allow", "Bash(git log *|head)", "never-consulted"),
    ("allow", "Bash(git log|head *)", "never-consulted"),
    ("allow", "Ba*", "unknown-tool"),
    ("allow", "mcp__*", "server"),
    ("allow", "mcp__git*__x", "server"),
    ("deny", "mcp__", "server"),
    ("allow", "Bash(npx *)", "wide"),
    ("allow", "Bash(python3:*)", "wide"),
    ("allow", "Bash(docker exec *)", "wide"),
    ("allow", "Bash(* --version)", "wide"),
    *(
        ("allow", f"Bash({text})", "wide")
        for text in (
            *("bash -c *", "bash -c:*", 'bash -lc "npm *"', "sh -ec *", "/usr/bin/python3 -c *", "python -I -c *"),
            *("node -e *", "node --eval *", "perl -ne *", "ruby -e '*'", "php -r *", "deno eval *"),
        )
    ),
    ("allow", "Bash( *)", "wide"),
    ("deny", "Bash(rm", "syntax"),
    ("allow", "Bash()", "syntax"),
    ("deny", "Bash()", "pattern"),
    ("deny", "Bash(echo (a)", "syntax"),
    ("allow", 'Bash(echo "a)', "pattern"),
    ("allow", "Bash(a:*b)", "pattern"),
    ("deny", "Read(!a)", "pattern"),
    ("deny", "Read(a\\b)", "pattern"),
    ("allow", "*", "wide"),
    ("allow", "Bash", "wide"),
    ("allow", "Bash(*)", "wide"),
    ("allow", "Shell", "wide"),
    ("allow", "Bash(**)", "wide"),
    ("deny", "Bash(git push?)", "pattern"),
    ("allow", "Bash(git log?)", "pattern"),
    ("deny", "Bash(rm .*)", "pattern"),
    ("deny", "Bash(^git push)", "pattern"),
    ("deny", "Bash(git (push|reset) *)", "pattern"),
    ("ask", "WebSearch(\\d+)", "pattern"),
    ("deny", "MultiEdit(edits:*secret*)", "pattern"),
    ("deny", "TodoWrite(todos:x)", "pattern"),
    ("allow", "Bash(for *)", "never-consulted"),
    ("allow", "Bash(while:*)", "never-consulted"),
    ("allow", "Bash(source *)", "never-consulted"),
    ("allow", "Bash(cd * && npm test *)", "never-consulted"),
    ("allow", "Bash(cat * | grep *)", "never-consulted"),
    ("allow", "Bash(command:npm test)", "never-consulted"),
    ("allow", "Read(file_path:src/**)", "never-consulted"),
]


@pytest.mark.parametrize(("decision", "rule", "kind"), FOUND)
def test_a_rule_with_a_catch_is_found(decision: str, rule: str, kind: str) -> None:
    found = lint_rules(**{decision: [rule]})

    assert kind in [each.kind for each in found]
    assert all(each.rule == rule and each.decision == decision and each.words for each in found)


NOTES = {"spelling", "from-root"}


@pytest.mark.parametrize(("decision", "rule", "kind"), FOUND)
def test_a_rule_that_does_what_it_says_is_noted_and_no_other(decision: str, rule: str, kind: str) -> None:
    [level] = {each.is_wrong for each in lint_rules(**{decision: [rule]}) if each.kind == kind}

    assert level == (kind not in NOTES)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("Bash(rm *)", "'rm' removes every file of the workspace that it is given"),
        ("Bash(npm *)", "it contains 'npm exec', which can run anything"),
        ("Edit(/etc/**)", "one slash means the project's root in a project's file"),
    ],
)
def test_what_is_said_of_a_rule_is_so(rule: str, words: str) -> None:
    [found] = lint_rules(allow=[rule])

    assert words in found.words


def test_a_search_for_files_is_not_said_to_run_what_is_not_looked_at() -> None:
    [found] = command_kinds(["Bash(find *)"])

    assert (lint_rules(allow=["Bash(find *)"]), "not looked at" in found.words) == ([], False)
    assert "`-exec`, `-delete` and their like need the exact text" in found.words


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
    *(
        ("allow", f"Bash({text})")
        for text in (
            "bash -c ls",
            "bash -x run.sh *",
            "python3 -m pytest *",
            "python -c 'print(1)' *",
            "node a.js -e x *",
        )
    ),
    *(
        ("allow", f"Bash({text})")
        for text in ("cd *", "./gradlew *", "[ *", "rm -rf dist/*", "ls .", "git commit -m *", "FOO=1 npm *")
    ),
    *(
        ("allow", f"Bash({text})")
        for text in ("for f in *.py; do x; done", "cd a && npm test", "if a; then b; fi", "a.b *")
    ),
    *(("deny", f"Bash({text})") for text in ("for *", "* | sh", "a.* b", "echo $HOME *", "echo $*")),
    ("deny", "mcp__a__b(paths:secrets/**)"),
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


def test_sec_m6_a_rule_that_allows_commands_is_told_to_be_one_of_two_kinds() -> None:
    as_such, inside, alone = "allows commands as such", "only inside the grammar", "this very command"
    wanted = {"*": as_such, "Bash": as_such, "Bash(*)": as_such, "Shell": as_such, "Bash(git log *)": inside}
    wanted |= {"Bash(npm:*)": inside, "Bash(**)": inside, "Bash(npm test)": alone, "BackgroundProcess(make *)": inside}

    found = command_kinds((*wanted, "Read", "Edit(src/**)", "mcp__a", "Bash()", "Bash(x"))

    assert [each.rule for each in found] == list(wanted)
    assert all(wanted[each.rule] in each.words for each in found)
    wide = [each for each in lint_rules(allow=["*", "Bash(**)"]) if each.kind == "wide"]
    assert [(as_such in each.words, inside in each.words) for each in wide] == [(True, False), (False, True)]


def test_a_rule_about_a_program_that_runs_other_code_is_told_that_this_is_not_looked_at() -> None:
    looked = ("git log *", "ls *", "cargo fmt *", "grep -rn *")
    not_looked = ("make lint *", "pytest *", "npm run *", "bash run.sh *", ".venv/bin/pytest *", "cargo test:*", "make")

    found = command_kinds([f"Bash({text})" for text in (*looked, *not_looked)])

    assert [each.rule for each in found if each.words.endswith("is not looked at")] == [
        f"Bash({text})" for text in not_looked
    ]


def test_a_rule_that_allows_nothing_is_not_called_wide() -> None:
    assert [each.kind for each in lint_rules(allow=["Bash(eval *)"])] == ["never-consulted"]


@pytest.mark.parametrize(
    "rule", ["Bash(find * -exec *)", "Bash(git -c * log)", "Bash(git -c *)", "Bash(find * -delete)"]
)
def test_a_pattern_about_commands_that_need_their_exact_text_is_said_to_allow_nothing(rule: str) -> None:
    assert [each.kind for each in lint_rules(allow=[rule])] == ["never-consulted"]


@pytest.mark.parametrize(
    ("deny", "allow", "covered"),
    [
        ("mcp__*", "mcp__notes", True),
        ("mcp__notes", "mcp__notes__add", True),
        ("mcp__notes__add", "mcp__notes", False),
        ("Bash(curl:*)", "Bash(curl *)", True),
        ("Bash(curl *)", "Bash(curl -s https://a.example/*)", True),
        ("Bash(curl -s *)", "Bash(curl *)", False),
        ("Shell", "Bash(make)", True),
        ("Bash(make)", "Bash", False),
    ],
)
def test_what_a_denial_covers_in_other_words_is_said_to_allow_nothing(deny: str, allow: str, covered: bool) -> None:
    kinds = [each.kind for each in lint_rules(deny=[deny], allow=[allow]) if each.decision == "allow"]

    assert ("unreachable" in kinds) == covered
