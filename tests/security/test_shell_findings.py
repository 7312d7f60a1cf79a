"""What was found wrong with reading shell, by the names of the findings."""

from typing import Any

import pytest

from tests.permissions.desk import weighed

UNASKED: tuple[dict[str, Any], ...] = ({}, {"mode": "plan"}, {"mode": "dontAsk"}, {"mode": "acceptEdits"})


def allowed(command: str, **held: Any) -> list[dict[str, Any]]:
    """The ways in which a command runs without a question."""
    ways = ({**way, **held} for way in UNASKED)
    return [way for way in ways if weighed("Bash", command, **way).decision == "allow"]


def passes(command: str, denied: str) -> bool:
    """Whether a command gets past a rule that denies, where everything else is allowed."""
    rules: dict[str, Any] = {"allow": ["Bash"], "deny": [f"Bash({denied} *)"]}
    decisions = {weighed("Bash", command, mode=mode, **rules).decision for mode in ("default", "bypassPermissions")}
    return "allow" in decisions


@pytest.mark.parametrize(
    "command",
    [
        *(
            f"{word} a='($(touch pwned))'"
            for word in ("declare -a", "declare -A", "typeset -a", "local -a", "readonly -a")
        ),
        "a=(1); declare a='($(touch pwned))'",
        *(f"{name}='a[$(touch pwned)]'" for name in ("RANDOM", "SRANDOM", "HISTCMD")),
        "for SECONDS in 'a[$(touch pwned)]'; do :; done",
        "declare -i n; read n <<< 'a[$(touch pwned)]'",
        "declare -i n; printf -v n 'a[$(touch pwned)]'",
        "declare -i n; : ${n:='a[$(touch pwned)]'}",
    ],
)
def test_sec_c1_text_that_bash_evaluates_runs_nothing_unasked(command: str) -> None:
    assert allowed(command) == []
    assert not passes(command, "touch")


@pytest.mark.parametrize(
    "command",
    [
        "cat <<A <<B\nA\nB\\\n\ntouch pwned\nB\n",
        "cat <<A | cat <<B\nA\nB\\\n\ntouch pwned\nB\n",
        "cat <<cat\ncat\\\n\n>pwned cat f\ncat\n",
        "find . <<find\nfind\\\n\nfind . -exec touch pwned ;\nfind\n",
        'echo "$(cat <<\'EOF\'\nEOFx ) "; touch made; echo "\nEOF\n)"',
    ],
)
def test_sec_c2_a_here_document_ends_where_bash_ends_it(command: str) -> None:
    assert allowed(command) == []


@pytest.mark.parametrize(
    "command",
    [
        "sed 't\ne cp f pwned' f",
        "sed 't\nw ipwned' f",
        "sed 'a\\\\\ne touch pwned' f",
        "sed -n 's/[]/]/g;/w src/p' f",
        "sed 's/[]/]/g;/e;#/p' f",
    ],
)
def test_sec_c3_scripts_of_sed_run_and_write_nothing_unasked(command: str) -> None:
    assert allowed(command) == []
    assert allowed(command, allow=["Bash(sed *)"]) == []


@pytest.mark.parametrize("program", ["pytest", "hg", "cargo", "rustc", "dotnet", "npm", "pip", "mypy"])
def test_sec_h1_a_version_is_asked_for_where_it_may_run_what_nobody_trusts(program: str) -> None:
    assert allowed(f"{program} --version", trusted=False) == []
    assert weighed("Bash", f"{program} --version").decision == "allow"


@pytest.mark.parametrize(
    "command", ["echo ~/.ssh/id_rsa | xargs cat", "echo .env | xargs cat", "find . -name '*.md' | xargs cat < list"]
)
def test_sec_m4_xargs_shows_no_file_that_its_program_would_ask_about(command: str) -> None:
    assert allowed(command, allow=["Bash(cat:*)"]) == []


def test_sec_m4_files_that_find_names_are_free_for_programs_that_read() -> None:
    for command in ("find . -name '*.py' | xargs wc -l", "find src -name '*.py' -print0 | xargs -0 grep -n x"):
        assert weighed("Bash", command).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git config alias.x '!touch pwned'",
        "git config core.fsmonitor ./x",
        "git config --global core.pager ./x",
        "git clone -c core.hooksPath=x https://a.test/b",
        "git -c alias.x='!id' x",
        "git clone -u ./x.sh . y",
        "git checkout HEAD~1 -- .vscode",
    ],
)
def test_sec_m5_a_rule_for_git_is_none_for_what_git_runs_later(command: str) -> None:
    assert allowed(command, allow=["Bash(git *)"]) == []


def test_sec_m5_a_checkout_of_files_is_an_edit() -> None:
    files = {"src/a": "x"}
    for command in ("git checkout src/a", "git checkout -- src/a", "git restore src/a"):
        verdict = weighed("Bash", command, allow=["Bash(git *)"], deny=["Edit(src/**)"], files=files)
        assert verdict.decision == "deny"


def test_sec_m5_rules_of_make_that_are_in_no_file_ask() -> None:
    assert allowed("make --eval='all:; touch pwned'", allow=["Bash(make *)"]) == []


@pytest.mark.parametrize("command", ["users /etc/shadow", "lspci -q", "lsof -i", "ss dst evil.test", "hostname -f"])
def test_sec_l8_what_reads_any_file_or_asks_name_servers_is_asked_for(command: str) -> None:
    assert allowed(command) == []
