"""Find every command of a text: behind `sudo` and `xargs`, in `sh -c`, in a loop, in a substitution.

Nothing is allowed because of what is found here. So what stands behind a program that runs others is looked for bluntly: any of its
arguments may begin the command, any text among them may be a script.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct, structs

from backstay.permissions.call_site import CallSite, Command, Layer
from backstay.permissions.shell.effects import Effect, guess, is_stream
from backstay.permissions.shell.expand import Field, Site, base_name
from backstay.permissions.shell.lookup import effect_of
from backstay.permissions.shell.plain_grammar import read_plain
from backstay.permissions.shell.possible_commands import (
    cut,
    guess_output,
    may_be_script,
    resolve_aliases,
    run_by_others,
    values_of,
)
from backstay.permissions.shell.table import rewriters, rows, usual_name, words, wraps
from backstay.permissions.shell.tree import Seen, read_tree
from backstay.permissions.unasked import Outside, operand_kinds

LONGEST: Final = 10_000
"""Characters of a text that is looked through."""
DEEPEST: Final = 4
"""How many scripts may lie inside of each other."""
MOST_COMMANDS: Final = 300
MOST_WORDS: Final = 1_000
MOST_TEXTS: Final = 40
"""Scripts that are looked through for one text."""
MOST_INNER: Final = 12
MOST_READ: Final = 5_000
"""Words that are read for one command line, each as often as it is taken for the word of another program: about 50 ms."""
MOST_POSSIBLE: Final = 100
MOST_HANDED: Final = 30_000
"""Characters of all commands together that may begin in texts that a program may hand to a shell; they overlap."""
MOST_FIRST: Final = 3
"""Words behind a program that runs others, of which each may begin the command: before it stand values of options."""
_TOO_MANY: Final = "too many programs run each other"
_WRITES: Final = (">", ">>", ">|", "&>", "&>>", ">&")
_TEXT: Final = re.compile(r"[\s;|&]")
"""What a script of more than one word has."""
_FEEDERS: Final = ("xargs", "parallel", "sem")
"""They give a program arguments that are not in the text."""
_GOES: Final = frozenset(
    ["-C", "--chdir", "--cd", "--cwd", "-D", "--directory", "-w", "--workdir", "--wd", "-R", "--root", "--chroot"]
)
"""Options that name the folder that a program runs in."""
_RECURSIVE: Final = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive")
_OPTION: Final = re.compile(r"^(?:(?:--[a-z-]+|[A-Za-z_]\w*)=|-[A-Za-z](?=.))")
_NAMED: Final = re.compile(r"(?=[\w@%+.-]*[./~])[\w@%+~./][\w@%+~./-]{1,200}")
"""What may name a file wherever it stands in a text."""
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_GLUED: Final = re.compile(r"-[A-Za-z]*?c(.+)", re.DOTALL)
_SPLIT: Final = re.compile(r"-[A-Za-z0-9]*?S(.+)", re.DOTALL)
"""A text that is glued to the flag before it: `su -lc'make x'`, `env -iS'make x'`."""
_INPUT_FLAG: Final = re.compile(r"-[a-z]*s[a-z]*")
_COMMAND_FLAG: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*|-Command")


class WordLimit(Struct):
    """How many words of a command line may still be read. Programs that run programs that run others would take time without end."""

    left: int = MOST_READ

    def take(self, count: int) -> bool:
        """Take `count` words off; return whether they may be read."""
        self.left -= count
        return self.left >= 0


class CommandFinder:
    """Finds the commands of one text, and of the scripts in it."""

    def __init__(self, call_site: CallSite, limit: WordLimit | None = None, *, perhaps: bool = False) -> None:
        self.call_site, self.perhaps = call_site, perhaps
        self.limit = limit or WordLimit()
        self.commands: list[Command] = []
        self.problems: list[str] = []
        self.is_cut = False
        """Whether some of it was not looked through, because a limit was met."""
        self.texts = 0
        self.handed: list[tuple[str, Site]] = []
        """Texts that a program may hand to a shell."""
        self.listens = False
        """Whether one of the programs hands its input to a shell."""

    def text(self, text: str, site: Site, around: tuple[Layer, ...] = ()) -> None:
        """Look through a text."""
        self.texts += 1
        if len(text) > LONGEST or len(around) > DEEPEST or self.texts > MOST_TEXTS:
            return self._cut(
                f"a text of more than {LONGEST:,} characters, or a script in scripts, is not looked through"
            )
        uncertain = False
        try:
            found = read_plain(text, self.call_site)
        except Outside as outside:
            if self.perhaps:
                return  # it is no script
            found = read_tree(text, self.call_site.home)
            self.problems.append(str(outside))
            uncertain = True
        first = len(self.commands)
        places = [seen.fields for seen in found if seen.fields and seen.fields[0].value in ("cd", "pushd", "popd")]
        anywhere = site
        for fields in (*places, *places):
            anywhere = anywhere.enter(_target(fields, self.call_site.home))
        for seen in found:
            if len(self.commands) > MOST_COMMANDS:
                return self._cut("it has too many commands")
            if seen.fields or seen.redirects or seen.sets:
                self.command(seen, anywhere if seen.repeated else site, around, seen.steers)
            if seen.fields and seen.fields[0].value in ("cd", "pushd", "popd"):
                site = site.enter(_target(seen.fields, self.call_site.home))
        self.hand_over(found, anywhere)
        if uncertain:
            names = Field(" ".join(_NAMED.findall(text)))
            self.take_mentions([Seen([], [], [names], fed=False)], anywhere)
        if any(command.opaque for command in self.commands[first:]):
            self.search_output(found, site, around)
        if any(_is_unknown(command) for command in self.commands[first:]):
            self.handed += [(text, anywhere) for text in run_by_others(found)]
        if any(each.kind == "read" and not each.path for command in self.commands[first:] for each in command.accesses):
            self.take_mentions(found, anywhere)

    def hand_over(self, found: Sequence[Seen], site: Site) -> None:
        """Note what commands assign, and what they print where a program hands its input to a shell; and what new names stand for."""
        texts = [*values_of(found), *resolve_aliases(found)]
        for seen in found:
            if self.listens or [field.value for field in seen.fields[:2]] == ["printf", "-v"]:
                texts += [*guess_output(seen, known=False), *(given.value or given.text for given in seen.given)]
        self.handed += [(text, site) for text in texts]

    def possible(self) -> Sequence[Command]:
        """Give the commands that may stand in the texts that a program may hand to a shell."""
        inner, size = CommandFinder(self.call_site, self.limit, perhaps=True), 0
        pending, done = sorted(self.handed, key=lambda each: len(each[0])), set[object]()
        for text, site in pending:  # it grows
            if text in done or not may_be_script(text):
                continue
            done.add(text)
            inner.text(text, site)
            for length, fields in cut(text, self.call_site.home):
                size += length
                if size > MOST_HANDED or len(inner.commands) > MOST_POSSIBLE:
                    self._cut("it has too much text that a program may hand to a shell")
                    return inner.commands
                if fields and fields not in done and is_known(base_name(fields[0].value or "sh", self.call_site.os)):
                    done.add(fields)
                    inner.command(Seen([*fields], [], [], fed=False), site)
            pending += inner.handed
            inner.handed.clear()
        return inner.commands

    def take_mentions(self, commands: Sequence[Seen], site: Site) -> None:
        """Take in the words of commands as files, where one reads a file whose name is not known: it may be one of them."""
        effect = Effect(edits=True)
        for seen in commands:
            lines = [Field(word) for given in seen.given for word in (given.value or given.text).split()]
            guess((*seen.fields[1:], *seen.sets, *lines[:MOST_WORDS]), effect, site)
        effect.accesses = [structs.replace(access, perhaps=True) for access in effect.accesses]
        self.commands.append(_command((), effect, (), given=False))

    def search_output(self, commands: Sequence[Seen], site: Site, around: tuple[Layer, ...]) -> None:
        """Look through what commands print, where something runs a text that is not known: it may be that."""
        for seen in commands:
            problems = len(self.problems)
            for text in guess_output(seen, known=True):
                self.text(text, site, (*around, _layer(seen.fields)))
            del self.problems[problems:]  # most of it is no script; what is opaque asks by itself

    def command(self, seen: Seen, site: Site, around: tuple[Layer, ...] = (), steers: tuple[str, ...] = ()) -> None:
        """Take in a command: what runs it, what it does, what it runs in turn."""
        if self.limit.left < 0:
            unread = Effect()
            self._cut(_TOO_MANY)
            unread.hide(_TOO_MANY)
            self.commands.append(_command((*around, _layer(seen.fields)), unread, steers, given=False))
            return
        opened = Effect()
        for operator, field in seen.redirects:
            opened.touch("write" if operator in _WRITES else "read", field, site, redirect=True)
            if operator == "<>":
                opened.touch("write", field, site, redirect=True)
            opened.network = opened.network or (field.value or "").startswith(("/dev/tcp/", "/dev/udp/"))
        if len(seen.fields) > MOST_WORDS:
            self._cut("it has too many words")
            del seen.fields[MOST_WORDS:]
        layers, effect, scripts = self._layers(seen, site)
        layers += [_layer([Field("export", ""), *seen.sets])] if seen.sets else []
        effect.edits = effect.edits and not seen.sets
        effect.given = effect.given or ((seen.fed or bool(seen.given)) and any(map(self._takes_commands, layers)))
        effect.accesses += opened.accesses
        effect.network = effect.network or opened.network
        if hands := self._hands(layers):
            self.listens = self.listens or seen.fed or seen.repeated
            given = (*(seen.fields[1:] if hands == "all" else ()), *seen.given)
            self.handed += [(field.text if field.value is None else field.value, site) for field in given]
        if not self.limit.take(sum(map(len, effect.inner))):
            self._cut(_TOO_MANY)
            effect.hide(_TOO_MANY)
            effect.inner.clear()
        self.commands.append(_command((*around, *layers), effect, steers, given=bool(scripts) or effect.given))
        inside, site = (*around, *layers[:1]), _move(seen.fields, site)
        for script in scripts:
            if script.value is not None:
                self.text(script.value, site, inside)
        for inner in effect.inner:
            self.command(Seen(inner, [], [], fed=True), site, inside)

    def _cut(self, why: str) -> None:
        """Note that not all of it is looked through, and why."""
        self.problems.append(why)
        self.is_cut = True

    def _layers(self, seen: Seen, site: Site) -> tuple[list[Layer], Effect, list[Field]]:
        """Say what a command may do, by itself and as each program that it may run; and give the scripts in it."""
        layers, effect, scripts = list[Layer](), Effect(edits=True), list[Field]()
        pending = [seen.fields] if seen.fields else []
        while pending:
            fields = pending.pop(0)
            if len(layers) >= MOST_INNER or not self.limit.take(len(fields)):
                self._cut(_TOO_MANY)
                effect.hide(_TOO_MANY)
                break
            if _layer(fields) in layers:
                continue
            if not fields[0].value or fields[0].glob:
                if not layers or fields[0].many:  # else it may as well be a value of an option: a rule may be about it
                    effect.hide("which program runs is not known")
                layers.append(_layer(fields))
                _remove(fields[1:], effect, site)
                continue
            name = base_name(fields[0].value, self.call_site.os)
            if (usual := _by_usual_name(name, fields)) != fields:
                layers.append(_layer(fields, transparent=name in words("transparent")))
                pending.insert(0, usual)
                continue
            inner = self._inner(fields) if wraps(name, [field.value for field in fields[1:]]) else []
            inside = _move(fields, site) if inner else site
            if name in _FEEDERS:
                inner = [[*map(_filler_of(fields), each), Field(None, "", many=True)] for each in inner]
            layers.append(_layer(fields, transparent=name in words("transparent") and len(inner) == 1))
            _join(effect, effect_of(fields, site, seen.given))
            scripts += self._scripts(name, fields, seen, effect, site)
            pending += inner
            site = inside
        scripts += effect.scripts
        if any(script.value is None for script in scripts):
            effect.hide("the text that it runs is not known")
        return layers, effect, scripts

    def _takes_commands(self, layer: Layer) -> bool:
        """Return whether a program runs what stands in its input, or a shell that does: interpreters, editors, `su`, `sudo -s`."""
        name = base_name(layer.words[0] or "", self.call_site.os) if layer.words else ""
        row = rows().get(name)
        if name in _FEEDERS or (row is not None and row.by in ("awk", "sed")):
            return False  # what they read is no program
        lists = ("text_runners", "wrappers", "interpreters")
        return (row is not None and row.by == "editor") or any(name in words(key) for key in lists)

    def _hands(self, layers: Sequence[Layer]) -> Literal["", "input", "all"]:
        """Say what a program hands to a shell: its words too, or its input, as `sudo` does when no other program is in view."""
        names = [base_name(layer.words[0] or "", self.call_site.os) for layer in layers if layer.words]
        last = [name for name in names if is_known(name) or name in words("logins")][-1:]
        if any(name in words("hands") for name in names) or words("logins").issuperset(last or [""]):
            return "all"
        return "input" if any(name in words("shells") for name in names) else ""

    def _inner(self, fields: Sequence[Field]) -> list[list[Field]]:
        """Give the commands that may stand among a program's arguments: from each of the first words on, and each that names a program."""
        starts = [at for at, field in enumerate(fields) if at and not _is_option(field)]
        starts = [at for at in starts if at == starts[0] or fields[at].value != "."]  # else it is a folder
        known = [
            at for at in starts if is_known(base_name(fields[at].value or "", self.call_site.os)) or fields[at].many
        ]
        if not known:  # what is not known may be the program, and no value of an option
            known = [at for at, field in enumerate(fields) if at and field.value is None][:1]
        return [list(fields[at:]) for at in sorted({*starts[:MOST_FIRST], *known})[:MOST_INNER]]

    def _scripts(self, name: str, fields: Sequence[Field], seen: Seen, effect: Effect, site: Site) -> list[Field]:
        """Give the texts that a shell reads: arguments, or what it gets as its input."""
        rest = fields[1:]
        if name in words("shells"):
            return _of_shell(name, rest, seen, effect, site)
        if name == "eval":
            known = all(field.value is not None for field in rest)
            return [Field(" ".join(field.value or "" for field in rest) if known else None, "")]
        if name not in words("text_runners"):
            given = (
                ("--entrypoint", "-c", "--call", "--command") if wraps(name, [field.value for field in rest]) else ()
            )
            return [value for option, value in pairwise(rest) if option.value in given]
        found = [
            Field(_OPTION.sub("", field.value or ""), field.text) for field in rest if _TEXT.search(field.value or "")
        ]
        glued = _SPLIT if name == "env" else _GLUED
        if name not in words("joiners"):
            found += [Field(each[1], field.text) for field in rest if (each := glued.fullmatch(field.value or ""))]
        if name in words("joiners"):  # `parallel` is given what stands behind `:::`
            found.append(
                Field(" ".join(field.value or "" for field in rest if not (field.value or ":::").startswith(":::")))
            )
        effect.exact = effect.exact or bool(found)
        return found


