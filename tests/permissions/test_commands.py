"""Shell commands: every one of a script, at every layer, with every file that it touches."""

from typing import Any

import pytest

from tests.permissions.desk import weighed

EDITS: dict[str, Any] = {"mode": "acceptEdits"}  # Any: keyword arguments of the desk
NPM: dict[str, Any] = {"allow": ["Bash(npm test *)"]}
GIT: dict[str, Any] = {"allow": ["Bash(git log *)"]}
ECHO: dict[str, Any] = {"allow": ["Bash(echo *)", "Bash(cat *)", "Bash(tee *)", "Bash(cp *)"]}
NO_RM: dict[str, Any] = {"deny": ["Bash(rm *)"]}
NO_ENV: dict[str, Any] = {
    "deny": ["Read(.env)", "Read(~/.ssh/**)"],
    "files": {".env": "K=1", "sub/.env": "K=2", "linked": "symlink:.env", "src/a.py": "x"},
}

RULES = [
    # exact, prefix, wildcard
    ("npm test", {"allow": ["Bash(npm test)"]}, "allow"),
    ("npm test -v", {"allow": ["Bash(npm test)"]}, "ask"),
    ("npm test", NPM, "allow"),
    ("npm test -- --grep x", NPM, "allow"),
    ("npm testing", NPM, "ask"),
    ("npm  test   -v", NPM, "allow"),
    ("npm test", {"allow": ["Bash(npm test:*)"]}, "allow"),
    ("npm test -v", {"allow": ["Bash(npm test:*)"]}, "allow"),
    ("npm tests", {"allow": ["Bash(npm test:*)"]}, "ask"),
    ("npm tests", {"allow": ["Bash(npm test*)"]}, "allow"),
    ("npm run x --save", {"allow": ["Bash(npm * --save)"]}, "allow"),
    ('npm "run test"', {"allow": ["Bash(npm run test)"]}, "ask"),
    ('npm "run test"', {"allow": ["Bash(npm run *)"]}, "ask"),
    ("npm run 'te st'", {"allow": ["Bash(npm run *)"]}, "allow"),
    ("npm 'run' test", {"allow": ["Bash(npm run test)"]}, "allow"),
    ("npm install", {"allow": ["Bash"]}, "allow"),
    ("npm install", {"allow": ["Bash(*)"]}, "allow"),
    ("npm install", {"allow": ["Shell(npm install)"]}, "allow"),
    ("npm install", {"allow": ["bash(npm install)"]}, "ask"),
    ("npm install", {"allow": ["Bash(npm ?nstall)"]}, "ask"),
    ("npm install\nnpm test", {"allow": ["Bash(npm install)", "Bash(npm test)"]}, "allow"),
    ('"/opt/my tools/x" -c a', {"allow": ['Bash("/opt/my tools/x" *)']}, "allow"),
    # every part
    ("npm test && git status", NPM, "allow"),
    ("npm test; make", NPM, "ask"),
    ("npm test | tail -5", NPM, "allow"),
    ("npm test | sh", NPM, "ask"),
    ("npm test & make", NPM, "ask"),
    ("npm test\nmake", NPM, "ask"),
    ("npm test || make", NPM, "ask"),
    ("(npm test; make)", NPM, "ask"),
    ("if true; then make; fi; npm test", NPM, "ask"),
    ("npm test $(make)", NPM, "ask"),
    ("npm test `make`", NPM, "ask"),
    ('npm test "$(make)"', NPM, "ask"),
    ("npm test <(make)", NPM, "ask"),
    ("npm test ${x:-$(make)}", NPM, "ask"),
    ("npm test $(git rev-parse HEAD)", NPM, "ask"),
    ("git log; make", {"allow": ["Bash(git log; make)"]}, "allow"),
    ("git log; make ", {"allow": ["Bash(git log; make)"]}, "allow"),
    ("git log; make x", {"allow": ["Bash(git log; make)"]}, "ask"),
    ("git log ;; make", GIT, "ask"),
    # wrappers
    ("time npm test", NPM, "allow"),
    ("timeout 5 npm test", NPM, "allow"),
    ("nohup nice npm test", NPM, "allow"),
    ("sudo npm test", NPM, "ask"),
    ("env A=b npm test", NPM, "ask"),
    ("watch npm test", NPM, "ask"),
    ("sh -c 'npm test'", NPM, "ask"),
    ("npx npm test", NPM, "ask"),
    ("xargs npm test", NPM, "ask"),
    ("xargs -I{} npm test {}", NPM, "ask"),
    ("NODE_ENV=test npm test", NPM, "allow"),
    ("FOO=1 npm test", NPM, "ask"),
    ("FOO=1 npm test", {"allow": ["Bash(FOO=1 npm test)"]}, "allow"),
    ("PATH=. npm test", NPM, "ask"),
    ("LD_PRELOAD=./x ls", {"allow": ["Bash(ls *)"]}, "ask"),
    ("export PATH=.; npm test", NPM, "ask"),
    # exact only
    ("find . -name '*.o' -delete", {"allow": ["Bash(find *)"]}, "ask"),
    ("find . -name '*.o' -delete", {"allow": ["Bash(find . -name '*.o' -delete)"]}, "allow"),
    ("find . -exec make ;", {"allow": ["Bash(find *)"]}, "ask"),
    ("git -c core.pager=./x log", {"allow": ["Bash(git *)"]}, "ask"),
    # not known before it runs
    ("$X test", {"allow": ["Bash"]}, "ask"),
    ("$X test", {"allow": ["Bash(*)", "Bash($X test)"]}, "allow"),
    ('eval "$X"', {}, "ask"),
    ("source venv/bin/activate", {"allow": ["Bash(source *)"]}, "ask"),
    ("source venv/bin/activate", {"allow": ["Bash(source *)"], **NO_RM}, "ask"),
    ("curl $URL", {"allow": ["Bash(curl https://a.test/*)"]}, "ask"),
    # deny and ask
    ("npm test", {"allow": ["Bash"], "deny": ["Bash(npm *)"]}, "deny"),
    ("npm test", {"allow": ["Bash(npm test)"], "ask": ["Bash(npm *)"]}, "ask"),
    ("ls && npm test", {"mode": "bypassPermissions", "ask": ["Bash(npm *)"]}, "ask"),
    ("ls", {"deny": ["Bash"]}, "deny"),
    ("ls", {"deny": ["Bash(*)"]}, "deny"),
    ("ls", {"deny": ["Bash()"]}, "deny"),
    ("ls", {"deny": ["Shell"]}, "deny"),
    ("ls", {"deny": ["BackgroundProcess"]}, "deny"),
    ("ls\nrm -rf x", {"deny": ["Bash(*)"]}, "deny"),
    ("git push --force", {"allow": ["Bash(git *)"], "deny": ["Bash(git push *)"]}, "deny"),
    ("git log --grep push", {"allow": ["Bash(git *)"], "deny": ["Bash(git push *)"]}, "allow"),
    ("git $X", {"allow": ["Bash(git *)"], "deny": ["Bash(git push *)"]}, "ask"),
    ("git log $X", {"allow": ["Bash(git log *)"], "deny": ["Bash(git push *)"]}, "ask"),
    ("echo rm -rf x", {**ECHO, **NO_RM}, "allow"),
    ("grep -rn 'rm -rf' src", NO_RM, "allow"),
    ("rmdir_all x", {"allow": ["Bash(rmdir_all *)"], **NO_RM}, "allow"),
]


