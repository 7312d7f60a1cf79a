"""Commands of every working day, each mode, beside the twins that must not slip through with them."""

import pytest

from backstay.vocab.specs import Mode
from tests.permissions.desk import weighed

READING: tuple[str, ...] = (

    "git status ; head -5 README.md", "cat a && echo done", "ls # list the files", "time ls",
    "test -d build && ls build", "echo \"$(date)\"", "x=$(git rev-parse HEAD); echo $x",
    "echo \"$(git rev-parse --abbrev-ref HEAD)\"", "cd /repo && ls",
    "cd /repo && git status", "cd src && ls -la && cat main.py", "grep -rn \"TODO\" --include=\"*.py\" .",
    "find . -name '*.py' -not -path './node_modules/*'", "find . -type f -name \"*.ts\" -newer package.json",
    "git log --oneline -20", "git show HEAD:src/main.py", "git diff --stat HEAD~3", "git branch -a",
    "git branch --show-current", "git remote -v", "git stash list", "git stash show -p", "git blame -L 1,20 src/a.py",
    "git log -p --follow src/a.py", "git config --get user.name", "git rev-parse --show-toplevel", "git ls-files",
    "git ls-files --others --exclude-standard", "git describe --tags", "git tag -l", "git worktree list",
    "git reflog", "git shortlog -sn", "git merge-base main HEAD", "git --no-pager log -3", "git --no-pager diff",
    "git cat-file -p HEAD", "git check-ignore build", "git grep foo", "ls *.py", "ls src/**/*.py", "cat src/*.py",
    "head -n 50 src/a.py", "sed -n 1,50p src/a.py", "sed -n '10,20p' a.py", "awk '{print $1}' a.txt",
    "awk -F: '{print $1}' a.txt", "sort a.txt", "cut -d: -f1 a.txt", "tr a-z A-Z < a.txt", "jq .name package.json",
    "jq '.scripts' package.json", "du -sh .", "df -h", "ps aux", "echo $PATH", "echo $HOME", "which python3",
    "type python", "command -v node", "python --version", "node --version", "node -v", "npm --version", "npm -v",
    "cargo --version", "go version", "rustc --version", "uname -a", "date", "hostname", "basename src/a.py",
    "dirname src/a.py", "realpath src", "readlink -f src", "stat src/a.py", "file src/a.py", "md5sum a.txt",
    "sha256sum a.txt", "xxd a.bin", "hexdump -C a.bin", "od -c a.txt", "strings a.bin", "cmp a b", "diff -u a b",
    "comm -12 a b", "nl a.txt", "tail -f log.txt", "tail -n 100 log.txt", "rg foo src", "rg -n \"def foo\" -g '*.py'",
    "rg --files", "fd -e py", "npm ls", "npm list --depth=0", "pip list", "pip show requests", "docker ps",
    "docker images", "true", "sleep 2", "seq 1 10", "printf '%s\\n' a b", "echo hello world", "echo 'a | b; c'",
    "echo \"a && b\"",
    "cat <<'EOF'\nhello $(x)\nEOF",
    "git log \\\n  --oneline \\\n  -5", "find . -name \"*.py\" \\\n  -type f", "ls -la 2>/dev/null", "ls -la 2>&1",
    "cat a 2>/dev/null ; echo \"exit $?\"", "git status 2>&1", "ls && \\\n  pwd", "! grep -q foo a.txt",
    "grep -c . a.txt; echo $?", "set -e; ls", "set -euo pipefail; git status",
    "cat package.json ; grep name package.json", "nproc", "free -h", "uptime", "ls -la src tests docs",
    "stat -c %s a.txt", "git diff main...HEAD -- src/", "git log --since=\"2 weeks ago\" --pretty=format:\"%h %s\"",
    "git log --format='%h %an %s' -n 5", "git status --porcelain=v1 -b", "git diff --name-only HEAD",
    "git ls-tree -r HEAD --name-only", "git rev-list --count HEAD", "git show --stat HEAD", "git diff --cached",
    "ls | wc -l", "git status | head", "cat a | sort | uniq -c | sort -rn | head",
    "git log --oneline | grep fix | wc -l", "ps aux | grep node", "git log | cat",
    "cat package.json | jq -r '.scripts | keys[]'",
    "git diff | grep '^+' | cut -c2-",
)  # fmt: skip
"""What only reads: free in every mode."""

