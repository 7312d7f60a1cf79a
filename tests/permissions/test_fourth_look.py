"""What a fourth look at the policy found: holes that are closed, and questions that nobody needs."""

from typing import Any

import pytest

from tests.permissions.desk import weighed

NPM = {"allow": ["Bash(npm test *)"]}
GIT = {"allow": ["Bash(git log *)", "Bash(git diff *)"]}
NO_RM = {"allow": ["Bash"], "deny": ["Bash(rm *)"]}
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


COMMANDS: list[tuple[str, dict[str, Any], str]] = [
    # a wildcard is looked up where it is, however the way there is written
    ("cat ./*", NO_ENV, "deny"),
    ("cat .//*", NO_ENV, "deny"),
    ("cat /repo/./*", NO_ENV, "deny"),
    ("cat ./*.py", NO_ENV, "allow"),
    # env is a program of its own for rules that allow, and harmless around what is harmless
    ("env npm test", NPM, "ask"),
    ("env ls", {}, "ask"),
    ("env rm x", {"deny": ["Bash(rm *)"]}, "deny"),
    # arithmetic sets variables too
    ("let PATH=1; ls", {}, "ask"),
    ("let ++PATH; ls", {}, "ask"),
    ("(( ++PATH )); ls", {}, "ask"),
    ("let i=1; ls", {}, "ask"),
    # sed's empty script
    ("sed '' .env", NO_ENV, "deny"),
    ("sed -i '' s/a/b/ a.py", {"mode": "acceptEdits"}, "ask"),
    # no pager, no editor
    ("GIT_PAGER=cat git log", GIT, "allow"),
    ("GIT_PAGER= git log", GIT, "allow"),
    ("PAGER=cat git diff", {}, "allow"),
    ("env GIT_PAGER=cat git log", {}, "ask"),
    ("export GIT_PAGER=cat; git log", {}, "allow"),
    ("PAGER=cat; git log", {}, "ask"),
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
    ("git log -- src/*", {}, "allow"),
    ("sort *", {}, "ask"),
    ("rg foo *", {}, "ask"),
    ("uniq src/*", {}, "ask"),
    # a loop over files
    ("for f in src/*.py; do wc -l $f; done", {}, "ask"),
    ("for f in *.py; do cat $f; done", NO_ENV, "ask"),
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


COMMANDS += [
    # what a substitution prints is looked at, and not trusted
    ("source <(echo rm -rf /)", {"mode": "bypassPermissions"}, "deny"),
    ("bash <(printf 'rm -rf ~')", {"mode": "bypassPermissions"}, "deny"),
    ('sh -c "$(echo rm -rf /)"', {"mode": "bypassPermissions"}, "deny"),
    ('eval "$(echo rm -rf /)"', {"mode": "bypassPermissions"}, "deny"),
    ("$(echo rm) -rf /", {"mode": "bypassPermissions"}, "deny"),
    ('bash -c "$(echo ls)"', {}, "ask"),
    ("$(echo ls) src", {}, "ask"),
    # what a command makes and then runs
    ("echo rm b > x; sh x", NO_RM, "ask"),
    ("cat > x.sh <<E\nrm b\nE\nbash x.sh", NO_RM, "ask"),
    ("cp /bin/rm z && ./z b", NO_RM, "ask"),
    ("ln -s /bin/rm z; ./z b", NO_RM, "ask"),
    ("echo form > x; sh x", NO_RM, "allow"),
    ("gcc a.c -o a && ./a", NO_RM, "allow"),
    ('vagrant ssh -c "rm b"', NO_RM, "ask"),
    ("sg g sh -c 'rm b'", NO_RM, "deny"),
    ("sg g -c 'rm b'", NO_RM, "deny"),
    ('vagrant ssh -c "ls rm"', NO_RM, "allow"),
    # words that become several: the next one may be any file
    ("for f in 'q /etc/pass'*; do cat x$f; done", {}, "ask"),
    ("for f in 'q /etc/pass'*; do cat $f; done", {}, "ask"),
    ("for f in 'q /root/zz '*; do rm -f x$f; done", {"mode": "acceptEdits"}, "ask"),
    ("for f in sub/*; do cat ${f}x; done", {"deny": ["Read(//etc/**)"]}, "ask"),
    ("grep $(echo root /etc/passwd) src/x.py", {}, "ask"),
    ("head -n $(echo 1 /etc/passwd) src/x.py", {"deny": ["Read(//etc/**)"]}, "ask"),
    ('grep "$(echo root)" src/x.py', {}, "ask"),
    ("head -n $((3+1)) src/x.py", {}, "ask"),
    # what xargs feeds to a program may be anything
    ("echo .env | xargs -I% cat %", {"allow": ["Bash"], **NO_ENV}, "ask"),
    ("find . -type f -print0 | xargs -0 cat", {"allow": ["Bash"], **NO_ENV}, "ask"),
    ("docker exec c cat a", {"allow": ["Bash"], **NO_ENV}, "allow"),
    ("ls | xargs -n1 npm test", {"allow": ["Bash"], **NO_ENV}, "allow"),
    # drives, as the shells of Windows write them
    (
        "rm -rf /c/Windows",
        {"mode": "bypassPermissions", "os": "windows", "cwd": "C:/repo", "home": "C:/Users/u"},
        "deny",
    ),
    (
        "rm -rf /cygdrive/c",
        {"mode": "bypassPermissions", "os": "windows", "cwd": "C:/repo", "home": "C:/Users/u"},
        "deny",
    ),
    ('cmd /c "rm x"', {**NO_RM, "os": "windows"}, "deny"),
    ("cmd /crm x", {**NO_RM, "os": "windows"}, "deny"),
    # programs that change the files that they are given
    *(
        (command, {"allow": ["Bash"], "deny": ["Edit(src/**)"]}, "deny")
        for command in (
            "perl -pi -e s/a/b/ src/a.py",
            "perl -i.bak -pe 1 src/a.py",
            "ruby -i -pe 1 src/a.py",
            "patch src/a.py < p",
            "vim src/a.py",
            "sponge src/a.py",
            "gcc -o src/a a.c",
            "unzip a.zip -d src",
        )
    ),
    *(
        (command, {"allow": ["Bash"], "deny": ["Edit(src/**)"]}, "allow")
        for command in ("perl src/a.pl", "less src/a.py", "gcc src/a.c -o a", "unzip src/a.zip", "patch a.py src/p")
    ),
]


@pytest.mark.parametrize(("command", "held", "decision"), COMMANDS)
def test_commands(command: str, held: dict[str, Any], decision: str) -> None:
    """What is hidden is found, and what everybody types every day is not asked about."""
    assert weighed("Bash", command, **held).decision == decision


HOSTS = [
    ("https://xn--mnchen-3ya.de/", ["WebFetch(domain:xn--mnchen-3ya.de)"], "allow"),
    ("https://xn--mnchen-3ya.de/", ["WebFetch(domain:münchen.de)"], "allow"),
    ("https://xn--mnchen-3ya.de/", ["WebFetch"], "ask"),
    ("https://xn--mnchen-3ya.de/", ["WebFetch(domain:*.de)"], "ask"),
    ("https://xn--exmple-4nf.com/", ["WebFetch(domain:example.com)"], "ask"),
]


@pytest.mark.parametrize(("url", "allow", "decision"), HOSTS)
def test_a_host_in_another_script_is_allowed_by_who_names_it(url: str, allow: list[str], decision: str) -> None:
    """What looks like another name is asked about; the very name is not."""
    assert weighed("WebFetch", url, allow=allow).decision == decision


def test_a_drive_is_denied_in_every_spelling() -> None:
    """Git's shell writes `/c/Users` for `C:/Users`."""
    for path in ("/c/Users/u/.ssh/id_rsa", "/mnt/c/Users/u/.ssh/id_rsa", "C:\\Users\\u\\.ssh\\id_rsa"):
        held = weighed("Read", path, deny=["Read(~/.ssh/**)"], os="windows", cwd="C:/repo", home="C:/Users/u")
        assert held.decision == "deny"


@pytest.mark.parametrize(
    ("rule", "host", "decision"),
    [
        ("github.com", "xn--github-.com", "ask"),
        ("github.com", "xn--ithub-dq33a.com", "ask"),
        ("localhost", "xn--localhost-", "ask"),
        ("münchen.de", "xn--mnchen-3ya.de", "allow"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de", "allow"),
    ],
)
def test_a_host_in_another_script_is_allowed_by_its_own_name_only(rule: str, host: str, decision: str) -> None:
    held: dict[str, Any] = {"allow": [f"WebFetch(domain:{rule})"]}
    assert weighed("WebFetch", {"url": f"https://{host}/x", "prompt": "x"}, **held).decision == decision
