"""Secrets are not read by searching: SEC-H3, L3, L9, L16, AE6."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from backstay import Answer, Question, Rule
from backstay.sandbox.resolve_paths import private_names
from backstay.vocab.events import CallJudged, ToolFinished
from backstay.vocab.messages import text_of
from tests.contracts.kit import Reply, call, talk

KEY = "SECRETDATA"
PEM = f"-----BEGIN PRIVATE KEY-----\nK={KEY}\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with secrets that are tracked, ignored and in a folder of their own; `src` has none."""
    root, home = tmp_path / "repo", tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    files = {
        ".env": f"K={KEY}\n",
        ".env.example": "K=fill-me-in\n",
        ".npmrc": "registry=https://registry.test\n",
        "certs/server.pem": PEM,
        "certs/public.pem": "-----BEGIN CERTIFICATE-----\n",
        "src/a.py": "K = 1\n",
        "deploy/prod.env": f"K={KEY}\n",
        ".gitignore": ".env\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    home.mkdir()
    for words in (("init", "-q"), ("add", ".gitignore", "src", "certs")):
        subprocess.run(["git", *words], cwd=root, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})
    return root


def bash(command: str) -> Reply:
    return call("Bash", command=command)


async def done(root: Path, *replies: Reply, **options: Any) -> tuple[list[CallJudged], list[str]]:
    """What was judged, and what the model was told."""
    async with talk(*replies, "Done.", cwd=root, fs_scope="full", **options) as session:
        await session.run("Go.")
        events = [record.event for record in await session.events()]
    texts = [text_of(event.content) for event in events if isinstance(event, ToolFinished)]
    return [event for event in events if isinstance(event, CallJudged)], texts


async def verdicts(root: Path, commands: Sequence[str], **options: Any) -> dict[str, tuple[str, bool]]:
    """Each command, what was said of it, and whether it would bring private data."""
    asked: list[Question] = []

    async def refuse(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=False)

    judged, texts = await done(root, *map(bash, commands), asker=refuse, **options)
    assert not [command for command, text in zip(commands, texts, strict=True) if KEY in text]
    return {command: (each.decision, "private" in each.taints) for command, each in zip(commands, judged, strict=True)}


@pytest.mark.contract("RV-28")
@pytest.mark.parametrize(
    "args",
    [
        {"pattern": "K", "hidden": True, "no_ignore": True},
        {"pattern": "K", "glob": ".env"},
        {"pattern": "K", "glob": "**/*.{env,pem}", "hidden": True, "no_ignore": True},
        {"pattern": "K", "path": "certs"},
    ],
)
@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits", "bypassPermissions"])
async def test_sec_h3_grep_does_not_show_sensitive_files(repository: Path, args: dict[str, object], mode: str) -> None:
    judged, texts = await done(repository, call("Grep", output_mode="content", **args), permission_mode=mode)

    assert KEY not in texts[0]
    assert "left out that may hold secrets. To search one, give it as `path`.)" in texts[0]
    assert judged[0].taints == ()


@pytest.mark.parametrize("name", [".ENV", "sub/.Env.local", "certs/ID_RSA", "Server.PEM", ".AWS/Credentials"])
async def test_capitals_make_no_sensitive_name_harmless(repository: Path, name: str) -> None:
    """Where a file system does not tell them apart, it is the very file."""
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text(f"-----BEGIN PRIVATE KEY-----\nA={KEY}\n")
    search = call("Grep", pattern="A=", hidden=True, no_ignore=True, output_mode="content")
    judged, texts = await done(repository, search, call("Read", file_path=name), bash("grep -rh A= ."))

    assert not [text for text in texts if KEY in text]
    assert [each.decision for each in judged] == ["allow", "ask", "ask"]


async def test_sec_h3_whether_a_sensitive_file_matches_is_not_told(repository: Path) -> None:
    for mode in ("content", "files_with_matches", "count"):
        search = {"hidden": True, "no_ignore": True, "output_mode": mode}
        _, texts = await done(
            repository, call("Grep", pattern=KEY, **search), call("Grep", pattern="nothing like it", **search)
        )
        assert texts[0] == texts[1]