EDITING: tuple[str, ...] = (
    "rm -rf build/*", "rm *.pyc", "rm -f *.log", "mv src/a.py src/b.py", "mkdir -p a/b && touch a/b/c",
    "test -f x && rm x", "rm -rf build dist", "rm -rf node_modules", "rmdir empty",
    "cat > src/a.py <<'EOF'\nprint(1)\nEOF", "cat <<'EOF' > src/a.py\nprint(\"$HOME\")\nEOF", "echo hi > out.txt",
    "echo hi >> out.txt", "git diff > change.patch", "grep -rn foo src > found.txt",
    "ls src ; tee log.txt < a.txt", "touch a.txt b.txt", "rm -rf ./build", "printf 'a\\nb\\n' > a.txt",
    "echo \"x=1\" ; cat a.txt > b.txt", "git status > /dev/null",
)  # fmt: skip
"""What changes files of the workspace and nothing else: free where edits are accepted, asked for by default, denied while planning."""

RULED: tuple[tuple[str, str], ...] = (
    ("Bash(npm test *)", "npm test 2>&1 | tail -20"),
    ("Bash(npm test *)", "npm test 2>&1 | grep -i fail"),
    ("Bash(npm test *)", "export NODE_ENV=test && npm test"),
    ("Bash(npx jest *)", "NODE_ENV=test npx jest"),
    ("Bash(npx jest *)", "NODE_ENV=test npx jest src/a.test.js"),
    ("Bash(npx jest *)", "CI=1 npx jest"),
    ("Bash(pytest *)", "pytest -x tests/ 2>&1 | tail -30"),
    ("Bash(pytest *)", "PYTHONDONTWRITEBYTECODE=1 pytest"),
    ("Bash(pytest *)", "cd /repo && pytest -q"),
    ("Bash(pytest *)", "timeout 60 pytest -q"),
    ("Bash(pytest *)", "time pytest -q"),
    ("Bash(python -m pytest *)", 'python -m pytest tests -k "a or b"'),
    ("Bash(git commit *)", "git commit -m \"$(cat <<'EOF'\nfix: x\n\nbody (see a)\nEOF\n)\""),
    ("Bash(git commit *);Bash(git add *)", 'git add -A && git commit -m "msg"'),
    ("Bash(git commit *);Bash(git add *)", "git add src/*.py && git commit -m 'a; b'"),
    ("Bash(git add *)", "git add ."),
    ("Bash(python3 *)", "python3 - <<'EOF'\nprint(1)\nEOF"),
    ("Bash(python3 *)", "python3 -c 'print(1)'"),
    ("Bash(npm run *)", "npm run build && npm run lint"),
    ("Bash(npm run build)", "npm run build"),
    ("Bash(make *)", "make -j4 test"),
    ("Bash(cargo *)", "cargo test --all -- --nocapture"),
    ("Bash(cargo *)", "RUST_BACKTRACE=1 cargo test"),
    ("Bash(cargo *)", "cargo build 2>&1 | head -50"),
    ("Bash(go test *)", "go test ./... 2>&1 | grep FAIL"),
    ("Bash(curl *)", "curl -s https://example.com | jq ."),
    ("Bash(gh pr *)", "gh pr view 3 --json title"),
    ("Bash(docker compose *)", "docker compose up -d"),
    ("Bash(npx tsc *)", "npx tsc --noEmit"),
    ("Bash(ruff *)", "ruff check . && ruff format --check ."),
    ("Bash(./gradlew *)", "./gradlew test"),
    ("Bash(uv run *)", "uv run pytest"),
    ("Bash(xargs grep *)", "find . -name x | xargs grep y"),
)
"""What a rule allows, with what people put around it; several rules with a semicolon between them."""