@pytest.mark.parametrize(("command", "given", "decision"), RULES)
def test_rules(command: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed("Bash", command, **given)

    assert verdict.decision == decision, verdict.detail


WRAPPED = [
    *(
        "rm -rf x",
        "  rm\t-rf x",
        "\\rm -rf x",
        "r''m -rf x",
        '"rm" -rf x',
        "/bin/rm -rf x",
        "command rm -rf x",
    ),
    *("env rm -rf x", "env -i A=b rm -rf x", "nice -n 5 rm -rf x", "timeout -s KILL 5 rm -rf x", "sudo -u u rm -rf x"),
    *(
        "A=b rm -rf x",
        "ls && rm -rf x",
        "ls; rm -rf x",
        "ls | rm -rf x",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "! rm -rf x",
        "ls &\nrm -rf x",
    ),
    *(
        "if true; then rm -rf x; fi",
        "for f in a; do rm -rf x; done",
        "while rm -rf x; do ls; done",
        "case a in a) rm -rf x;; esac",
    ),
    *(
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        'echo "$(rm -rf x)"',
        "cat <(rm -rf x)",
        "nohup rm -rf x &",
        "time rm -rf x",
        "exec rm -rf x",
    ),
    *(
        "f() { rm -rf x; }; f",
        "coproc rm -rf x",
        "ls | xargs rm -rf",
        "builtin command rm -rf x",
        "rm",
        "true && " * 60 + "rm -rf x",
    ),
]
HIDDEN = [
    *(
        "env -S 'rm -rf x'",
        "sh -c 'rm -rf x'",
        "bash -lc 'rm -rf x'",
        "eval 'rm -rf x'",
        "busybox rm -rf x",
        "find . -exec rm -rf {} +",
    ),
    *(
        "echo 'rm -rf x' | sh",
        "trap 'rm -rf x' EXIT",
        "$(echo rm) -rf x",
        "x=rm; $x -rf x",
        "{rm,-rf,x}",
        "r${Z}m -rf x",
        "/bin/r? -rf x",
    ),
    *(
        "ssh h rm -rf x",
        "docker exec c rm -rf x",
        "git -c alias.x='!rm -rf x' x",
        "alias z=rm; z -rf x",
        "bash <<< 'rm -rf x'",
        "rm$IFS-rf${IFS}x",
    ),
    *(
        "echo cm0K | base64 -d | sh",
        "python -c 'import os; os.remove(1)'",
        "sh x.sh",
        "./x.sh",
        "make",
        "perl -e 'unlink 1'",
        "bash <<EOF\nrm x\nEOF",
    ),
]


@pytest.mark.parametrize("command", WRAPPED)
def test_a_denied_command_is_denied_in_every_wrapping(command: str) -> None:
    assert weighed("Bash", command, **NO_RM, allow=["Bash"]).decision == "deny"
    assert weighed("Bash", command, **NO_RM, mode="bypassPermissions").decision == "deny"


@pytest.mark.parametrize("command", HIDDEN)
def test_a_denied_command_that_hides_is_denied_or_asked_for(command: str) -> None:
    assert weighed("Bash", command, **NO_RM).decision in ("ask", "deny")


FILES = [
    # redirects
    ("echo x > out.txt", ECHO, "ask"),
    ("echo x > out.txt", {**EDITS, **ECHO}, "allow"),
    ("echo x > out.txt", EDITS, "allow"),
    ("echo x > out.txt", {"allow": ["Bash(echo *)", "Edit(/out.txt)"]}, "allow"),
    ("echo x > out.txt", {"allow": ["Edit(/out.txt)"]}, "allow"),
    ("echo x > out.txt", {"allow": ["Bash(echo x > out.txt)"]}, "allow"),
    ("echo x > ../a/out", {"allow": ["Bash(echo x > ../a/out)"]}, "ask"),
    ("npm test > out.txt", NPM, "ask"),
    ("npm test > /dev/null 2>&1", NPM, "allow"),
    ("npm test &> /dev/null", NPM, "allow"),
    ("npm test 2> /dev/stderr", NPM, "allow"),
    *((f"echo x {how} ../a/o", {**EDITS, **ECHO}, "ask") for how in (">", ">>", ">|", "&>", ">&", "2>", "<>", "&>>")),
    *(
        (f"echo x > {path}", {**EDITS, **ECHO}, "ask")
        for path in ("~/.bashrc", "$HOME/.zshrc", "/etc/x", "/repo-evil/x", "/repo/../a/x")
    ),
    *(
        (f"echo x > {path}", {**EDITS, **ECHO}, "ask")
        for path in (".git/hooks/x", ".claude/settings.json", ".envrc", "Makefile", "$X", "*.log")
    ),
    ("cd .git && echo x > config", {**EDITS, **ECHO}, "ask"),
    ("cd src && echo x > a.py", {**EDITS, **ECHO}, "allow"),
    ("cd / && echo x > a", {**EDITS, **ECHO}, "ask"),
    ("echo x > /dev/sda", {"mode": "bypassPermissions"}, "deny"),
    ("{ echo x; } > ../a/o", {**EDITS, **ECHO}, "ask"),
    ("echo x | tee ../a/o", {**EDITS, **ECHO}, "ask"),
    ("echo x | tee out.txt", {"allow": ["Bash(tee *)"]}, "allow"),
    ("cat < /etc/passwd", {}, "ask"),
    ("cat < src/a.py", {}, "allow"),
    # programs that edit
    ("mkdir -p src/x && touch src/x/a", EDITS, "allow"),
    ("mkdir -p src/x", {}, "ask"),
    ("cp a b", EDITS, "allow"),
    ("cp /etc/passwd b", EDITS, "ask"),
    ("cp a ../b/c", EDITS, "ask"),
    ("cp a .git/config", EDITS, "ask"),
    ("mv a .husky/b", EDITS, "ask"),
    ("rm -rf build", EDITS, "allow"),
    ("rm -rf build", {}, "ask"),
    ("rm -rf build", {"mode": "plan"}, "deny"),
    ("rm -rf build", {"mode": "plan", "allow": ["Bash(rm *)"]}, "deny"),
    ("rm -rf build/a build/b", EDITS, "allow"),
    ("rm -rf ../b/c", EDITS, "ask"),
    ("rm .git/config", EDITS, "ask"),
    ("sed -i s/a/b/ src/a.py", EDITS, "allow"),
    ("sed -i s/a/b/ ~/.bashrc", EDITS, "ask"),
    ("cp a b", {"allow": ["Bash(cp *)"]}, "allow"),
    ("cp a ../b/c", {"allow": ["Bash(cp *)"]}, "ask"),
    ("cp a b", {**EDITS, "deny": ["Edit(b)"]}, "deny"),
    ("cp a b", {**EDITS, "deny": ["Write(b)"]}, "deny"),
    ("touch b", {**EDITS, "deny": ["Edit"]}, "deny"),
    # reading elsewhere
    ("cat /etc/passwd", {}, "ask"),
    ("cat /etc/passwd", {"allow": ["Bash(cat *)"]}, "ask"),
    ("cat /etc/passwd", {"allow": ["Bash(cat /etc/passwd)"]}, "allow"),
    ("cat /etc/passwd", {"allow": ["Bash(cat *)", "Read(//etc/passwd)"]}, "allow"),
    ("cat /etc/passwd", {"allow": ["Read(//etc/passwd)"]}, "allow"),
    ("cat /etc/passwd", {"scope": "full"}, "allow"),
    ("cat ~/.ssh/id_rsa", {"allow": ["Bash"]}, "ask"),
    ("cat .env", {"allow": ["Bash"]}, "ask"),
    ("cat .env", {}, "ask"),
    ("cat .env.example", {}, "allow"),
    ("ls /usr", {}, "ask"),
    ("ls src", {}, "allow"),
    ("cd .. && ls", {}, "ask"),
    ("python3 /opt/x.py", {"allow": ["Bash(python3 *)"]}, "allow"),
    ("python3 ~/.ssh/id_rsa", {"allow": ["Bash(python3 *)"]}, "ask"),
    ('cat "$X"', {}, "ask"),
    # what is denied to be read
    *(
        (f"{program} .env", NO_ENV, "deny")
        for program in ("cat", "head", "tail -1", "less", "nl", "tac", "xxd", "od", "base64", "sort", "wc")
    ),
    *(
        (command, NO_ENV, "deny")
        for command in ("cat ./.env", "cat sub/../.env", "cat sub/.env", "cat linked", "cat < .env", "grep K .env")
    ),
    *(
        (command, NO_ENV, "deny")
        for command in ("cat ~/.ssh/id_rsa", 'cat "$HOME/.ssh/id_rsa"', "cp .env a", "cd sub && cat .env", "cat .e*")
    ),
    *(
        (command, NO_ENV, "deny")
        for command in ("echo $(cat .env)", "source .env", "awk 1 .env", "sed -n p .env", "cat .en?")
    ),
    *(
        (command, NO_ENV, "deny")
        for command in (
            "tar cf - .env",
            "diff .env /dev/null",
            "python3 .env",
            "unknown --file .env",
            "git diff --no-index .env a",
        )
    ),
    ("grep -r K .", NO_ENV, "ask"),
    ("grep -r K src", NO_ENV, "allow"),
    ("rg K", NO_ENV, "allow"),
    ("rg -uu K", NO_ENV, "ask"),
    ("cat README.md", NO_ENV, "allow"),
    ("cat *.md", NO_ENV, "allow"),
    ("ls -la", NO_ENV, "allow"),
    ("cat .env", {"deny": ["Read"]}, "deny"),
    ("cat a.txt", {"ask": ["Read(a.txt)"], "mode": "bypassPermissions"}, "ask"),
    ("cd src && ls", {"deny": ["Cd(src)"]}, "deny"),
]


@pytest.mark.parametrize(("command", "given", "decision"), FILES)
def test_files(command: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed("Bash", command, **given)

    assert verdict.decision == decision, verdict.detail


CRITICAL = [
    *(
        "rm -rf /",
        "rm -rf /*",
        "rm -rf //",
        "rm -rf /.",
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf $HOME",
        'rm -rf "$HOME"/',
        "rm -rf ${HOME}/*",
    ),
    *(
        "rm -rf .",
        "rm -rf ./",
        "rm -rf ..",
        "rm -rf ../repo",
        "rm -rf /repo",
        "rm -rf /repo/",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf $PWD",
    ),
    *(
        "rm -rf /etc",
        "rm -rf /etc/",
        "rm -rf /usr/../etc",
        "rm -rf //etc",
        "rm -rf /usr/lib",
        "rm -rf /home/u2",
        "rm -rf /e*",
        "rmdir /usr",
    ),
    *(
        "sudo rm -rf /",
        "ls && rm -rf /",
        "sh -c 'rm -rf /'",
        "env rm -rf /",
        "find / -delete",
        "find ~ -type f -delete",
        "mv /etc /tmp/x",
    ),
    *(
        "cd / && rm -rf *",
        "cd && rm -rf .",
        "rm -rf a b /",
        "rm -rf -- /",
        "rm --recursive --force /",
        "/bin/rm -rf /",
        "echo $(rm -rf /)",
        "rm -rf /tmp/../etc",
    ),
]


@pytest.mark.parametrize("command", CRITICAL)
def test_a_critical_removal_is_never_let_through(command: str) -> None:
    for given in (
        {"mode": "bypassPermissions"},
        {"allow": ["Bash"]},
        {"allow": [f"Bash({command})"]},
        {"grants": True},
    ):
        verdict = weighed("Bash", command, **given)
        assert verdict.decision != "allow", (given, verdict.detail)
    assert weighed("Bash", command, mode="bypassPermissions").reason == "critical"


def test_a_removal_of_nobody_knows_what_asks_in_every_mode_and_a_person_may_say_yes() -> None:
    assert weighed("Bash", 'rm -rf "$X"', mode="bypassPermissions").decision == "ask"
    assert weighed("Bash", 'rm -rf "$X"', approved=True).decision == "allow"
    assert weighed("Bash", "rm -rf /", approved=True).decision == "deny"


def test_every_command_and_every_file_is_a_part_of_the_verdict() -> None:
    verdict = weighed("Bash", "git status && make > out.txt", allow=["Bash(make *)"])

    assert verdict.decision == "ask"
    assert [(part.what, part.decision, part.reason) for part in verdict.parts] == [
        ("git status", "allow", "mode"),
        ("make", "allow", "rule"),
        ("writes out.txt", "ask", "mode"),
    ]


@pytest.mark.parametrize("args", [{}, {"command": 3}, {"command": None}, {"cmd": "ls"}])
def test_a_command_that_is_no_text_asks(args: dict[str, object]) -> None:
    assert weighed("Bash", args).decision == "ask"


HIDDEN_TEXT = [
    "ls\u200b",
    "ls \u202e",
    "ls\u2028make",
    "ls \x1b[8mx",
    "ls\x00",
    "ls \ufeff",
    "\uff4cs",
    "l\u00ads",
    "ls" + " " * 600 + "; make",
]


@pytest.mark.parametrize("command", HIDDEN_TEXT)
def test_what_a_person_would_not_see_asks(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash(ls *)"]).decision in ("ask", "deny")


def test_what_is_in_a_folder_of_the_workspace_may_be_removed() -> None:
    assert weighed("Bash", "rm -rf build/*", mode="bypassPermissions").decision == "allow"
    assert weighed("Bash", "rm -rf build/*", allow=["Bash(rm *)"]).decision == "allow"
