"""A repository with hostile settings, hooks, servers, extensions and git configuration: it does nothing before it is trusted."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backstay.providers.local.pins import list_pins
from tests.e2e.door import Door, Line
from tests.e2e.hostile import DENIED, KEY, Hostile, listening
from tests.providers.local.engine_kit import model_file

CALLS = (
    ("Read", {"file_path": "a.txt"}),
    ("Read", {"file_path": DENIED}),
    ("Grep", {"pattern": "nobody", "output_mode": "content"}),
    ("Bash", {"command": "ls"}),
    ("Bash", {"command": f"cat {DENIED}"}),
    ("Bash", {"command": "wc a.txt"}),
    ("Bash", {"command": "touch made"}),
    ("Bash", {"command": "git status"}),
    ("Write", {"file_path": "made", "content": "x"}),
    ("WebFetch", {"url": "https://example.org/", "prompt": "x"}),
)
"""What a model may try: the first, the third and the fourth need nobody; the rest is denied by the repository or allowed by it alone."""
NEED_NOBODY = (0, 2, 3)
GIT = (
    "git status",
    "git diff",
    "git log -p -1",
    "git show HEAD",
    "git st",
    "git add a.txt",
    "git commit -m x",
    "git fetch",
)


@pytest.fixture
def hostile(door: Door) -> Iterator[Hostile]:
    """A repository with nothing in it yet."""
    with listening() as lure:
        yield Hostile(door, lure)


def model(hostile: Hostile, *calls: tuple[str, dict[str, str]]) -> tuple[str, str]:
    """The flags for a model that makes these calls, then says that it is done."""
    replies = [{"text": "", "calls": [{"name": name, "args": args} for name, args in calls]}] if calls else []
    return "--model", hostile.door.script(*replies, *({"text": "Done."} for _ in range(5)))


def results(lines: list[Line]) -> list[Line]:
    """What the tools gave back, in the order of the calls."""
    blocks = [block for line in lines if line["type"] == "user" for block in line["message"]["content"]]
    return sorted(blocks, key=lambda block: int(block["tool_use_id"].rpartition("-")[2]))


def nothing_happened(hostile: Hostile) -> bool:
    """Whether no program of the repository ran and nobody went to its address."""
    assert (hostile.ran, hostile.lure.heard) == ([], [])
    return True


# --- before it is trusted ------------------------------------------------------------------------------------------------------------


def test_rb_w8_a_repository_that_nobody_trusts_runs_nothing_loosens_nothing_and_still_denies(hostile: Hostile) -> None:
    hostile.ship_everything().forget()
    ran = hostile.run("-p", "go", *model(hostile, *CALLS), "--output-format", "stream-json")

    assert nothing_happened(hostile)
    assert ran.lines[0]["permissionMode"] == "default"
    failed = [number for number, block in enumerate(results(ran.lines)) if block["is_error"]]
    assert failed == [number for number in range(len(CALLS)) if number not in NEED_NOBODY]
    assert [denial["tool_name"] for denial in ran.lines[-1]["permission_denials"]].count("Bash") == 4
    assert (ran.code, "nobody reads this" in ran.out, KEY in ran.out + ran.err) == (3, False, False)
    assert not (hostile.root / "made").exists()


def test_one_line_says_what_was_left_out(hostile: Hostile) -> None:
    hostile.ship_everything().forget()
    ran = hostile.run("-p", "go", *model(hostile))

    told = [line for line in ran.err.splitlines() if "not trusted" in line]
    assert (ran.code, ran.out, len(told)) == (0, "Done.\n", 1)
    for words in ("hooks", "MCP servers", "allow rules", "environment variables", "extension files", "git commands"):
        assert words in told[0]


def test_going_on_with_a_session_of_an_untrusted_repository_runs_nothing_either(hostile: Hostile) -> None:
    hostile.ship_everything().forget()
    plays = model(hostile)
    first = hostile.run("-p", "go", *plays, "--session-id", "s1", "--output-format", "json")
    again = [
        hostile.run(*flags, *plays, "--output-format", "events")
        for flags in (("-c", "-p", "more"), ("-r", "s1", "-p", "more"), ("-r", "s1", "--fork-session", "-p", "more"))
    ]
    elsewhere = hostile.run("--cwd", str(hostile.home), "-r", "s1", "-p", "more", *plays)

    assert [each.code for each in (first, *again, elsewhere)] == [0] * 5
    assert nothing_happened(hostile)


def test_commands_that_look_at_an_untrusted_repository_run_nothing_of_it(hostile: Hostile) -> None:
    hostile.ship_everything().forget()
    expected = {
        "sessions list": 0,
        "doctor": 0,
        "config show": 0,
        "config path": 0,
        "permissions lint": 1,
        "hooks list": 0,
        "hooks test SessionStart": 0,
        "trust show": 0,
        "trust": 3,
        "usage": 0,
    }
    ran = {command: hostile.run(*command.split()) for command in expected}

    assert {command: each.code for command, each in ran.items()} == expected
    assert nothing_happened(hostile)
    assert not [command for command, each in ran.items() if KEY in each.out + each.err or "Traceback" in each.err]


def test_rb_w8_a_key_goes_to_the_persons_own_provider_and_never_to_the_repositorys(hostile: Hostile) -> None:
    hostile.ship_everything().forget()
    with listening() as own:
        profile = {"type": "anthropic", "base_url": own.address, "api_key": "$ENV:ANTHROPIC_API_KEY", "model": "m"}
        person = hostile.door.folder / "config" / "settings.json"
        person.parent.mkdir(exist_ok=True)
        person.write_text(
            json.dumps({"providers": {"house": profile}, "chat": {"default_model": "house:m"}}), encoding="utf-8"
        )
        ran = hostile.run("-p", "go")

        assert (ran.code, len(own.heard) > 0) == (4, True)
        assert all(KEY.encode() in each for each in own.heard)
    assert nothing_happened(hostile)


def test_settings_of_the_repository_cannot_pass_for_the_persons_by_a_link(hostile: Hostile) -> None:
    hostile.ship_settings()
    stash = hostile.door.folder / "stash"
    (hostile.root / ".backstay").rename(stash)
    (hostile.root / ".backstay").symlink_to(stash)
    (stash / "skills").mkdir()
    (stash / "skills" / "link").symlink_to("/")

    ran = hostile.run("-p", "go", *model(hostile, *CALLS), "--output-format", "stream-json")

    assert (ran.code, ran.lines[0]["permissionMode"]) == (3, "default")
    assert nothing_happened(hostile)
    assert not (hostile.root / "made").exists()


# --- settings that cannot be read ------------------------------------------------------------------------------------------------------


def _deep(path: Path) -> None:
    path.write_text('{"a":' * 200_000 + "1" + "}" * 200_000, encoding="utf-8")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"permissions": {"allow": ["Bash"]}}')
        file.truncate(8 * 1024 * 1024 * 1024)


ODD: dict[str, Callable[[Path], object]] = {
    "not JSON": lambda path: path.write_text('{"permissions": {"allow": ["Bash"]', encoding="utf-8"),
    "huge": _huge,
    "deep": _deep,
    "not UTF-8": lambda path: path.write_bytes(b'{"permissions": {"allow": ["\xff"]}}'),
    "a list": lambda path: path.write_text("[1]", encoding="utf-8"),
    "a key twice": lambda path: path.write_text('{"permissions": {"deny": ["Bash"], "deny": []}}', encoding="utf-8"),
    "a wrong type": lambda path: path.write_text('{"permissions": {"deny": "Bash"}}', encoding="utf-8"),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a loop": lambda path: path.symlink_to(path.name),
    "nowhere": lambda path: path.symlink_to("/nowhere/at/all"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("family", [".backstay", ".claude"])
def test_settings_that_cannot_be_read_stop_everything_at_once_and_in_words(door: Door, family: str, kind: str) -> None:
    path = door.work / family / "settings.json"
    path.parent.mkdir()
    ODD[kind](path)
    plays = door.script({"calls": [{"name": "Bash", "args": {"command": "touch made"}}]}, {"text": "Done."})

    ran = door.run("-p", "go", "--model", plays)
    assert (ran.code, ran.out, str(path) in ran.err, len(ran.err) < 1_000) == (1, "", True, True)
    assert door.run("-p", "go", "--model", plays, "--bare").code == 3
    looked = [door.run(*command.split()) for command in ("config show", "trust show", "hooks list", "config path")]
    assert [each.code for each in looked] == [1, 1, 1, 0]
    assert door.run("sessions", "list").code == 0
    assert not (door.work / "made").exists()


@pytest.mark.parametrize(
    "kind",
    [
        *("not JSON", "not UTF-8", "a folder", "a pipe", "a device", "a loop", "deep", "huge"),
    ],
)
def test_looking_over_settings_that_cannot_be_read_ends_in_words(door: Door, kind: str) -> None:
    path = door.work / ".backstay" / "settings.json"
    path.parent.mkdir()
    ODD[kind](path)

    for command in (("permissions", "lint"), ("doctor",)):
        ran = door.run(*command)
        assert (ran.code in (0, 1), "Traceback" in ran.out + ran.err) == (True, False)


# --- git ---------------------------------------------------------------------------------------------------------------------------


def test_git_of_an_untrusted_repository_asks_and_when_allowed_runs_none_of_its_programs(hostile: Hostile) -> None:
    hostile.ship_git()
    hostile.forget()
    calls = [("Bash", {"command": command}) for command in GIT]

    asked = hostile.run("-p", "go", *model(hostile, *calls), "--output-format", "json")
    assert (asked.code, len(asked.json["permission_denials"])) == (3, len(GIT))
    assert nothing_happened(hostile)

    allowed = hostile.run(
        "-p", "go", *model(hostile, *calls), "--allow", "Bash(git *)", "--output-format", "stream-json"
    )
    assert (allowed.code, allowed.lines[-1]["permission_denials"]) == (0, [])
    assert "On branch main" in results(allowed.lines)[0]["content"]
    assert nothing_happened(hostile)

    hostile.write("a.txt", "three\n")
    for command in GIT:  # and the test can fail: without us they run
        subprocess.run(command.split(), cwd=hostile.root, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    assert {"git-fsmonitor", "git-external-diff", "git-alias", "git-clean"} <= set(hostile.ran)


def test_git_of_a_trusted_repository_is_as_the_repository_wants_it(hostile: Hostile) -> None:
    hostile.ship_git()
    hostile.forget()
    calls = [("Bash", {"command": "git status"}), ("Bash", {"command": "git diff"})]
    ran = hostile.run("-p", "go", *model(hostile, *calls), "--allow", "Bash(git *)", "--trust")

    assert (ran.code, "git-external-diff" in hostile.ran) == (0, True)


def test_git_of_a_submodule_runs_none_of_its_programs(hostile: Hostile) -> None:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x"}
    environment = {**os.environ, **own, "GIT_COMMITTER_EMAIL": "x", "HOME": str(hostile.home)}
    inner = hostile.write("sub/s.txt", "one\n").parent
    hostile.write("sub/.gitattributes", "* filter=evil diff=evil\n")
    for root in (inner, hostile.root):
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
            subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, env=environment)
    module = hostile.root / ".git/modules/sub"
    module.parent.mkdir()
    (inner / ".git").rename(module)
    hostile.write("sub/.git", "gitdir: ../.git/modules/sub\n")
    subprocess.run(["git", "status"], cwd=inner, check=True, capture_output=True, env=environment)
    hostile.write("sub/s.txt", "two\n")
    marks = {name: hostile.mark(name, then) for name, then in (("fsm", "fail"), ("clean", "cat"), ("text", "cat"))}
    with (module / "config").open("a", encoding="utf-8") as file:
        file.write(f'[core]\nworktree = ../../../sub\nfsmonitor = "{marks["fsm"]}"\n')
        file.write(f'[filter "evil"]\nclean = "{marks["clean"]}"\n[diff "evil"]\ntextconv = "{marks["text"]}"\n')
    calls = [("Bash", {"command": command}) for command in ("git status", "git diff --submodule=diff")]

    shown = hostile.run("trust", "show", "--json").json
    ran = hostile.run("-p", "go", *model(hostile, *calls), "--output-format", "json")
    assert (shown["state"], ran.code, len(ran.json["permission_denials"])) == ("untrusted", 3, 2)
    allowed = hostile.run("-p", "go", *model(hostile, *calls), "--allow", "Bash(git *)", "--output-format", "json")
    assert allowed.json["permission_denials"] == []
    assert nothing_happened(hostile)

    for _, call in calls:  # and the test can fail: without us they run
        subprocess.run(call["command"].split(), cwd=hostile.root, check=False, capture_output=True, env=environment)
    assert set(hostile.ran) >= {"fsm", "clean"}


def test_git_starts_nothing_in_a_submodule_of_the_past(hostile: Hostile) -> None:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x"}
    environment = {**os.environ, **own, "GIT_COMMITTER_EMAIL": "x", "HOME": str(hostile.home)}
    hostile.write("sub/s.txt", "one\n")

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=hostile.root, check=True, capture_output=True, env=environment)

    for words in (
        ("init", "-q", "sub"),
        ("-C", "sub", "add", "."),
        ("-C", "sub", "commit", "-qm", "1"),
        ("init", "-q"),
    ):
        git(*words)
    git("add", "sub")
    git("commit", "-qm", "1")
    hostile.write("sub/s.txt", "two\n")
    git("-C", "sub", "commit", "-qam", "2")
    git("commit", "-qam", "2")
    git("rm", "-q", "--cached", "sub")
    git("commit", "-qm", "3")
    git("-C", "sub", "config", "diff.external", hostile.mark("external"))
    shown = hostile.run("trust", "show", "--json").json
    words = ("--ignore-submodules=none", "--submodule=diff", "--ignore-submodules=none --submodule=diff")
    commands = [f"git diff {flags} HEAD~2 HEAD~1" for flags in words]

    ran = hostile.run(
        "-p", "go", *model(hostile, *(("Bash", {"command": each}) for each in commands)), "--output-format", "json"
    )

    assert (shown["state"], len(ran.json["permission_denials"])) == ("trusted", len(commands))
    git("config", "diff.submodule", "diff")
    assert hostile.run("trust", "show", "--json").json["state"] == "untrusted"
    assert nothing_happened(hostile)
    subprocess.run(commands[0].split(), cwd=hostile.root, check=False, capture_output=True, env=environment)
    assert hostile.ran == ["external"], "and the test can fail: without us it runs"


def ask_git(door: Door, *names: str, flags: tuple[str, ...] = (), cwd: Path | None = None) -> list[str]:
    """What git says of its configuration in a command of a session."""
    calls = [{"name": "Bash", "args": {"command": f"git config --get {name}"}} for name in names]
    plays = door.script({"text": "", "calls": calls}, {"text": "Done."})
    ran = door.run("-p", "go", "--model", plays, "--output-format", "stream-json", *flags, cwd=cwd)
    return [block["content"].strip() for block in results(ran.lines)]


CAREFUL = {
    "core.fsmonitor": "false",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "log.showSignature": "false",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "safe.bareRepository": "explicit",
}


def test_git_is_careful_where_nobody_was_asked(door: Door) -> None:
    subprocess.run(["git", "init", "-q"], cwd=door.work, check=True)

    assert ask_git(door, *CAREFUL) == list(CAREFUL.values())


def test_git_of_a_trusted_workspace_takes_no_bare_repository_by_itself(door: Door) -> None:
    subprocess.run(["git", "init", "-q"], cwd=door.work, check=True)
    subprocess.run(["git", "config", "alias.x", "status"], cwd=door.work, check=True)

    assert ask_git(door, "safe.bareRepository", "alias.x", flags=("--trust",)) == ["explicit", "status"]


def test_git_keeps_what_the_person_says_in_variables(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q"], cwd=door.work, check=True)
    own = {"COUNT": "2", "KEY_0": "user.name", "VALUE_0": "me", "KEY_1": "core.fsmonitor", "VALUE_1": "true"}
    for name, value in own.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)

    assert ask_git(door, "user.name", *CAREFUL) == ["me", *CAREFUL.values()]


def test_a_bare_repository_that_a_session_is_opened_in_works(door: Door) -> None:
    subprocess.run(["git", "init", "-q", "--bare"], cwd=door.work, check=True)
    write = {"name": "Write", "args": {"file_path": "config", "content": "[alias]\nx = !touch ran\n"}}
    look = {"name": "Bash", "args": {"command": "git rev-parse --is-bare-repository"}}
    plays = door.script({"text": "", "calls": [look, write]}, {"text": "Done."})

    ran = door.run("-p", "go", "--model", plays, "--output-format", "stream-json", "--permission-mode", "acceptEdits")

    assert results(ran.lines)[0]["content"].strip() == "true"
    assert [denial["tool_name"] for denial in ran.lines[-1]["permission_denials"]] == ["Write"]


@pytest.mark.parametrize("shipped", [True, False])
def test_no_edit_makes_a_repository_around_the_working_folder(door: Door, *, shipped: bool) -> None:
    app = door.work / "mid/app"
    app.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=door.work, check=True)
    files = {
        "HEAD": "ref: refs/heads/main\n",
        "refs/k": "",
        "objects/k": "",
        "config": "[diff]\nexternal = touch ran\n",
    }
    if shipped:  # HEAD and refs came with the clone, and what makes them a repository comes later
        (door.work / "mid/refs").mkdir()
        (door.work / "mid/HEAD").write_text(files.pop("HEAD"), encoding="utf-8")
    calls = [{"name": "Write", "args": {"file_path": f"../{each}", "content": words}} for each, words in files.items()]
    look = {"name": "Bash", "args": {"command": "git rev-parse --git-dir"}}
    plays = door.script({"text": "", "calls": calls}, {"text": "", "calls": [look]}, {"text": "Done."})
    flags = ("--output-format", "stream-json", "--permission-mode", "acceptEdits", "--scope", "project")

    ran = door.run("-p", "go", "--model", plays, *flags, cwd=app)

    denied = [denial["tool_input"]["file_path"] for denial in ran.lines[-1]["permission_denials"]]
    assert denied == (["../refs/k", "../objects/k", "../config"] if shipped else ["../HEAD"])
    assert str(door.work / ".git") in [block["content"].strip() for block in results(ran.lines)]


# --- trusting ----------------------------------------------------------------------------------------------------------------------


MOMENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


@pytest.fixture
def hooked(hostile: Hostile) -> Hostile:
    """A repository whose hooks only leave marks."""
    hooks = {event: [{"hooks": [{"type": "command", "command": f"sh tools/mark.sh {event}"}]}] for event in MOMENTS}
    hostile.write(".backstay/settings.json", {"hooks": hooks, "permissions": {"allow": ["Bash(touch *)"]}})
    (hostile.root / ".git").mkdir()
    return hostile


def test_hooks_run_once_the_person_trusts_the_repository_and_not_after_a_script_changed(hooked: Hostile) -> None:
    run = ("-p", "go", *model(hooked, ("Bash", {"command": "touch made"})))
    everything = sorted(MOMENTS)

    assert (hooked.run(*run).code, hooked.ran) == (3, [])
    assert (hooked.run(*run, "--trust").code, hooked.ran) == (0, everything)
    hooked.forget()
    assert (hooked.run(*run).code, hooked.ran) == (3, [])  # that was for one run

    assert hooked.run("trust", "--yes").code == 0
    assert (hooked.run(*run).code, hooked.ran) == (0, everything)

    hooked.forget()
    script = hooked.root / "tools/mark.sh"
    script.write_text(script.read_text(encoding="utf-8") + "# more\n", encoding="utf-8")
    changed = hooked.run(*run)
    assert (changed.code, hooked.ran) == (3, [])
    assert "has changed since it was trusted (tools/mark.sh)" in changed.err
    assert hooked.run("trust", "show", "--json").json["state"] == "changed"


@pytest.mark.parametrize("what", ["a hook", "a server", "a git setting", "an extension", "a link"])
def test_trust_ends_with_whatever_the_repository_adds(hooked: Hostile, what: str) -> None:
    run = ("-p", "go", *model(hooked))
    assert hooked.run("trust", "--yes").code == 0
    adds: dict[str, Callable[[], object]] = {
        "a hook": lambda: hooked.write(
            ".claude/settings.json", {"hooks": {"Stop": [{"hooks": [{"command": "true"}]}]}}
        ),
        "a server": lambda: hooked.write(".mcp.json", {"mcpServers": {"x": {"command": "true"}}}),
        "a git setting": lambda: hooked.write(".git/config", "[core]\n\tfsmonitor = tools/x\n"),
        "an extension": lambda: hooked.write(".agents/skills/x/SKILL.md", "!`true`"),
        "a link": lambda: _swap_for_link(hooked.root / "tools/mark.sh"),
    }
    adds[what]()

    assert (hooked.run(*run).code, hooked.ran) == (0, [])
    assert hooked.run("trust", "show", "--json").json["state"] == "changed"


def _swap_for_link(path: Path) -> None:
    moved = path.rename(path.with_name("other.sh"))
    path.symlink_to(moved.name)


def test_a_script_that_changes_while_the_session_runs_is_not_run_and_the_call_is_refused(hooked: Hostile) -> None:
    start = [{"hooks": [{"type": "command", "command": "echo '# more' >> tools/mark.sh"}]}]
    guard = [{"hooks": [{"type": "command", "command": "sh tools/mark.sh PreToolUse"}]}]
    hooked.write(".backstay/settings.json", {"hooks": {"SessionStart": start, "PreToolUse": guard}})
    ran = hooked.run(
        "-p", "go", *model(hooked, ("Read", {"file_path": "a.txt"})), "--trust", "--output-format", "stream-json"
    )

    refused = results(ran.lines)[0]
    assert (refused["is_error"], "tools/mark.sh is not what it was" in refused["content"]) == (True, True)
    assert hooked.ran == []


# --- modules -----------------------------------------------------------------------------------------------------------------------


def test_the_local_engine_takes_no_modules_from_the_repository(hostile: Hostile) -> None:
    pytest.importorskip("xllamacpp")
    hostile.ship_modules()
    pin = list_pins()[-1]
    path = hostile.door.folder / "data" / "models" / pin.file
    path.parent.mkdir(parents=True)
    model_file(path.parent)[1].rename(path)
    os.truncate(path, pin.bytes)  # as large as it should be: more is not looked at before the engine starts
    hostile.run("-p", "go", "--model", f"local:{pin.name}")

    assert nothing_happened(hostile)
