"""What holds under a rule without a pattern, and for denials in every mode: folders behind wrappers, names that are filled in later."""

from collections.abc import Mapping

import pytest

from backstay.vocab.specs import Mode
from tests.permissions.desk import weighed

FILES: Mapping[str, object] = {
    "denied/secret.txt": "k",
    "a/x": "1",
    "b/x": "2",
    "p/denied/k": "k",
    "list": "denied/secret.txt",
}
PRIVATE: Mapping[str, object] = {"a/x": "1", "sub/.env": "K=1", "sub/f.txt": "2", "sub/prod.env": "K=2"}
EVERYDAY: Mapping[str, object] = {"a/x": "1", "b/y.py": "2", "build/z": "3"}
MODES: tuple[Mode, ...] = ("default", "bypassPermissions")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    [
        *("sudo grep -r x .", "env FOO=1 grep -rn x", "strace -f grep -r x .", "flock f diff p b", "sudo diff -r p b"),
        *("sudo zip -r x.zip .", "sudo mv p q", "env -u git grep -r x .", "env -u rg cp -r p q", "env -C p grep -r x"),
        *(
            'rg "$p"',
            "rg $p",
            "sudo rg x",
            "env FOO=1 rg x .",
            "if true; then rg x; fi",
            "ack x",
            "ag x",
            "xargs rg < b/x",
        ),
        *(
            "gzip -rc .",
            "pax -w .",
            "shar .",
            "tar -T list -cf -",
            "find . -print0 | tar --null -T - -cf -",
            "ls | cpio -o",
        ),
        *("find . -type f -exec cat {} +", "find . -name 's*' -exec head {} \\;"),
        *("env ln -s denied q; cat q/secret.txt", "sudo cp -r p q; cat q/denied/k"),
    ],
)
def test_a_folder_with_something_denied_is_not_gone_through_behind_another_program(command: str, mode: Mode) -> None:
    assert (
        weighed("Bash", command, allow=["Bash"], deny=["Read(denied/**)"], mode=mode, files=FILES).decision != "allow"
    )


@pytest.mark.parametrize("command", ["sudo rm -r .", "env rm -r denied/..", "sudo mv . /tmp/q"])
def test_what_may_not_be_edited_is_not_taken_away_behind_another_program(command: str) -> None:
    verdict = weighed("Bash", command, allow=["Bash"], deny=["Edit(denied/**)"], files=FILES)
    assert verdict.decision != "allow"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sudo grep -r x sub",
            "env FOO=1 diff a sub",
            "find sub -type f -exec cat {} +",
            "rg --hidden $p",
            "gzip -rc sub",
        ),
        *("find . -name '*.env' -exec cat {} \\;", "find sub -name '.e*' -exec head -n 1 {} +"),
    ],
)
def test_files_with_secrets_are_not_found_by_going_through_a_folder(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash"], files=PRIVATE).decision == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *("find . -name '*.py' -exec grep -l foo {} +", "find . -name '*.txt' -exec cat {} \\;"),
        *(
            'rg "$p"',
            "for i in a b; do rg $i sub/f.txt; done",
            "find sub -type f -exec wc -l {} +",
            "sudo grep -r x a",
            "gzip -r a",
        ),
    ],
)
def test_everyday_searches_go_on(command: str) -> None:
    files = {**EVERYDAY, ".env": "K=1", "sub/f.txt": "x"}
    assert weighed("Bash", command, allow=["Bash"], files=files).decision == "allow"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tool", "name", "rule"),
    [
        ("Agent", "tools:Explore", "Agent(tools:*)"),
        ("Agent", " Explore", "Agent(Explore)"),
        ("Agent", "Explore\n", "Agent(explore)"),
        ("Agent", "", "Agent(general-purpose)"),
        ("Skill", "tools:deploy", "Skill(tools:*)"),
        ("Skill", "deploy ", "Skill(deploy)"),
    ],
)
def test_a_denied_child_or_skill_is_denied_in_any_spelling(tool: str, name: str, rule: str, mode: Mode) -> None:
    assert weighed(tool, name, deny=[rule], mode=mode).decision == "deny"


def test_a_rule_that_allows_does_not_stand_for_the_names_of_a_plugin() -> None:
    assert weighed("Skill", "tools:deploy", allow=["Skill(tools:*)"]).decision == "ask"


@pytest.mark.parametrize(
    "command", ["cat ${x:=.env}", "cat ${x:-${y:-.env}}", "cat < ${x:-.env} `ls`", "cat $'.env'", "ed .env"]
)
def test_a_file_with_secrets_that_a_text_names_is_private_data_however_it_is_read(command: str) -> None:
    verdict = weighed("Bash", command, mode="bypassPermissions", taint=frozenset(("untrusted", "outside")))
    assert (verdict.decision, verdict.reason) == ("ask", "taint")


@pytest.mark.parametrize("command", ["mail -s x ada@example.test < notes", "sendmail x", "getent hosts x.example.test"])
def test_letters_and_lookups_are_a_way_out(command: str) -> None:
    verdict = weighed("Bash", command, mode="bypassPermissions", taint=frozenset(("untrusted", "private")))
    assert (verdict.decision, verdict.reason) == ("ask", "taint")