async def test_sec_h3_a_search_of_a_sensitive_file_asks_and_is_a_taint(repository: Path) -> None:
    asked: list[Question] = []

    async def agree(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True)

    grep = call("Grep", pattern="K", path=".env", output_mode="content")
    judged, texts = await done(repository, grep, asker=agree)

    assert (len(asked), texts[0]) == (1, f".env:1:K={KEY}")
    assert judged[0].taints == ("private",)


async def test_a_search_does_not_show_a_hard_link_to_a_private_file(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / ".ssh").mkdir()
    (tmp_path / "home" / ".ssh" / "id_ed25519").write_text(PEM)
    (repository / "notes.txt").hardlink_to(tmp_path / "home" / ".ssh" / "id_ed25519")

    _, texts = await done(repository, call("Grep", pattern="K=", path="", output_mode="content"))

    assert KEY not in texts[0]
    assert texts[0].startswith("(no matches)")


async def test_a_private_file_that_is_written_anew_is_private_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    key, leads = tmp_path / ".netrc", private_names()
    for name in (tmp_path / "one.txt", tmp_path / "two.txt"):
        if key.exists():
            key.rename(tmp_path / "old")
        key.write_text("machine example.com password zebra-stripe-99")
        name.hardlink_to(key)
        with anyio.fail_after(10):
            while leads(str(name)) != str(key):
                await anyio.sleep(0.05)


async def test_sec_h3_templates_and_names_are_free(repository: Path) -> None:
    _, texts = await done(
        repository,
        call("Grep", pattern="K", path=".env.example", output_mode="content"),
        call("Glob", pattern="*", hidden=True, no_ignore=True),
    )
    assert texts[0] == ".env.example:1:K=fill-me-in"
    assert {".env", ".npmrc"} <= set(texts[1].split("\n"))


@pytest.mark.parametrize(
    ("rule", "args", "shown", "private"),
    [
        ("Read(.env)", {"hidden": True, "no_ignore": True}, True, True),
        ("Read(.env)", {"glob": ".env", "no_ignore": True}, True, True),
        ("Read(/.env)", {"hidden": True, "no_ignore": True}, True, True),
        ("Read(certs/server.pem)", {}, True, True),
        ("Read(certs/**)", {"path": "certs"}, False, False),
        ("Read(.env)", {}, False, False),
        ("Read(.env)", {"path": "src", "hidden": True}, False, True),
        ("Read(**)", {"hidden": True, "no_ignore": True}, False, False),
        ("Read", {"hidden": True, "no_ignore": True}, False, False),
    ],
)
async def test_a_search_shows_a_sensitive_file_that_a_rule_of_the_person_names(
    repository: Path, rule: str, args: dict[str, object], shown: bool, private: bool
) -> None:
    rules = [Rule.parse("allow", rule, source="person")]
    judged, texts = await done(repository, call("Grep", pattern="K", output_mode="content", **args), rules=rules)

    assert (KEY in texts[0], judged[0].taints) == (shown, ("private",) if private else ())


async def test_a_search_shows_nothing_sensitive_that_a_rule_asks_about(repository: Path) -> None:
    rules = [Rule.parse("allow", "Read(.env)", source="person"), Rule.parse("ask", "Read(.env)", source="person")]
    search = call("Grep", pattern="K", output_mode="content", hidden=True, no_ignore=True)
    _, texts = await done(repository, search, rules=rules)

    assert KEY not in texts[0]