FIRMLY_ASKED: tuple[str, ...] = (
    "printenv TOKEN", "env", "history", "git submodule update --init", "git submodule foreach 'cat a'",
    "git submodule status; git submodule sync", "git -C /elsewhere submodule status", "cd src && git status",
    "git diff > /tmp/x", "wc -l $(git ls-files)", "git ls-files | xargs wc -l",
    "cat a.json | python3 -m json.tool", "for f in src/*.py; do $f; done", "x=$(git rev-parse HEAD); $x",
    "echo \"$(touch a)\"", "diff <(sort a) <(sort -o b a)", "git log \\\n  --output=b", "ls # list\ntouch a", "ls #a\n\n\n\n./run",
    "time ./run", "[[ -f a ]] && ./run", "shopt -s dotglob; cat *", "shopt -s nocaseglob; cat read*", "cat <<EOF\n$(touch a)\nEOF",
    "set -e; ./run", "! ./run", "git log \\\n| sh", "l\\\ns; touch a", "while read -r l; do $l; done < a.txt", "nproc; ./nproc",
)  # fmt: skip
"""Twins of what reads: not free by default."""

NO_MERE_EDIT: tuple[str, ...] = (
    "rm -rf build/* $X", "rm -rf src/*/../../*", "rm .g*", "rm -rf .c*", "rm -rf /tmp/x/*", "rm ~/*.txt", "rm [-]*", "rm -rf -*",
    "cp evil/*.py dst/", "cp src/* ~/x/", "cp src/*.py .git/", "cp *.txt docs/", "mv *.txt docs/",
    "echo x | tee build/*.log", "echo x | tee .git/config", "echo x | tee ~/.bashrc", "echo x | tee Makefile", "tee $F < a.txt",
    "echo x | tee >(sh)", "touch build/*.log", "cat > Makefile <<'EOF'\nall:\nEOF", "cat > $F <<'EOF'\na\nEOF", "echo a > build/*.log",
    "mkdir -p a/b && touch a/b/c && ./a/b/c", "test -f x && rm /etc/x", "sed -i 's/a/b/e' a.py", "sed -i 's/a/b/w /tmp/x' a.py",
    "npm test | tee build/log.txt", "find . -name '*.pyc' -delete",
)  # fmt: skip
"""Twins of what edits: asked for although edits are accepted."""

FILES = {
    "src/a.py": "", "src/b.py": "", "dst/c.py": "", "build/x": "", "evil/conftest.py": "", "evil/Makefile": "", "a.txt": "", "x": "",
}  # fmt: skip
MODES: tuple[Mode, ...] = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")


@pytest.mark.parametrize("mode", MODES)
def test_what_only_reads_is_free_in_every_mode(mode: Mode) -> None:
    asked = [text for text in READING if weighed("Bash", text, mode=mode).decision != "allow"]

    assert asked == []


def test_what_edits_the_workspace_follows_the_mode() -> None:
    wanted: dict[Mode, str] = {
        "acceptEdits": "allow", "default": "ask", "plan": "deny", "dontAsk": "deny", "bypassPermissions": "allow"
    }  # fmt: skip
    odd = [
        (mode, text, verdict.decision)
        for mode, decision in wanted.items()
        for text in EDITING
        if (verdict := weighed("Bash", text, mode=mode)).decision != decision
    ]
    assert [each for each in odd if "/dev/null" not in each[1]] == []


@pytest.mark.parametrize(("allow", "text"), RULED)
def test_what_a_rule_allows_stays_allowed_with_what_people_put_around_it(allow: str, text: str) -> None:
    assert weighed("Bash", text, allow=allow.split(";")).decision == "allow"
    assert weighed("Bash", text, allow=allow.split(";"), mode="dontAsk").decision == "allow"


