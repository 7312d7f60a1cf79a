"""The top of a Markdown file: YAML between two lines of `---`, and the text after it."""

import functools
import json
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from backstay.extensions.problems import Problem, Unusable
from backstay.extensions.yaml_values import BadYaml, Read, Value, read_yaml

LONGEST: Final = 16 * 1024
"""Characters of a frontmatter."""
_FENCE: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_KEY: Final = re.compile(r"[\"']?([A-Za-z][A-Za-z_-]*)[\"']?[ \t]*:(?:[ \t]|$)")
_PROSE: Final = re.compile(r"(description|when_to_use|when-to-use|argument-hint)[ \t]*:[ \t]+([^\s\"'|>#].*)")
KNOWN: Final = frozenset(
    (
        "name description license compatibility metadata version whentouse argumenthint arguments disablemodelinvocation "
        "userinvocable allowedtools disallowedtools tools permissionmode maxturns model effort agent background hooks "
        "paths shell skills mcpservers memory isolation color initialprompt"
    ).split()
)
"""Every key that means something, folded: a text that is not YAML ends where one of them begins."""


class Frontmatter(Struct, frozen=True, kw_only=True):
    """What the top of a file says, and the text below it."""

    values: Mapping[str, Value]
    lines: Mapping[str, int]
    """The line of each key in the file."""
    body: str
    warnings: tuple[Problem, ...] = ()

    @property
    def present(self) -> bool:
        """Whether the file has a frontmatter at all."""
        return bool(self.lines)


class Patience:
    """How much reading the files of one owner may cost, so that a hostile folder cannot hold up a start."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def spend(self, characters: int, file: str) -> None:
        """Count what is about to be read. Raise `Unusable` when it is too much."""
        self._left -= characters
        if self._left < 0:
            raise Unusable(file, 1, "The files before this one have too much frontmatter. Move text below it.")


def read_frontmatter(
    content: bytes, file: str, *, strict: bool = False, patience: Patience | None = None
) -> Frontmatter:
    """Take the bytes of a file apart. Raise `Unusable` when it is not UTF-8 text, or its frontmatter is not closed or not YAML.

    A description or a hint that is not YAML, because of a colon or a bracket, is taken as it stands, unless `strict`: people write them
    so, and they decide nothing. With `strict`, lists and mappings in brackets are refused as well, as the skill standard's own reader does.
    """
    text = _text(content, file)
    head = split(text, file)
    if head is None:
        return Frontmatter(values={}, lines={}, body=text)
    yaml, body = head
    if len(yaml) > LONGEST:
        raise Unusable(file, 1, f"The frontmatter has more than {LONGEST:,} characters. Move text below it.")
    (values, lines), warnings = _read(yaml, file, strict, patience)
    where = {key: line + 1 for key, line in lines.items()}
    return Frontmatter(values=values, lines=where, body=body, warnings=warnings)


def split(text: str, file: str) -> tuple[str, str] | None:
    """The frontmatter and the rest; None when there is no frontmatter. Raise `Unusable` when it has no end."""
    first = _FENCE.match(text)
    if first is None:
        return None
    last = _FENCE.search(text, first.end())
    if last is None:
        raise Unusable(file, 1, "The frontmatter that begins here has no end. Put a line `---` after it.")
    return text[first.end() + 1 : last.start()], text[last.end() + 1 :]


@functools.lru_cache(maxsize=512)
def folded(key: str) -> str:
    """A key without the marks in which spellings differ: `allowed-tools`, `allowed_tools` and `allowedTools` are one key."""
    return key.replace("-", "").replace("_", "").lower()


def _text(content: bytes, file: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise Unusable(file, line, "This is not UTF-8 text. Save the file as UTF-8.") from None
    return text.replace("\r\n", "\n")


def _read(yaml: str, file: str, strict: bool, patience: Patience | None) -> tuple[Read, tuple[Problem, ...]]:
    if patience is not None:
        patience.spend(len(yaml), file)
    try:
        return read_yaml(yaml, flow=not strict), ()
    except BadYaml as exc:
        broken = exc
    if not strict:
        mended, warnings = _with_quotes(yaml, file)
        try:
            if warnings:
                return read_yaml(mended), warnings
        except BadYaml as exc:  # there is more that is wrong: that is what to tell
            broken = exc
    raise Unusable(file, broken.line + 1, f"{broken} Mend the frontmatter.")


def _with_quotes(yaml: str, file: str) -> tuple[str, tuple[Problem, ...]]:
    """The frontmatter with its prose in quotes, and a warning for each text that got them. Every line stays where it is.

    People write a description of several paragraphs without a mark where it ends. It ends at the next key that means something, however
    that is spelled, so that no list of tools is ever taken for a part of it.
    """
    made: list[str] = []
    warnings: list[Problem] = []
    lines = yaml.split("\n")
    at = 0
    while at < len(lines):
        found = _PROSE.fullmatch(lines[at])
        if found is None:
            made.append(lines[at])
            at += 1
            continue
        message = f"The text of {found[1]!r} is not YAML and is taken as it stands. Put it in quotes."
        warnings.append(Problem(file=file, line=at + 2, message=message, severity="warning"))
        end = next((place for place in range(at + 1, len(lines)) if _is_known(lines[place])), len(lines))
        text = "\n".join((found[2], *lines[at + 1 : end])).strip()
        made += (f"{found[1]}: {json.dumps(text, ensure_ascii=False)}", *[""] * (end - at - 1))
        at = end
    return "\n".join(made), tuple(warnings)


def _is_known(line: str) -> bool:
    found = _KEY.match(line)
    if found is None:
        return False
    key = folded(found[1])
    return key in KNOWN or (
        key == "context" and line[found.end() :].strip() in ("fork", "inline")
    )  # else: of an example