ASKS = (
    "grep -r K .",
    "grep -rn K deploy",
    "grep -r --include='.e*' K .",
    "grep -r --exclude=x --include='*.py' K .",
    "rg -uuu K",
    "rg -uu K .",
    "rg --hidden K",
    "rg -g '*' K",
    "rg K",
    "rg -t sh K",
    "git grep K",
    "git grep --no-index K",
    "git grep --untracked K",
    "git grep K certs",
    "cat *.env deploy/*",
    "cat .*",
    "head certs/*.pem",
    "find . -name '*' | xargs cat",
    "find . -name '.e*' -print0 | xargs -0 cat",
    "cat .npmrc",
)
FREE = (
    "grep -r K src",
    "grep -rn --include='*.py' K .",
    "grep -n K src/a.py",
    "rg K src",
    "rg -g '*.py' K",
    "rg -t py K",
    "git grep K src",
    "git grep K -- '*.py'",
    "cat src/*",
    "find . -name '*.py' | xargs wc -l",
    "rg --files",
    "ls -la",
    "cat .env.example",
    "git ls-files",
)


@pytest.mark.contract("RV-28")
async def test_l3_a_command_that_would_read_sensitive_files_asks_and_is_a_taint(repository: Path) -> None:
    assert await verdicts(repository, ASKS) == dict.fromkeys(ASKS, ("ask", True))


async def test_l3_a_command_that_would_not_is_free(repository: Path) -> None:
    assert await verdicts(repository, FREE) == dict.fromkeys(FREE, ("allow", False))


async def test_l3_a_rule_with_a_pattern_does_not_let_a_search_read_them(repository: Path) -> None:
    rules = [Rule.parse("allow", text) for text in ("Bash(grep *)", "Bash(rg *)", "Bash(diff *)")]
    commands = ("grep -rn K .", "rg -uuu K", "diff -r certs src")

    assert await verdicts(repository, commands, rules=rules) == dict.fromkeys(commands, ("ask", True))


async def test_l3_a_rule_of_the_person_that_names_them_does(repository: Path) -> None:
    rules = [Rule.parse("allow", text, source="person") for text in ("Read(**/prod.env)", "Read(deploy/prod.env)")]

    assert await verdicts(repository, ["grep -r nothing deploy"], rules=rules) == {
        "grep -r nothing deploy": ("allow", True)
    }


async def test_l3_what_an_ignore_file_takes_back_is_read_by_ripgrep(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"K={KEY}\n")
    assert await verdicts(tmp_path, ["rg K"]) == {"rg K": ("allow", False)}

    (tmp_path / ".ignore").write_text("!.env\n")
    assert await verdicts(tmp_path, ["rg K"]) == {"rg K": ("ask", True)}


async def test_l3_a_link_to_a_sensitive_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / ".env").write_text(f"K={KEY}\n")
    (tmp_path / "work/notes").symlink_to("../.env")

    found = await verdicts(tmp_path / "work", ["grep -r K .", "cat *", "find . -name 'not*' | xargs cat"])
    assert {decision for decision, _ in found.values()} == {"ask"}


async def test_sec_h3_the_guard_of_three_taints_sees_what_a_search_read(repository: Path) -> None:
    asked: list[str] = []

    async def agree(question: Question) -> Answer:
        asked.append(question.reason)
        return Answer(allowed="would meet" not in question.reason)

    rules = [Rule.parse("allow", "WebFetch")]
    await done(repository, bash("grep -r K ."), call("WebFetch", url="https://x.test/"), rules=rules, asker=agree)

    assert len(asked) == 2
    assert "which may hold secrets" in asked[0]
    assert "would meet in this session" in asked[1]
    assert "(met before in this session)" in asked[1]


@pytest.mark.parametrize(
    "name",
    [
        ".npmrc",
        ".envrc",
        ".git/config",
        ".config/git/credentials",
        "_netrc",
        ".docker/config.json",
        ".m2/settings.xml",
        ".gradle/gradle.properties",
        ".config/hub",
        "prod.tfvars",
        ".config/gh/hosts.yml",
        ".dev.vars",
        "terraform.tfstate",
    ],
)
async def test_l9_tokens_of_tools_are_sensitive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(KEY)

    judged, texts = await done(tmp_path, call("Read", file_path=name), bash(f"cat {name}"))

    assert [each.reason for each in judged] == ["sensitive", "sensitive"]
    assert not [text for text in texts if KEY in text]