def is_known(name: str) -> bool:
    """Return whether a word is the name of a program that some table has."""
    return (
        name in rows()
        or usual_name(name) != (name,)
        or name in rewriters()
        or bool(operand_kinds(name))
        or any(name in words(key) for key in ("wrappers", "shells", "text_runners", "interpreters", "network"))
    )


def _by_usual_name(name: str, fields: Sequence[Field]) -> list[Field]:
    """Give a command with the usual name of its program, in the folder that it is in; and what `coreutils` is told to be."""
    option, _, program = (fields[1].value or "").partition("=") if len(fields) > 1 else ("", "", "")
    if name == "coreutils" and program and option.startswith("--c"):
        return [Field(program, program), *fields[2:]]
    first, *rest = usual_name(name)
    if first == name:
        return list(fields)
    folder = (fields[0].value or "").rpartition("/")[0]
    return [Field(f"{folder}/{first}" if folder else first, first), *(Field(word, word) for word in rest), *fields[1:]]


def _is_unknown(command: Command) -> bool:
    """Return whether the program or the text that runs is unknown."""
    return command.opaque or any(layer.words[:1] == (None,) for layer in command.layers)


def _is_option(field: Field) -> bool:
    value = field.value or ""
    return value.startswith("-") or _ASSIGNED.match(value) is not None or (not value and not field.many)


