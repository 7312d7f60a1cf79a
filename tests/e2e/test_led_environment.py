"""Variables of the person that lead into the workspace: an edit that nobody is asked about does not become code that runs."""

import shutil

import pytest

from tests.e2e.door import Door

MARK = "#!/bin/sh\ntouch ran\n"


def write(name: str) -> tuple[str, dict[str, str]]:
    """A call that writes a file."""
    return "Write", {"file_path": name, "content": MARK}


def bash(command: str) -> tuple[str, dict[str, str]]:
    """A call that runs a command."""
    return "Bash", {"command": command}


def denied(door: Door, *calls: tuple[str, dict[str, str]], flags: tuple[str, ...] = ()) -> list[str]:
    """The tools of the calls that were denied because nobody could be asked, one call after the other."""
    replies = [{"text": "", "calls": [{"name": name, "args": args}]} for name, args in calls]
    model = door.script(*replies, {"text": "Done."})
    flags = flags or ("--permission-mode", "acceptEdits")
    ran = door.run("-p", "go", "--trust", "--model", model, "--output-format", "json", *flags)
    return [each["tool_name"] for each in ran.json["permission_denials"]]


@pytest.mark.parametrize(
    ("name", "value", "file", "command", "tools"),
    [
        ("PYTHONPATH", "src", "src/json.py", "pip list", ["Bash"]),
        ("PYTHONPATH", "/opt/x:", "json.py", "pip list", ["Bash"]),
        ("PYTHONUSERBASE", "{work}/base", "base/x.py", "pip list", ["Bash"]),
        ("NODE_OPTIONS", "--max-old-space-size=4096 --require ./later.js", "later.js", "node --version", ["Bash"]),
        ("RUBYOPT", "-r{work}/later", "later.rb", "ruby --version", ["Bash"]),
        ("JAVA_TOOL_OPTIONS", "-javaagent:later.jar", "later.jar", "java -version", ["Bash"]),
        ("SOME_SETTING", "{work}/some/file", "some/file", "npm ls", ["Bash"]),
        ("PATH", "/usr/bin:/bin:later/bin", "later/bin/tree", "pwd", ["Write"]),
        ("BASH_ENV", "later.sh", "later.sh", "pwd", ["Write"]),
        ("BASH_ENV", "$HOME/../work/later.sh", "later.sh", "pwd", ["Write"]),
        ("LD_LIBRARY_PATH", "/opt/x:{work}/lib", "lib/libselinux.so.1", "pwd", ["Write"]),
        ("LD_PRELOAD", "{work}/lib/$LIB/a.so", "lib/a.so", "pwd", ["Write"]),
        ("GCONV_PATH", "gconv", "gconv/gconv-modules", "pwd", ["Write"]),
        ("OPENSSL_CONF", "own.conf", "own.conf", "pwd", ["Write"]),
        ("RIPGREP_CONFIG_PATH", "{work}/rg.conf", "rg.conf", "pwd", ["Write"]),
        ("XDG_CONFIG_HOME", "{work}/conf", "conf/git/config", "git status", ["Write"]),
        ("GIT_CONFIG_GLOBAL", "{work}/git.conf", "git.conf", "pwd", ["Write"]),
        ("GIT_EXTERNAL_DIFF", "./tools/show.sh --all", "tools/show.sh", "pwd", ["Write"]),
        ("GIT_EXTERNAL_DIFF", "sh show.sh", "show.sh", "pwd", ["Write"]),
        ("GIT_CONFIG_PARAMETERS", "'diff.external=./tools/show.sh'", "tools/show.sh", "pwd", ["Write"]),
        ("GIT_DIR", "{work}", "config", "git diff", ["Bash"]),
    ],
)
def test_what_a_variable_names_in_the_workspace_does_not_run_unasked(
    door: Door, monkeypatch: pytest.MonkeyPatch, name: str, value: str, file: str, command: str, tools: list[str]
) -> None:
    monkeypatch.setenv(name, value.format(work=door.work))
    assert denied(door, write(file), bash(command)) == tools


def test_a_rule_that_allows_edits_is_as_careful_as_the_mode(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    assert denied(door, write("src/json.py"), bash("pip list"), flags=("--allowedTools", "Edit(src/**)")) == ["Bash"]
    assert denied(door, bash("pip list"), flags=("--permission-mode", "default")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "/opt/x"),
        ("NODE_OPTIONS", "--max-old-space-size=4096"),
        ("JAVA_TOOL_OPTIONS", "-Dfile.encoding=UTF-8 -Xmx2g"),
        ("RUSTC_WRAPPER", "sccache"),
        ("MANPATH", "/opt/man:"),
        ("CDPATH", ".:/opt"),
        ("LD_LIBRARY_PATH", "/opt/x:"),
        ("PROJECT_ROOT", "{work}"),
        ("VIRTUAL_ENV", "{work}/.venv"),
        ("GIT_WORK_TREE", "{work}"),
        ("TZ", "Europe/Berlin"),
    ],
)
def test_what_leads_elsewhere_or_only_names_the_workspace_asks_nothing(
    door: Door, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value.format(work=door.work))
    (door.work / ".venv").mkdir()
    (door.work / ".venv/pyvenv.cfg").touch()
    assert denied(door, write("src/json.py"), bash("node --version && git status")) == []


