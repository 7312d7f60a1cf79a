"""Spellings that read or run more than they seem to, and some that only look as if they did."""

import pytest

from backstay.permissions.unasked import Outside, Place, prove
from tests.permissions.desk import weighed


@pytest.mark.parametrize(
    "text",
    [
        "git log --format='%h %G?'",
        "git log --pretty=format:%GS",
        "git show --format=%GK HEAD",
        "git for-each-ref --format='%(signature)'",
        "ps u e",
        "ps u e 1",
        "strings @../x",
        "strings -n 4 @list",
    ],
)
def test_what_only_seems_to_read_is_asked_for(text: str) -> None:
    assert weighed("Bash", text).decision == "ask"


@pytest.mark.parametrize(
    "text",
    [
        'echo "$(basename "$PWD")"',
        "git log --pretty=format:'%h %Cgreen%an %gd'",
        "ps aux",
        "ps -u root -o pid,comm",
        "ps p 1",
        "strings -n 4 a.out",
        "cat /dev/stdin < a",
    ],
)
def test_what_is_harmless_needs_nobody(text: str) -> None:
    assert weighed("Bash", text).decision == "allow"


@pytest.mark.parametrize("name", ["DB_PWD", "pwd", "PASS"])
def test_other_variables_that_are_called_like_passwords_are_still_secrets(name: str) -> None:
    assert weighed("Bash", f'echo "${{{name}##*/}}"').decision == "ask"


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/zero", "/dev/tty", "/dev/random"])
def test_a_tool_does_not_read_our_own_devices(path: str) -> None:
    assert weighed("Read", {"file_path": path}).decision == "ask"


@pytest.mark.parametrize("pattern", ["{/etc,src}/*", "{..,src}/*", "{../x,y}", "[.][.]/*", "**/../../*", "{a,~/x}"])
def test_a_pattern_that_may_lead_anywhere_is_asked_for(pattern: str) -> None:
    assert weighed("Glob", {"pattern": pattern}).decision == "ask"
    assert weighed("Grep", {"pattern": "x", "glob": pattern}).decision == "ask"


@pytest.mark.parametrize("pattern", ["**/*.{ts,tsx}", "{src,tests}/**/*.py", "*..*", "**/.env.{a,b}"])
def test_one_that_stays_below_its_folder_is_not(pattern: str) -> None:
    assert weighed("Glob", {"pattern": pattern}).decision == "allow"


@pytest.mark.parametrize("shell", ["fish", "pwsh", "cmd", "tcsh", "xonsh"])
def test_a_shell_with_a_language_of_its_own_runs_nothing_unasked(shell: str) -> None:
    """To `fish`, `set -x` shows the environment; to PowerShell, `type` shows a file."""
    for text in ("set -x", "type .env", "ls -la"):
        with pytest.raises(Outside):
            prove(text, Place(cwd="/repo", home="/home/u", shell=shell))
    assert prove("ls -la", Place(cwd="/repo", home="/home/u", shell="/bin/zsh")).steps
