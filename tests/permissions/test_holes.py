"""Ways round the policy that somebody found, each shut, and next to each what must stay free."""

import pytest

from backstay.vocab.specs import Mode
from tests.permissions.desk import weighed

# --- the web -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["0x7f.1", "2130706433", "127.1", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "u@127.0.0.1", "127%2e1", "\uff1127.1"],
)
def test_this_machine_in_disguise_asks_even_when_permissions_are_bypassed(host: str) -> None:
    assert weighed("WebFetch", f"http://{host}/x", mode="bypassPermissions").decision == "ask"


def test_a_public_address_is_free_when_permissions_are_bypassed() -> None:
    for url in ("https://example.com/a", "https://user:word@example.com/", "http://xn--bcher-kva.example/"):
        assert weighed("WebFetch", url, mode="bypassPermissions").decision == "allow"


@pytest.mark.parametrize(
    "host",
    [
        "\uff45vil.test",
        "ⓔvil.test",
        "ev\u00adil.test",
        "evil%2etest",
        "evil%252etest",
        "evil.test..",
        "ev\u200bil.test",
        "EVIL。test",
    ],
)
def test_a_denied_host_is_denied_in_every_spelling(host: str) -> None:
    assert weighed("WebFetch", f"https://{host}/x", deny=["WebFetch(domain:evil.test)"]).decision == "deny"


def test_an_odd_host_asks_hard_where_a_host_is_denied() -> None:
    odd, denied = "https://xn--bcher-kva.example/", ["WebFetch(domain:evil.test)"]
    assert weighed("WebFetch", odd, deny=denied, mode="bypassPermissions").decision == "ask"
    assert weighed("WebFetch", odd, deny=["WebFetch(domain:bücher.example)"]).decision == "deny"
    assert weighed("WebFetch", "https://good.test/", deny=denied, mode="bypassPermissions").decision == "allow"


# --- removals ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *(
            "find . -name '*' -delete",
            "find . -path '*' -delete",
            "find . -path './*' -delete",
            "find . -regex '.*' -delete",
        ),
        *(
            "find . -size +0 -delete",
            "find . -mtime -99999 -delete",
            "find . -not -empty -delete",
            "find . ! -name x -delete",
        ),
        *("find . -name x -o -delete", "find . -not \\( -name x \\) -delete", "find /repo -path '/repo/*' -delete"),
        *("rm -rf [!.]*", "rm -rf ./[!x]*", "rm -rf [a-zA-Z]*", "rm -rf */*", "rm -rf ?*"),
    ],
)
def test_a_removal_that_picks_nothing_is_refused_even_when_permissions_are_bypassed(command: str) -> None:
    assert weighed("Bash", command, mode="bypassPermissions").decision in ("deny", "ask")
    assert weighed("Bash", command, mode="bypassPermissions").reason == "critical"


@pytest.mark.parametrize(
    "command",
    [
        *("find . -name '*.pyc' -delete", "find . -name a -o -name b -delete", "find . -mtime +30 -delete"),
        *(
            "find . -type d -empty -delete",
            "find . -not -path './.git/*' -name '*.o' -delete",
            "rm *.[ch]",
            "rm -rf build/*",
        ),
        *("rm -rf */node_modules", "rm [Bb]uild*"),
    ],
)
def test_a_removal_that_picks_something_is_free_when_permissions_are_bypassed(command: str) -> None:
    assert weighed("Bash", command, mode="bypassPermissions").decision == "allow"


# --- what a script moves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *("mv other old && mv pkg other && cat other/link/secret.txt", "cp -a pkg copy && cat copy/leaf.txt"),
        *(
            "cp -P link copy; cat copy",
            "cp -r pkg copy; echo x > copy/link/y",
            "mv pkg other; cd other; cat link/secret.txt",
        ),
        *(
            "mv pkg other; cat other/*/secret.txt",
            "mv pkg other; cat o*/link/secret.txt",
            "mv pkg d/; cat d/pkg/link/x",
        ),
        *("for i in 1 2; do cat other/link/x; mv pkg other; done", "cp --arch pkg copy && head copy/leaf.txt"),
    ],
)
def test_what_a_script_moved_itself_is_not_taken_at_its_word(command: str) -> None:
    assert weighed("Bash", command, mode="acceptEdits").decision == "ask"


@pytest.mark.parametrize(
    "command", ["ln -s x y && cat y/z", "tar -xf x.tar && cat y/z", "unzip x.zip; cat y", "rsync -a a/ b; cat b/c"]
)
def test_what_a_script_unpacked_or_linked_asks_under_a_rule_for_each_program(command: str) -> None:
    rules = [f"Bash({name} *)" for name in ("ln", "tar", "unzip", "rsync", "cat")]
    assert weighed("Bash", command, allow=rules).decision == "ask"
    assert weighed("Bash", command.replace("cat", "true"), allow=[*rules, "Bash(true *)"]).decision == "allow"
    assert weighed("Bash", command, allow=["Bash"]).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("mkdir -p a/b && touch a/b/c", "cp a b && cat b", "mv pkg docs/ && cat docs/other.txt", "mv a b; mv c d"),
    ],
)
def test_what_a_script_made_or_renamed_is_free(command: str) -> None:
    assert weighed("Bash", command, mode="acceptEdits").decision == "allow"


@pytest.mark.parametrize(
    "command", ["mv dir .github", "cp -r dir .github", "mv dir .config", "cp -a d sub/.github", "cp -rT d .github"]
)
def test_a_folder_that_would_hold_a_protected_place_asks(command: str) -> None:
    assert weighed("Bash", command, mode="acceptEdits").decision == "ask"