@pytest.mark.parametrize("path", ["{path}:", ".:{path}", "{path}::/opt/x", "{work}:{path}", "{path}:{work}/"])
def test_a_program_of_the_working_folder_is_not_found(door: Door, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    name = next(each for each in ("tree", "fdfind", "fd", "hd", "cal") if shutil.which(each) is None)
    (door.work / "run.sh").write_text(MARK, encoding="utf-8")
    (door.work / "run.sh").chmod(0o755)
    monkeypatch.setenv("PATH", path.format(path="/usr/bin:/bin", work=door.work))
    assert denied(door, bash(f"cp run.sh {name}"), bash(name)) == []
    assert (door.work / name).exists()
    assert not (door.work / "ran").exists()


@pytest.mark.parametrize(
    ("name", "place", "file"),
    [
        ("BACKSTAY_CONFIG_DIR", "conf", "conf/settings.json"),
        ("BACKSTAY_CONFIG_DIR", "", "settings.json"),
        ("BACKSTAY_DATA_DIR", "data", "data/grants.json"),
        ("BACKSTAY_DATA_DIR", "", "trust.json"),
    ],
)
def test_settings_and_grants_that_lie_in_the_workspace_are_not_written_unasked(
    door: Door, monkeypatch: pytest.MonkeyPatch, name: str, place: str, file: str
) -> None:
    monkeypatch.setenv(name, str(door.work / place))
    assert denied(door, write("other.json")) == []
    assert denied(door, write(file)) == ["Write"]


def test_a_link_elsewhere_makes_a_file_of_the_workspace_a_program(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = door.folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "prettier").symlink_to(door.work / "src/prettier.js")
    (door.work / "src").mkdir()
    (door.work / "src/prettier.js").write_text(MARK, encoding="utf-8")
    (door.work / "src/prettier.js").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    assert denied(door, write("src/new.js"), bash("ls src")) == []
    assert denied(door, bash("cp src/new.js src/prettier.js"), bash("prettier --version")) == ["Bash", "Bash"]
    assert not (door.work / "ran").exists()


def test_commands_get_lists_without_the_workspace_itself(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PATH": f"/usr/bin:/bin::.:{door.work}:node_modules/.bin:{door.work}/tools",
        "LD_LIBRARY_PATH": f"/opt/x:{door.work};",
        "LD_PRELOAD": f"libnone.so {door.work}/later/../",
        "BASH_ENV": "$(touch ran)",
        "CDPATH": ".:/opt",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    replies = {"text": "", "calls": [{"name": "Bash", "args": {"command": f"printenv {' '.join(given)}"}}]}
    model = door.script(replies, {"text": "Done."})
    ran = door.run("-p", "go", "--model", model, "--output-format", "stream-json", "--allowedTools", "Bash(printenv *)")
    said = next(line for line in ran.lines if line["type"] == "user")["message"]["content"][0]["content"]
    lines = [line for line in str(said).splitlines() if "libnone" not in line or line == "libnone.so"]
    assert lines[:5] == [
        f"/usr/bin:/bin:{door.work}/node_modules/.bin:{door.work}/tools",
        "/opt/x",
        "libnone.so",
        "",
        "",
    ]
    assert not (door.work / "ran").exists()


def test_no_library_of_the_working_folder_is_loaded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    (door.work / "a.txt").write_text("needle\n", encoding="utf-8")
    (door.work / "libc.so.6").write_text("no library", encoding="utf-8")  # a program that meets it does not start
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/x:")
    calls = (
        ("Bash", {"command": "/bin/cat a.txt"}),
        ("Grep", {"pattern": "needle", "output_mode": "content"}),
    )
    replies = [{"text": "", "calls": [{"name": name, "args": args}]} for name, args in calls]
    model = door.script(*replies, {"text": "Done."})
    ran = door.run("-p", "go", "--trust", "--model", model, "--output-format", "stream-json", "--allowedTools", "Bash")
    results = [block for line in ran.lines if line["type"] == "user" for block in line["message"]["content"]]
    assert ["needle" in str(each["content"]) for each in results] == [True, True]
