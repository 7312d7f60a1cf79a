"""`backstay config instructions`: what a session here is told before anybody speaks, part by part."""

from pathlib import Path
from typing import TYPE_CHECKING

from backstay.cli import output

if TYPE_CHECKING:
    from backstay.instructions import InstructionInputs, Instructions, Part


def show(
    cwd: Path,
    *,
    as_json: bool,
    trust: bool | None = None,
    whole: bool = False,
    place: "InstructionInputs | None" = None,
) -> None:
    """Print each part with its source, its size, its limit and whether it was cut; with `whole` or `as_json` the text as well.

    Without a `place` it is that of a session that begins here now, with its memory, skills and plugins.
    """
    from backstay.instructions import gather

    found = gather(place) if place is not None else _told_here(cwd, trust)
    if as_json:
        output.say_json(instructions_object(found))
        return
    if whole:
        output.say(output.escape_terminal(found.text, keep="\n\t"))
    else:
        _say_parts(found)
    for words in found.problems:
        output.warn(output.escape_terminal(words))


def instructions_object(found: "Instructions") -> dict[str, object]:
    """Everything about the instructions, for programs."""
    return {
        "sha256": found.sha256,
        "size": len(found.text.encode()),
        "parts": [_part(part) for part in found.parts],
        "compact_instructions": found.compact_instructions,
        "files": [{"path": _text(path), "exists": stamp is not None} for path, stamp in sorted(found.files.items())],
        "problems": [_text(words) for words in found.problems],
        "text": found.text,
    }


def _told_here(cwd: Path, trust: bool | None) -> "Instructions":
    from backstay.config.default_model import choose
    from backstay.config.layers import read_layers
    from backstay.session.project.discover import look_here
    from backstay.vocab.errors import UserError

    layered = read_layers(cwd, trust=trust)
    try:
        chosen = choose(layered.settings)
    except UserError as exc:  # the model has a part in one line of it: no reason to show none
        output.warn(output.escape_terminal(str(exc)))
        chosen = None
    return look_here(cwd, layered, model=chosen.model if chosen is not None else "").instructions


def _say_parts(found: "Instructions") -> None:
    rows = [
        (part.name, f"{part.size:,}", f"{part.limit:,}", "cut" if part.cut else "", ", ".join(map(_text, part.sources)))
        for part in found.parts
    ]
    output.say_table(("part", "bytes", "limit", "", "source"), rows)
    output.say(f"\n{len(found.text.encode()):,} bytes in all, {found.sha256[:12]}.")
    if found.compact_instructions:
        output.say(f"Summaries are told: {output.escape_terminal(' '.join(found.compact_instructions.split()))}")


def _part(part: "Part") -> dict[str, object]:
    return {
        "name": part.name,
        "title": part.title,
        "sources": [_text(each) for each in part.sources],
        "size": part.size,
        "limit": part.limit,
        "cut": part.cut,
        "text": part.text,
    }


def _text(words: str) -> str:
    """A path that may not be UTF-8 as text that JSON can hold."""
    return words.encode("utf-8", "replace").decode()