@pytest.mark.parametrize("text", FIRMLY_ASKED)
def test_a_twin_of_what_reads_is_asked_for(text: str) -> None:
    assert weighed("Bash", text).decision == "ask"
    assert weighed("Bash", text, mode="dontAsk").decision == "deny"
    assert weighed("Bash", text, mode="plan").decision != "allow"


@pytest.mark.parametrize("text", NO_MERE_EDIT)
def test_a_twin_of_what_edits_is_asked_for_although_edits_are_accepted(text: str) -> None:
    assert weighed("Bash", text, mode="acceptEdits").decision == "ask"
    assert weighed("Bash", text, mode="acceptEdits", files=FILES).decision == "ask"


@pytest.mark.parametrize("text", ["mv evil/* .", "rm -f evil/*"])
def test_a_wildcard_does_not_hide_a_protected_name_among_what_is_copied(text: str) -> None:
    verdict = weighed("Bash", text, mode="acceptEdits", files=FILES)

    assert (verdict.decision, verdict.reason) == ("ask", "protected")


def test_a_variable_that_may_steer_a_program_is_not_allowed_by_a_rule_for_export() -> None:
    allow = ["Bash(npm test *)", "Bash(export *)"]

    assert weighed("Bash", "export FOO=bar && npm test", allow=allow).decision == "ask"
    assert weighed("Bash", "export CI=1 && npm test", allow=allow).decision == "allow"


@pytest.mark.parametrize("text", ["rm -rf *", "rm -rf ./*", "rm -rf build/../*", "rm ?", "rm -rf /*", "rm -rf ~/*"])
def test_a_wildcard_that_takes_all_is_critical(text: str) -> None:
    assert weighed("Bash", text, mode="bypassPermissions").reason == "critical"


@pytest.mark.parametrize("text", ["wc -l src/*.py", "touch src/*.py", "rm -f src/*.py"])
def test_wildcards_that_were_looked_up_are_judged_by_what_they_match(text: str) -> None:
    assert weighed("Bash", text, mode="acceptEdits", files=FILES).decision == "allow"


def test_a_command_with_a_log_beside_it_needs_its_own_rule_and_accepted_edits() -> None:
    text, allow = "npm test 2>&1 | tee build/log.txt", ["Bash(npm test *)"]

    assert weighed("Bash", text, allow=allow, mode="acceptEdits").decision == "allow"
    assert weighed("Bash", text, allow=allow).decision == "ask"
    assert weighed("Bash", "npm test 2>&1 | tee .envrc", allow=allow, mode="acceptEdits").decision == "ask"


@pytest.mark.parametrize("target", ["/etc/x", "/repo/.git/config"])
def test_a_wildcard_among_what_is_copied_is_judged_by_what_it_overwrites(target: str) -> None:
    files = {"src/a.py": "", "dst/a.py": f"symlink:{target}"}

    assert weighed("Bash", "cp src/*.py dst/", mode="acceptEdits", files=files).decision == "ask"


def test_a_file_to_write_that_only_a_wildcard_names_is_asked_for_whatever_the_rules_allow() -> None:
    allow = ["Bash(tee *)", "Bash(touch *)", "Bash(echo *)"]

    for text in ("echo x | tee build/*.log", "touch build/?.log", "echo x > build/*.log"):
        assert weighed("Bash", text, allow=allow, mode="acceptEdits").decision == "ask"
    there = {"build/a.log": ""}
    assert weighed("Bash", "echo x | tee build/*.log", allow=allow, mode="acceptEdits", files=there).decision == "allow"
    assert weighed("Bash", "echo x > build/*.log", allow=allow, mode="acceptEdits", files=there).decision == "ask"


def test_what_does_something_says_why_a_command_is_allowed() -> None:
    verdict = weighed("Bash", "echo ran >> ran.txt; sleep 3", mode="acceptEdits")
    assert verdict.decision == "allow"
    assert "accepts edits" in verdict.detail
