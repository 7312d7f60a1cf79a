"""Tell what programs do that run code from their arguments: interpreters, editors, `make`, `sed`, `awk`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from backstay.permissions.shell.effects import Asked, Effect, guess, is_stream, mention, read_operands
from backstay.permissions.shell.expand import Field
from backstay.permissions.shell.tree import Seen
from backstay.permissions.unasked import is_awk_program, is_sed_script

_SED_ADDRESS: Final = r"(?:[0-9~+]+|\$|/(?:\\.|[^/\\\n])*/[IM]*)"
_SED_RUNS: Final = re.compile(
    rf"(?:^|[\n;{{}}!])[ \t]*(?:{_SED_ADDRESS}[ \t]*(?:,[ \t]*{_SED_ADDRESS}[ \t]*)?!?[ \t]*)?e"
    r"|(?:^|[\n;{}!0-9$/,])[ \t]*e(?:[\s;}]|$)|[^\w\s][gpiImM0-9]*e[gpiImMw0-9]*\s*(?:[;}\n#]|$)"
)
"""In a sed script, what may be a command or a flag that runs a program."""
_SED_FILES: Final = re.compile(r"([rRwW])[ \t]*([^\s;}][^\n;}]*)")
_AWK_RUNS: Final = re.compile(r"system|getline|(?<!\|)\|(?!\|)|@(?:load|include)|/inet/")
_AWK_WRITES: Final = re.compile(r">\s*\"([^\"\\\n]+)\"")
_PLACED: Final = re.compile(r"[/.~=]")
"""In a word of `make`: a file, or a value that may name one. Any other is a target."""
_MAKE_RUNS: Final = re.compile(
    r"(?:MAKEFLAGS|MFLAGS|MAKEFILES|SHELL|\.SHELLFLAGS|\.DEFAULT_GOAL)[:+?!]*=|.*(?:\$[({]|`)", re.DOTALL
)
"""What says among the operands of `make` what runs: some assignments, and what it expands."""
_CHANGES_IN_PLACE: Final = re.compile(r"-[alnpsw0]*i.*")


def read_interpreter(asked: Asked, effect: Effect) -> None:
    """Say what an interpreter may do: anything; it hides what when its program is not in view."""
    line = asked.line
    codes = [value for _, kind, value in line.given if kind == "code"]
    for code in (*codes, *asked.given):
        mention(code.value or "", effect, asked.site)
    if any(code.value is None for code in codes):
        effect.hide("its program is not known before it runs")
    script = None if codes or "-m" in line.names else (line.operands[0] if line.operands else Field("-"))
    from_input = script is not None and (script.value in (None, "-") or is_stream(script.value))
    effect.given = effect.given or from_input
    if from_input and not asked.given:
        effect.hide("its program comes from elsewhere")
    guess(line.operands, effect, asked.site)
    if script is not None and not from_input:
        effect.touch("read", script, asked.site)
    in_place = asked.name in ("perl", "ruby") and any(
        _CHANGES_IN_PLACE.fullmatch(word.value or "") for word in asked.words
    )
    for field in line.operands if in_place else ():
        effect.touch("write", field, asked.site)


def read_editor(asked: Asked, effect: Effect) -> None:
    read_operands(asked, effect)
    for field in asked.line.operands:  # it shows what it changes
        effect.touch("read", field, asked.site)
    if any(kind == "code" for _, kind, _ in asked.line.given) or any(
        (field.value or "").startswith("+") for field in asked.line.operands
    ):
        effect.hide("a command of the editor may run programs")


def read_make(asked: Asked, effect: Effect) -> None:
    guess((field for field in asked.line.operands if _PLACED.search(field.value or "")), effect, asked.site)
    files = asked.line.values("-f", "--file", "--makefile")
    if (
        any(kind == "code" for _, kind, _ in asked.line.given)
        or any(field.value in (None, "-") or is_stream(field.value) for field in files)
        or any(field.value is None or _MAKE_RUNS.match(field.value) for field in asked.line.operands)
    ):
        effect.exact = True
        effect.hide("its rules are not in a file that can be looked at")


def read_sed(asked: Asked, effect: Effect) -> None:
    line, files = asked.line, asked.line.operands
    scripts = [value for _, kind, value in line.given if kind == "code"]
    in_place = line.has("-i", "--in-place")
    effect.exact = line.has("-f", "--file")
    if not scripts and not effect.exact:
        # BSD's -i takes a suffix of its own, often empty: then the script is the word after it.
        taken = 2 if files and files[0].value == "" and in_place else 1
        scripts, files = files[:taken], files[taken:]
    for script in scripts:
        proved = script.value is not None and is_sed_script(script.value)
        effect.exact = effect.exact or not proved
        if script.value is None or (not proved and _SED_RUNS.search(script.value)):
            effect.hide("its script may run programs")
        for letter, name in _SED_FILES.findall(script.value or ""):
            effect.touch("read" if letter in "rR" else "write", Field(name, name), asked.site)
    endings = [value.value or "" for value in line.values("-i", "--in-place")]
    for field in files:
        effect.touch("read", field, asked.site)
        for ending in ["", *endings] if in_place else []:
            value = None if field.value is None or "*" in ending else field.value + ending
            effect.touch("write", Field(value, field.text, field.glob), asked.site)


def read_awk(asked: Asked, effect: Effect) -> None:
    line, files = asked.line, asked.line.operands
    programs = [value for _, kind, value in line.given if kind == "code"]
    in_file = line.has("-f", "--file", "-E", "--exec")
    effect.exact = line.has("-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load")
    in_place = any(value.value in (None, "inplace") for value in line.values("-i", "--include"))
    if not programs and not in_file:
        programs, files = files[:1], files[1:]
    for program in programs:
        effect.exact = effect.exact or program.value is None or not is_awk_program(program.value)
        if program.value is None or (effect.exact and _AWK_RUNS.search(program.value)):
            effect.hide("its program may run others")
        mention(program.value or "", effect, asked.site)
        for name in _AWK_WRITES.findall(program.value or ""):
            effect.touch("write", Field(name, name), asked.site)
    for field in files:
        effect.touch("read", field, asked.site)
        if in_place:
            effect.touch("write", field, asked.site)


_ASSIGNED: Final = re.compile(r"[\"']?\$?\{?([A-Za-z_]\w*)(?:\[[^\]]*\])?\}?(?:%%)?\+?=", re.ASCII)
_TABLE: Final = re.compile(r"BASH_(?:ALIASES|CMDS)\[([^\]]*)\]=(.*)", re.DOTALL)
_DEFAULT: Final = re.compile(r"\$\{\w+:?[=+-]([^}]*)")
_START: Final = re.compile(r"^|[;|&({!:=@'\"`\n]+")
_CUT: Final = re.compile(r"[;&|(){}`\n]")
_PARTED: Final = re.compile(r"[\s{]|\$\{?IFS|\\[xt0-7]")
"""What a text of several words has."""
_BLANK: Final = re.compile(r"\$(?:IFS\b|\{IFS[^}]*\})|\\t")
_CODE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\0?([0-7]{3})")
_QUOTING: Final = re.compile(r"[\"'\\]|\$(?=['\"])")
_LEAD: Final = re.compile(
    r"(?:@(?:reboot|yearly|annually|monthly|weekly|daily|midnight|hourly)\s|[^A-Za-z_$])*", re.ASCII
)
"""What other languages put before a command: a mark, an address, times."""
_HOME: Final = re.compile(r"~(?=/|$)|\$HOME\b|\$\{HOME\}")
_WILD: Final = re.compile(r"[*?\[]")


def values_of(seen: Sequence[Seen]) -> Iterator[str]:
    """Give every value that commands assign, by themselves or in a word (`env`, `make`), also with what is added to it later."""
    held = dict[str, list[str]]()
    for each in seen:
        for field in (*(each.values or each.sets), *each.fields):
            text = field.text if field.value is None else field.value
            yield from _DEFAULT.findall(field.text)
            if found := _ASSIGNED.match(text):
                held.setdefault(found[1], []).append(text[found.end() :])
    for values in held.values():
        yield from (*values, "".join(values))


def resolve_aliases(seen: Sequence[Seen]) -> Iterator[str]:
    """Give what commands stand for by names that others give: `alias x='rm -rf'; x /`, `hash -p /bin/rm ls; ls -rf /`."""
    meant = dict(each for command in seen for each in _texts_with_names(command))
    for command in seen if meant else ():
        text = " ".join(field.text if field.value is None else field.value for field in command.fields)
        for _ in meant:
            name, _, rest = text.partition(" ")
            if name not in meant:
                break
            text = f"{meant[name]} {rest}"
        yield text


def _texts_with_names(seen: Seen) -> Iterator[tuple[str, str]]:
    words = [field.value or "" for field in (*seen.fields, *seen.values)]
    yield from ((found[1], found[2]) for found in map(_TABLE.match, words) if found)
    if "alias" in words[:2]:
        yield from ((name, text) for name, equals, text in (word.partition("=") for word in words[1:]) if equals)
    if "hash" in words[:2] and (found := re.search(r" -\w*p ?(\S+) .*?(\S+)$", " ".join(words))):
        yield found[2], found[1]


def run_by_others(seen: Sequence[Seen]) -> Iterator[str]:
    """Give what may run where a program is not known: the words of each command (`run() { "$@"; }; run rm -rf /`), its input, and behind
    each value that is assigned those of the command (`r='rm -rf'; $r /`)."""
    values = list(dict.fromkeys(values_of(seen)))
    for each in seen:
        words = [field.text if field.value is None else field.value for field in each.fields]
        yield " ".join(words[1:])
        yield from (given.value or given.text for given in each.given)
        if each.fields and each.fields[0].value is None:
            yield from (" ".join((value.strip("()"), *words[1:])) for value in values)


def guess_output(seen: Seen, *, known: bool) -> Iterator[str]:
    """Give what a command prints, where its words say so: what is known of it, or all as it is written."""
    head = seen.fields[0].value if seen.fields else None
    if head == "cat":
        yield from (given.value or given.text for given in seen.given)
    elif head in ("echo", "printf"):
        if not known:
            yield from (field.value or "" for field in seen.fields[1:])
        yield " ".join(field.value or ("" if known else field.text) for field in seen.fields[1:])


def may_be_script(text: str) -> bool:
    """Return whether a text has more than one word."""
    return _PARTED.search(text) is not None


def cut(text: str, home: str) -> Iterator[tuple[int, tuple[Field, ...]]]:
    """Give the length and the words of each command that may begin somewhere in a text."""
    text = _CODE.sub(lambda found: chr(int(found[1], 16) if found[1] else int(found[2], 8) % 256), text)
    text = _BLANK.sub(" ", text.replace("\\n", "\n"))
    for found in _START.finditer(text):
        end = _CUT.search(text, found.end())
        piece = _QUOTING.sub("", text[found.end() : end.start() if end else len(text)])
        words = _LEAD.sub("", piece, count=1).replace(",", " " if " " not in piece.strip() else ",").split()
        while words and _ASSIGNED.match(words[0]):
            words.pop(0)
        words = words[1:] if words[:1] in (["echo"], ["printf"]) else words
        yield len(piece), tuple(_field(word, home) for word in words) if len(words) > 1 else ()


def _field(word: str, home: str) -> Field:
    value = _HOME.sub(lambda _: home, word)
    return Field(None if "$" in value else value, word, _WILD.search(value) is not None)