def test_files_next_to_a_protected_place_are_free() -> None:
    for command in ("cp OWNERS .github/", "mkdir -p .github", "cp dir/a .githubs", "touch .github/x.md"):
        assert weighed("Bash", command, mode="acceptEdits").decision == "allow"


# --- reading round a denial --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rg -iuu x",
            "rg -n. x",
            "rg --iglob .env x",
            "rg -ig.env x",
            "grep --rec x .",
            "grep -d recurse x .",
            "grep -drecurse x .",
        ),
        *("grep --dir=recurse x .", "grep -inr x .", "git grep x", "git grep --no-index x", "git diff --no-index X ."),
        *("diff -N empty .", "zcat -rf .", "cp --rec . /repo/y", "git grep x -- ."),
    ],
)
def test_a_command_that_goes_through_a_folder_with_a_denied_file_asks(command: str) -> None:
    files = {".env": "A=1", "src/a.py": "x", "empty/a": ""}
    modes: tuple[Mode, ...] = ("acceptEdits", "bypassPermissions")
    for mode in modes:
        assert weighed("Bash", command, deny=["Read(.env)"], files=files, mode=mode).decision == "ask"
    assert weighed("Bash", command, deny=["Read(.env)"], mode="acceptEdits").decision == "ask"


@pytest.mark.parametrize(
    "command",
    ["rg -tgo x", "rg -in x src", "grep -e r x.py", "grep -rn x src", "diff src/a.py src/b.py", "git grep x -- src"],
)
def test_a_command_that_meets_nothing_denied_is_free(command: str) -> None:
    files = {".env": "A=1", "src/a.py": "x", "src/b.py": "x", "x.py": ""}
    assert weighed("Bash", command, deny=["Read(.env)"], files=files).decision == "allow"


# --- rules -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    ["foo rm x", "foo -- /bin/rm x", "python3 -c \"import os; os.system('rm x')\"", "perl -e 'system(\"/bin/rm x\")'"],
)
def test_a_denied_program_among_the_words_of_another_asks(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash"], deny=["Bash(rm *)"]).decision == "ask"
    assert weighed("Bash", command, mode="bypassPermissions", deny=["Bash(rm *)"]).decision == "ask"


def test_a_word_that_only_resembles_a_denied_program_is_free() -> None:
    for command in ("foo form x", "python3 -c 'print(1)'", "python3 rm.py", "echo rm", "foo x"):
        assert weighed("Bash", command, allow=["Bash"], deny=["Bash(rm *)"]).decision == "allow"


def test_a_server_is_allowed_by_its_name_alone() -> None:
    for rule in ("*", "mcp__*", "mcp__*__read"):
        assert weighed("mcp__srv__read", {}, allow=[rule]).decision == "ask"
    for rule in ("mcp__srv", "mcp__srv__*", "mcp__srv__read"):
        assert weighed("mcp__srv__read", {}, allow=[rule]).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git archive -o ~/x HEAD",
        "git archive --output=/tmp/x HEAD",
        "git clone x ~/y",
        "git worktree add ../y",
        "git init ~/z",
    ],
)
def test_git_writes_outside_only_when_asked(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash(git *)"]).decision == "ask"


def test_git_writes_inside_under_its_rule() -> None:
    for command in (
        "git archive -o x.tar HEAD",
        "git clone https://a.test/b",
        "git clone https://a.test/b c",
        "git push",
    ):
        assert weighed("Bash", command, allow=["Bash(git *)"]).decision == "allow"


def test_a_rule_for_every_edit_is_about_redirects() -> None:
    assert weighed("Bash", "echo x > b.txt", allow=["Edit"]).decision == "allow"
    for command in ("echo x > .bashrc", "echo x > ../b.txt", "make > b.txt"):
        assert weighed("Bash", command, allow=["Edit"]).decision == "ask"
    for rule in ("Edit", "Write"):
        assert weighed("Bash", "echo x > b.txt", deny=[rule], mode="bypassPermissions").decision == "deny"
        assert weighed("Bash", "echo x", deny=[rule], mode="bypassPermissions").decision == "allow"


def test_a_pattern_behind_a_linked_folder_is_judged_where_that_leads() -> None:
    files = {"link": "symlink:/etc", "near": "symlink:src", "src/a.py": "x"}
    assert weighed("Bash", "cat link/passw?", files=files).decision == "ask"
    assert (
        weighed("Bash", "cat link/passw?", files=files, allow=["Bash(cat *)"], deny=["Read(//etc/**)"]).decision
        != "allow"
    )
    assert weighed("Bash", "rm -rf link/*", files=files, mode="bypassPermissions").decision == "deny"
    assert weighed("Bash", "cat near/*.py", files=files).decision == "allow"


def test_a_folder_with_a_denied_file_is_not_moved_away_from_its_rule() -> None:
    files = {"d/secret": "x", "f/open": "x"}
    assert weighed("Bash", "mv d e", mode="acceptEdits", deny=["Read(d/secret)"], files=files).decision == "ask"
    assert weighed("Bash", "mv f e", mode="acceptEdits", deny=["Read(d/secret)"], files=files).decision == "allow"


def test_a_copy_or_an_archive_that_clears_a_dear_folder_is_refused() -> None:
    for command in ("rsync -a --delete empty/ /", "rsync -a --delete empty/ .", "tar --remove-files -cf x /"):
        assert weighed("Bash", command, mode="bypassPermissions").decision == "deny"
    assert weighed("Bash", "rsync -a --delete a/ dist/", mode="bypassPermissions").decision == "allow"
