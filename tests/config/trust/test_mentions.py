"""Which files of a project a command names."""

from pathlib import Path

import pytest

from backstay.config.trust.run_files import find_mentioned


@pytest.mark.parametrize(
    "command",
    [
        "scripts/check.sh",
        "./scripts/check.sh --fast",
        "bash scripts/check.sh",
        'bash "$CLAUDE_PROJECT_DIR"/scripts/check.sh',
        '"$CLAUDE_PROJECT_DIR/scripts/check.sh"',
        "${CLAUDE_PROJECT_DIR}/scripts/check.sh",
        "$BACKSTAY_PROJECT_DIR/scripts/check.sh",
        "cd $PWD && sh scripts/check.sh | tee log",
        "bash -c 'set -e; sh \"scripts/check.sh\" || true'",
        "bash -c 'sh -c \"sh '\\''scripts/check.sh'\\''\"'",
        "env A=scripts/check.sh sh -c '. $A'",
        "sh <scripts/check.sh",
        'sh -c "$(cat scripts/check.sh)"',
        "other/../scripts/check.sh",
        "python3 -u scripts/check.sh",
        "--config=scripts/check.sh",
        "unbalanced ' scripts/check.sh",
    ],
)
def test_a_file_is_found_however_it_is_written(tmp_path: Path, command: str) -> None:
    script = tmp_path / "scripts" / "check.sh"
    script.parent.mkdir()
    script.write_text("")
    (tmp_path / "other").mkdir()

    assert set(find_mentioned(command, (tmp_path,), tmp_path)) == {script}
    whole = command.replace("scripts/check.sh", str(script)) if "/scripts" not in command else str(script)
    assert script in set(find_mentioned(whole, (tmp_path,), tmp_path))


def test_names_with_blanks_and_homes_are_found(tmp_path: Path) -> None:
    script = tmp_path / "my check.sh"
    script.write_text("")

    for command in ("sh 'my check.sh'", "sh my\\ check.sh", "my check.sh", "'~/my check.sh'", '"$HOME/my check.sh"'):
        assert list(find_mentioned(command, (tmp_path,), tmp_path)) == [script]


def test_what_is_no_file_of_the_project_is_passed_over(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (tmp_path / "beside.sh").write_text("")

    for command in ("sh ../beside.sh", f"sh {tmp_path}/beside.sh", "ls src", "make", "a\0b", "x" * 9_000, ""):
        assert list(find_mentioned(command, (project,), tmp_path)) == []


def test_a_link_counts_where_it_stands_and_where_it_leads(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "out.sh").write_text("")
    (project / "in.sh").write_text("")
    (project / "link").symlink_to(outside)
    (outside / "back").symlink_to(project)

    assert list(find_mentioned("link/out.sh", (project,), tmp_path)) == [project / "link" / "out.sh"]
    assert list(find_mentioned(f"{outside}/back/in.sh", (project,), tmp_path)) == [outside / "back" / "in.sh"]