@pytest.mark.contract("RV-28")
async def test_ae6_what_a_rule_keeps_from_a_search_is_counted(repository: Path) -> None:
    rules = [Rule.parse("deny", "Read(src/**)")]
    _, texts = await done(
        repository, call("Grep", pattern="K", glob="*.py"), call("Glob", pattern="**/*.py"), rules=rules
    )
    assert texts == ["(no matches)\n(1 file left out: a rule denies reading.)"] * 2


async def test_l16_a_hard_link_to_a_private_file_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    monkeypatch.setenv("HOME", str(home))
    for name in (".ssh/id_rsa", "store/index.js"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(KEY if name.startswith(".") else "x")
    (work / "node_modules").mkdir(parents=True)
    (work / "notes").hardlink_to(home / ".ssh/id_rsa")
    (work / "node_modules/index.js").hardlink_to(home / "store/index.js")

    private = [
        call("Read", file_path="notes"),
        bash("cat notes"),
        bash("cat n*"),
        call("Grep", pattern=".", path="notes"),
    ]
    shared = [call("Read", file_path="node_modules/index.js"), bash("cat node_modules/*")]
    judged, texts = await done(work, *private, *shared)

    assert [(each.decision, each.reason) for each in judged] == [("ask", "sensitive")] * 4 + [("allow", "mode")] * 2
    assert not [text for text in texts if KEY in text]


def committed(root: Path, *names: str) -> None:
    """Make a repository with two commits, the first of some files."""
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x"}
    environment = {**os.environ, **own, "GIT_COMMITTER_EMAIL": "x"}
    for words in (
        ("init", "-q"),
        ("add", "-f", *names),
        ("commit", "-q", "-m", "one"),
        ("commit", "-q", "--allow-empty", "-m", "two"),
    ):
        subprocess.run(["git", *words], cwd=root, check=True, env=environment)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A repository in which a file with secrets is committed."""
    root = tmp_path / "shared"
    for name, text in {".env": f"DB={KEY}\n", "src/a.py": "K = 1\n", "sub/.env": f"DB={KEY}\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    committed(root, ".")
    return root


GIT_SHOWS = (
    "git grep DB HEAD",
    "git grep DB HEAD~1",
    "git grep DB -- 'sub*'",
    "git grep -e DB HEAD",
    "git log -p",
    "git log -p -1",
    "git log -p HEAD",
    "git log -U1",
    "git log -S DB=",
    "git log -p -S DB=",
    "git log -p -- '*v'",
    "git log -p -- ':(icase).ENV'",
    "git --icase-pathspecs log -p -- .ENV",
    "git log -p --full-diff -- src/a.py",
    "git log -p -- sub",
    "git show HEAD",
    "git show",
    "git show HEAD~1 --stat -p",
    "git diff HEAD~1",
    "git diff HEAD~1 HEAD",
    "git diff HEAD~1:sub HEAD:sub",
    "git diff",
    "git diff-tree -p HEAD",
    "git stash show -p",
    "git reflog -p",
    "git whatchanged -p",
    "git status -v",
)
GIT_NAMES = (
    "git log --oneline",
    "git log --stat",
    "git show --stat",
    "git show HEAD --name-only",
    "git diff --stat HEAD~1",
    "git diff --name-only",
    "git stash list",
    "git reflog -3",
    "git status",
    "git log -p -- src",
    "git log -p src/a.py",
    "git log -p HEAD -- src",
    "git diff HEAD~1 -- src/a.py",
    "git diff -- '*.py'",
    "git log -L 1,1:src/a.py",
    "git show HEAD:src/a.py",
    "git cat-file -p HEAD:src/a.py",
    "git cat-file -t HEAD",
    "git blame src/a.py",
    "git grep K -- '*.py'",
    "git grep K src",
)


async def test_git_asks_before_it_shows_sensitive_files_that_are_tracked(shared: Path) -> None:
    assert await verdicts(shared, GIT_SHOWS) == dict.fromkeys(GIT_SHOWS, ("ask", True))
    assert await verdicts(shared, GIT_NAMES) == dict.fromkeys(GIT_NAMES, ("allow", False))


async def test_git_asks_in_a_folder_of_a_repository_too(shared: Path) -> None:
    commands = ("git log -p", "git show HEAD", "git diff HEAD~1")
    assert await verdicts(shared / "src", commands) == dict.fromkeys(commands, ("ask", True))


async def test_git_asks_where_an_exclusion_leaves_all_the_rest(shared: Path) -> None:
    commands = [f"git grep DB -- {path}" for path in ("':!src'", "':^src'", "':(exclude)src'", "':(top)sub'", "':'")]
    assert await verdicts(shared, commands) == dict.fromkeys(commands, ("ask", True))


async def test_a_rule_without_a_pattern_does_not_let_git_show_secrets_by_the_way(shared: Path) -> None:
    rules = [Rule.parse("allow", "Bash", source="person")]
    commands = (
        "for i in 1; do git log -p; done",
        "env A=1 git log -p",
        "nice git show HEAD",
        'git show "$commit"',
        "git archive HEAD",
        "git format-patch -1 --stdout",
        "git fast-export HEAD",
        "git checkout-index -a --prefix=copy/",
    )
    free = (
        "for i in a b; do git log --oneline $i; done",
        'git show --stat "$commit"',
        "if git diff --quiet; then ls; fi",
    )
    decided = await verdicts(shared, [*commands, *free], rules=rules)
    assert {command: each[0] for command, each in decided.items()} == {
        **dict.fromkeys(commands, "ask"),
        **dict.fromkeys(free, "allow"),
    }


async def test_git_objects_without_a_path_ask(shared: Path) -> None:
    content = (shared / ".env").read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    commands = (f"git cat-file -p {blob}", f"git cat-file blob {blob}", f"git show {blob}", "git cat-file -p HEAD:.env")
    assert {decision for decision, _ in (await verdicts(shared, commands)).values()} == {"ask"}


async def test_git_shows_everything_where_nothing_sensitive_is_tracked(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"DB={KEY}\n")
    (tmp_path / "a.py").write_text("K = 1\n")
    committed(tmp_path, "a.py")
    elsewhere = (":sub", "stash", "reflog", ".ENV")  # the last names the file
    commands = [command for command in GIT_SHOWS if not any(each in command for each in elsewhere)]
    assert await verdicts(tmp_path, commands) == dict.fromkeys(commands, ("allow", False))


async def test_git_asks_before_it_shows_what_was_denied_in_the_past(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"DB={KEY}\n")
    (tmp_path / "a.py").write_text("K = 1\n")
    committed(tmp_path, "a.py")
    rules = [Rule.parse("deny", "Read(.env)")]
    past = (
        "git log -p",
        "git show HEAD~1",
        "git diff HEAD~1",
        "git grep K HEAD~1",
        "git whatchanged -p",
        "git reflog -p",
    )
    free = (
        "git diff",
        "git show HEAD",
        "git grep K",
        "git grep K HEAD",
        "git diff HEAD~1 -- a.py",
        "git log -p -- a.py",
    )
    decided = await verdicts(tmp_path, [*past, *free], rules=rules)
    assert {command: each[0] for command, each in decided.items()} == {
        **dict.fromkeys(past, "ask"),
        **dict.fromkeys(free, "allow"),
    }


async def test_git_asks_before_it_shows_what_a_rule_denies(tmp_path: Path) -> None:
    for name in ("src/a.py", "sub/b.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("K = 1\n")
    committed(tmp_path, ".")
    rules = [Rule.parse("deny", "Read(src/**)")]
    commands = ("git log -p", "git show HEAD", "git diff HEAD~1", "git grep K HEAD")
    free = ("git log -p -- sub", "git log --stat", "git grep K sub")
    assert await verdicts(tmp_path, [*commands, *free], rules=rules) == {
        **dict.fromkeys(commands, ("ask", False)),
        **dict.fromkeys(free, ("allow", False)),
    }
