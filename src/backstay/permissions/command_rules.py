"""Rules about shell commands, compared with argument vectors and with the text as written.

`*` stands for any characters, blanks and newlines included. A final ` *` or `:*` is a word boundary that the bare prefix matches too.
Words are joined with a mark that no pattern holds, so that `npm "run test"` is not `npm run test`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct

from backstay.permissions.call_site import Command, Layer, Script
from backstay.permissions.path_rules import shell_tokens
from backstay.permissions.wildcards import DEEP, Tokens, meets, star_match, star_spans
from backstay.vocab.rules import Rule

_INTERPRETER: Final = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|expect|osascript|Rscript|R|ghci|julia|groovy|scala|pwsh"
    r"|powershell|irb|rake|ts-node|tsx|guile|elixir|erl|jshell|emacs|vim|nvim|ex|vi|gdb|sqlite3|psql|mysql|[gmn]?awk)[\d.]*"
)
_MESSAGES: Final = frozenset(("-m", "--message", "-am", "--title", "--body", "-t", "-b"))
"""Options whose values are words for people."""
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=\S*\s")
"""A setting of several words, as `sudo` and `env` take them."""
_NAMES: Final = re.compile(r"[\w./+-]+")


def may_run(command: Command, program: str) -> bool:
    """Return whether a command may start a program that one of its words names."""
    return command.does == "runs" and any(_may_run(layer, program) for layer in command.layers)


def _may_run(layer: Layer, program: str) -> bool:
    first, *rest = layer.words or (None,)
    name = _base(first or "")
    words = [word for word in rest if word is not None and program in word]
    if not words or name == program:
        return False
    if name == "sed":
        return True  # a script of it may begin a command anywhere: `1erm x`
    if _INTERPRETER.fullmatch(name):
        return any(_base(found) == program for word in words for found in _NAMES.findall(word))
    if not _is_known(name) and any(_base(_first(word)) == program for word in words):
        return True
    return any(_is_given(before or "", word or "", program) for before, word in pairwise(layer.words))


def _is_given(before: str, word: str, program: str) -> bool:
    """Return whether a word is, or ends in, a text that an option or a setting may have run: `--tree-filter 'rm x'`, `SHELL=rm`."""
    if before in _MESSAGES:
        return False
    parts = [part for part in re.split(r"[=:]+", word)[1:] if part]
    if _ASSIGNED.match(word):
        parts += word.split()
    if before.startswith("-") or (before.isalpha() and len(before) == 1):
        parts.append(word)
    return any(_base(_first(part).strip("'\"")) == program for part in parts)


def _first(word: str) -> str:
    """Return the program of a text that a shell may be given; the word itself when it is one."""
    return next(iter(word.lstrip(" !").split(maxsplit=1)), "")


def _base(word: str) -> str:
    from backstay.permissions.shell.table import usual_name  # noqa: PLC0415 - the tables are read when the first rule needs them

    return usual_name(word.rpartition("/")[2])[0]


def _is_known(name: str) -> bool:
    from backstay.permissions.shell.finder import is_known  # noqa: PLC0415 - the tables are read when the first rule needs them

    return is_known(name)


_GAP: Final = "\x1f"
"""What stands between words."""
_UNKNOWN: Final = "\ue000"
"""What stands for a word that is not known before it runs: only a wildcard covers it."""
_CLIMB: Final = re.compile(rf"(?<![^/\\=:,{_GAP}])\.\.(?![^/\\:,{_GAP}])")
"""A part of a path that leads to the folder above."""
_WILD: Final = re.compile(r"^[^\s*?\[]*[*?\[]\S*$")
_LONGEST_WILD: Final = 100
_LONG: Final = 4_000
"""Characters of a command with unknown words that are compared; a longer one may be anything."""

_QUOTING: Final = re.compile(r"[\"'\\]|\\\n")

Match = Literal["no", "maybe", "yes"]

Allowance = Literal["no", "rule", "bare", "whole"]
"""What a rule says for a command: nothing, its pattern covers it, it allows every command, or it is this very text."""


Pieces = tuple[str, ...]
"""What stands between the wildcards of a pattern."""


class CommandPattern(Struct, frozen=True):
    """A pattern, ready to be compared."""

    raw: str
    text: tuple[Pieces, ...]
    """For the text as written. There are two when the pattern ends at a word boundary: the bare prefix, and more words after it."""
    vector: tuple[Pieces, ...]
    """For the words; none when the quotes of the pattern do not close."""
    program: str = ""
    """The first word, when it is spelled out: most rules are about other programs, which is told at once."""

    def covers(self, layer: Layer) -> bool:
        """Return whether a program and its arguments match, as words or as written."""
        return self.covers_words(layer.words) or self.covers_text(layer.text)

    def covers_words(self, words: tuple[str | None, ...]) -> bool:
        """Return whether words match; one that is not known is covered by a wildcard alone."""
        joined = _GAP.join(_UNKNOWN if word is None else word for word in words)
        return any(star_match(pieces, joined) for pieces in self.vector)

    def covers_text(self, text: str) -> bool:
        """Return whether a text matches as written; blanks count as one."""
        plain = " ".join(text.split())
        return any(star_match(pieces, plain) for pieces in self.text)

    def vouches_for(self, layer: Layer) -> bool:
        """Return whether a program and its arguments match, and no wildcard behind a slash stands for a way out by `..`."""
        if not self.bounded or not _climbs(layer):
            return self.covers(layer)
        joined = _GAP.join(_UNKNOWN if word is None else word for word in layer.words)
        return any(_keeps_below(pieces, joined) for pieces in self.vector)

    @property
    def bounded(self) -> bool:
        """Whether some wildcard goes on with a path that the pattern began."""
        return any(map(any, map(_bounds, self.text)))

    def may_cover(self, words: tuple[str | None, ...]) -> bool:
        """Return whether words could match, whatever those are that are not known."""
        theirs = _tokens(words)
        return any(meets(_wild(pieces), theirs) for pieces in self.vector)

    def equals(self, text: str) -> bool:
        """Return whether it is this very text."""
        return self.raw == text.strip()


@lru_cache(maxsize=4096)
def command_pattern(pattern: str, *, wide: bool) -> CommandPattern:
    """Read a pattern. What forbids is read widely: a quoted `*` counts as a wildcard."""
    raw = pattern.strip()
    prefix, tail = (raw[:-2].rstrip(), True) if raw.endswith((" *", ":*")) or raw == "*" else (raw, False)
    words = _words(prefix, wide)
    colon = ":" if raw.endswith(":*") else ""  # `npm run build:*` is about `npm run build:docs` too, as it is written
    text = _ends(tuple(" ".join(prefix.split()).split("*")), f" {colon}", tail)
    if words is None:
        return CommandPattern(raw, text, ())
    first, gap, _ = words[0].partition(_GAP)
    return CommandPattern(raw, text, _ends(words, _GAP + colon, tail), first if gap or len(words) == 1 else "")


def _climbs(layer: Layer) -> bool:
    return any(word is not None and _CLIMB.search(word) for word in layer.words)


def _bounds(pieces: Pieces) -> list[bool]:
    """For each wildcard of a pattern, whether it goes on with a path that the pattern began."""
    found, path = [], False
    for piece in pieces[:-1]:
        *before, word = re.split(rf"[{_GAP} ]", piece)
        path = "/" in word or (path and not before)
        found.append(path)
    return found


def _keeps_below(pieces: Pieces, text: str) -> bool:
    """Return whether words match, and no wildcard that goes on with a path stands for a part that leads above."""
    spans = star_spans(pieces, text)
    if spans is None:
        return False
    bounded = [span for span, path in zip(spans, _bounds(pieces), strict=True) if path]
    climbs = [found.span() for found in _CLIMB.finditer(text)]
    return not any(start < above and below < end for start, end in bounded for below, above in climbs)


def _ends(pieces: Pieces, gaps: str, tail: bool) -> tuple[Pieces, ...]:
    """Give the pieces of a pattern, and with a `tail` those with anything behind each of the `gaps`."""
    if not tail:
        return (pieces,)
    return (pieces, *((*pieces[:-1], pieces[-1] + gap, "") for gap in gaps)) if pieces != ("",) else (("", ""),)


def forbidden(rule: Rule, script: Script, text: str, *, folds: bool) -> Match:
    """Return whether a rule that forbids or asks is about a script: any command, at any layer, by any name.

    In a text whose reading is not certain, a rule may be about each program whose name stands somewhere in it.
    """
    if rule.pattern is None:
        return "yes"
    pattern = command_pattern(rule.pattern, wide=True)
    if pattern.equals(text) or pattern.covers_text(text):
        return "yes"
    found: Match = "no"
    for command in script.commands:
        for layer in command.layers:
            match = _about(pattern, layer, folds=folds)
            if match == "yes":
                return "yes"
            found = "maybe" if match == "maybe" else found
        if found == "no" and pattern.program and may_run(command, pattern.program):
            found = "maybe"
    if found == "no" and any(
        _about(pattern, layer, folds=folds) != "no"
        for each in script.handed
        if _has_program(each)
        for layer in each.layers
    ):
        return "maybe"
    hidden = any(command.steers or command.exact or command.opaque or command.given for command in script.commands)
    unsure = script.problem or hidden
    return "maybe" if unsure and found == "no" and _names(text, pattern.program, folds=folds) else found


def _names(text: str, program: str, *, folds: bool) -> bool:
    """Return whether a program may be named in a text, however it is quoted; one that a rule leaves open may be any."""
    bare = _QUOTING.sub("", text)
    name = program.rpartition("/")[2]
    ends = r"(?!\w)" if name == "git" else r"(?![\w-])"  # `git-push`, and `grm`, are other names
    return (
        not name or re.search(rf"(?<![\w-])g?{re.escape(name)}{ends}", bare, re.IGNORECASE if folds else 0) is not None
    )


def find_allowance(rule: Rule, command: Command, script: Script, text: str) -> Allowance:
    """Return what a rule that allows says for a command.

    The outermost program counts, or one behind programs that change nothing about what they run. An assignment that steers a program
    is not looked past. A command that only an exact rule may allow needs one.
    """
    if rule.pattern is None:
        return "bare" if _has_program(command) else "no"
    pattern = command_pattern(rule.pattern, wide=False)
    if pattern.equals(text):
        return "whole"
    if command.steers:
        alone = len(script.commands) == 1 and "=" in pattern.raw.partition(" ")[0] and not script.problem
        alone = alone and not (pattern.bounded and any(map(_climbs, command.layers)))
        return "rule" if alone and not command.exact and pattern.covers_text(text) else "no"
    for layer in _reachable(command):
        if command.exact or not _has_program(command):
            if pattern.equals(layer.text):
                return "whole"
        elif pattern.program in ("", layer.words[0]) and pattern.vouches_for(layer):
            return "rule"
    return "no"


def _reachable(command: Command) -> Iterator[Layer]:
    for layer in command.layers:
        yield layer
        if not layer.transparent:
            return


def _has_program(command: Command) -> bool:
    return not command.layers or (bool(command.layers[0].words) and command.layers[0].words[0] is not None)


def _about(pattern: CommandPattern, layer: Layer, *, folds: bool) -> Match:
    if pattern.program and layer.words and not folds:
        program = layer.words[0]
        if program is not None and program != pattern.program and program.rpartition("/")[2] != pattern.program:
            return "no"
    if not layer.words or pattern.covers(layer):
        return "yes" if layer.words else "no"
    unknown = None in layer.words or (pattern.program != "" and any(map(_may_expand, layer.words[1:])))
    if None in layer.words and sum(len(word or "") for word in layer.words) > _LONG:
        return "maybe"
    for words in _spellings(layer.words, folds=folds):
        if pattern.covers_words(words):
            return "yes"
        if unknown and pattern.may_cover(words):
            return "maybe"
    return "no"


def _may_expand(word: str | None) -> bool:
    """Return whether the shell may put a name in the place of a word."""
    return word is not None and len(word) <= _LONGEST_WILD and _WILD.search(word) is not None


def _spellings(words: tuple[str | None, ...], *, folds: bool) -> Iterator[tuple[str | None, ...]]:
    """Yield other spellings of a command: the bare name of its program, folded letters, no options before the subcommand."""
    program, *rest = words
    yield words
    if program is None:
        return
    name = re.split(r"[/\\]", program)[-1]
    if folds:
        name = name.casefold().removesuffix(".exe")
    if name and name != program:
        yield (name, *rest)
    for start in _after_options(rest):
        yield (name, *rest[start:])


def _after_options(rest: list[str | None]) -> Iterator[int]:
    """Yield where a subcommand may begin, as in `git -C . push`: after leading options, each of which may have a value."""
    for at, word in enumerate(rest):
        option = word is not None and word.startswith("-")
        before = rest[at - 1] if at else None
        if not option and not (before is not None and before.startswith("-")):
            return
        yield at + 1


def _tokens(words: tuple[str | None, ...]) -> Tokens:
    tokens: list[str] = []
    for word in words:
        tokens += [DEEP] if word is None else shell_tokens(word) if _may_expand(word) else [*word]
        tokens.append(_GAP)
    return tuple(tokens[:-1])


def _wild(pieces: Pieces) -> Tokens:
    tokens: list[str] = [*pieces[0]]
    for piece in pieces[1:]:
        tokens += [DEEP, *piece]
    return tuple(tokens)


def _words(prefix: str, wide: bool) -> Pieces | None:
    """Return the words of a pattern with gaps between them, quotes removed, split at its wildcards; None when its quotes do not close."""
    pieces = [""]
    quote = ""
    at = 0
    while at < len(prefix):
        char = prefix[at]
        if char == quote:
            quote = ""
        elif quote or (char not in "'\"\\*" and not char.isspace()):
            if char == "*" and wide:
                pieces.append("")
            else:
                pieces[-1] += char
        elif char == "*":
            pieces.append("")
        elif char == "\\":
            at += 1
            pieces[-1] += prefix[at : at + 1]
        elif char.isspace():
            pieces[-1] += "" if pieces[-1].endswith(_GAP) else _GAP
        else:
            quote = char
        at += 1
    return None if quote else tuple(pieces)
