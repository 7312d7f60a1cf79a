"""The rules of the open skill standard (agentskills.io), as its reference validator applies them. Loading is more patient than this."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backstay.config.json_text import read_regular
from backstay.extensions.frontmatter import Frontmatter, read_frontmatter
from backstay.extensions.problems import Problem, Unusable
from backstay.extensions.skills import LONGEST_DESCRIPTION, LONGEST_NAME, SKILL_FILES

LARGEST: Final = 512 * 1024
"""Bytes of a `SKILL.md`, or of any other Markdown file that is read as a whole."""
LONGEST_COMPATIBILITY: Final = 500
STANDARD: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def validate_skill(folder: Path) -> list[Problem]:
    """Everything that the standard has against the skill in `folder`; empty when it is valid. Never raises."""
    if not folder.is_dir():
        what = "This is not a folder." if folder.exists() else "There is nothing here."
        return [Problem(file=str(folder), line=1, message=f"{what} Name the folder that the SKILL.md is in.")]
    file = skill_file(folder)
    if file is None:
        return [Problem(file=str(folder), line=1, message="There is no SKILL.md in this folder. A skill needs one.")]
    try:
        content, _ = read_regular(file, LARGEST)
        head = read_frontmatter(content, str(file), strict=True)
    except Unusable as exc:
        return [exc.problem]
    except OSError as exc:
        return [Problem(file=str(file), line=1, message=f"It cannot be read: {exc.strerror}.")]
    if not content.startswith(b"---") or not head.present:
        return [Problem(file=str(file), line=1, message="A skill must begin with a frontmatter, between lines of ---.")]
    return [
        Problem(file=str(file), line=head.lines.get(key, 1), message=message)
        for key, message in _complaints(head, folder)
    ]


def skill_file(folder: Path) -> Path | None:
    """The file that describes the skill in `folder`; `SKILL.md` goes before `skill.md`."""
    return next((file for name in SKILL_FILES if (file := folder / name).exists()), None)


def _complaints(head: Frontmatter, folder: Path) -> Iterator[tuple[str, str]]:
    for key in head.values:
        if key not in STANDARD:
            yield key, f"{key[:80]!r} is not a key of the standard. Its keys are {', '.join(STANDARD)}."
    for key in ("name", "description"):
        value = head.values.get(key)
        if value is None:
            yield key, f"The frontmatter has no {key!r}. A skill must have one."
        elif not isinstance(value, str) or not value.strip():
            yield key, f"{key!r} must be a text that says something."
        else:
            yield from (
                (key, text) for text in (_about_name(value, folder) if key == "name" else _too_long(key, value))
            )
    compatibility = head.values.get("compatibility")
    if isinstance(compatibility, str):
        yield from (("compatibility", text) for text in _too_long("compatibility", compatibility))
    elif compatibility is not None:
        yield "compatibility", "'compatibility' must be a text."


def _about_name(given: str, folder: Path) -> Iterator[str]:
    name = unicodedata.normalize("NFKC", given.strip())
    yield from _too_long("name", name)
    if name != name.lower():
        yield f"The name {name[:80]!r} must be in lower case."
    if name.startswith("-") or name.endswith("-"):
        yield f"The name {name[:80]!r} must not begin or end with a hyphen."
    if "--" in name:
        yield f"The name {name[:80]!r} must not have two hyphens in a row."
    if not all(character.isalnum() or character == "-" for character in name):
        yield f"The name {name[:80]!r} must have letters, digits and hyphens only."
    if unicodedata.normalize("NFKC", folder.absolute().name) != name:
        yield f"The name {name[:80]!r} must be that of the folder, {folder.absolute().name!r}."


def _too_long(key: str, value: str) -> Iterator[str]:
    most = {"name": LONGEST_NAME, "description": LONGEST_DESCRIPTION, "compatibility": LONGEST_COMPATIBILITY}[key]
    if len(value) > most:
        yield f"{key!r} has {len(value):,} characters; {most:,} are the most."