def _of_shell(name: str, rest: Sequence[Field], seen: Seen, effect: Effect, site: Site) -> list[Field]:
    """Give the text that a shell is given: behind `-c`, or as its input; note the file that it runs."""
    operands = [field for field in rest if not (field.value or "").startswith(("-", "+"))]
    if any(_INPUT_FLAG.fullmatch(field.value or "") for field in rest):
        operands = operands[:0] if not any(_COMMAND_FLAG.fullmatch(field.value or "") for field in rest) else operands
    if name == "cmd":
        effect.hide("cmd reads commands in its own way")
        return [Field(re.sub(r"^(?:/\w ?)+", "", " ".join(field.value or "" for field in rest)))]
    flag = next((at for at, field in enumerate(rest) if _COMMAND_FLAG.fullmatch(field.value or "")), None)
    if flag is not None:
        if name in words("other_shells"):
            effect.hide(f"{name} reads commands in its own way")
        return [field for field in rest[flag + 1 :] if field in operands][:1] or [Field(None)]
    if operands and operands[0].value is not None and not is_stream(operands[0].value):
        effect.touch("read", operands[0], site)
        return []
    if [field.value for field in rest] != ["--version"]:
        effect.exact = True
        if not seen.given or seen.fed:
            effect.hide("it runs what its input says")
    return list(seen.given)


def _filler_of(fields: Sequence[Field]) -> Callable[[Field], Field]:
    """Say which words of a program get what `xargs -I` reads in the place of a mark."""
    words = [field.value or "" for field in fields]
    marks = [after if word == "-I" else word[2:] for word, after in pairwise(words) if word.startswith("-I")]
    marks = [*marks, "{}"]
    return lambda field: (
        Field(None, field.text) if any(mark and mark in (field.value or "") for mark in marks) else field
    )


def _remove(rest: Sequence[Field], effect: Effect, site: Site) -> None:
    """Take a program that is not known for one that removes, when it is told to go through folders."""
    if any(_RECURSIVE.fullmatch(field.value or "") for field in rest):
        for field in rest:
            if field.value is not None and not field.value.startswith("-"):
                effect.touch("remove", field, site)


def _move(fields: Sequence[Field], site: Site) -> Site:
    """Give the place of a program behind one that is told to go to a folder: there, or here."""
    for before, field in pairwise(fields):
        option, equals, glued = (field.value or "").partition("=")
        if before.value in _GOES:
            site = site.enter(field)
        elif equals and option in _GOES:
            site = site.enter(Field(glued))
    return site


def _target(fields: Sequence[Field], home: str) -> Field:
    operands = [field for field in fields[1:] if field.value == "-" or not (field.value or "").startswith("-")]
    return operands[0] if operands else Field(home if fields[0].value == "cd" else None, "")


def _layer(fields: Sequence[Field], *, transparent: bool = False) -> Layer:
    """Give a program with its arguments as others see it."""
    values = tuple(field.value for field in fields if field.text or field.value is not None or field.many)
    return Layer(words=values, text=" ".join(field.text for field in fields if field.text), transparent=transparent)


def _join(effect: Effect, other: Effect) -> None:
    effect.edits = effect.edits and other.edits
    effect.why = effect.why or other.why
    effect.network = effect.network or other.network
    effect.exact = effect.exact or other.exact
    effect.opaque = effect.opaque or other.opaque
    effect.given = effect.given or other.given
    effect.accesses += other.accesses
    effect.scripts += other.scripts
    effect.inner += other.inner


def _command(layers: tuple[Layer, ...], effect: Effect, steers: tuple[str, ...], *, given: bool) -> Command:
    return Command(
        layers=layers,
        does="edits" if effect.edits else "runs",
        why="" if effect.edits else effect.why,
        accesses=tuple(dict.fromkeys(effect.accesses)),
        steers=steers,
        opaque=effect.opaque,
        exact=effect.exact,
        given=given,
        network=effect.network,
    )
