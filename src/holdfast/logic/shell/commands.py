"""Simple commands: their words, the programs around them, and what the innermost one does."""

import re
from typing import Final

import msgspec

from holdfast.logic.acts import Layer
from holdfast.logic.shell.effects import (
    Effect,
    base_name,
    is_command_name,
    is_system,
    mentioned,
    quiets,
    shows_secret,
    steering,
)
from holdfast.logic.shell.fields import expand_one
from holdfast.logic.shell.known import effect_of
from holdfast.logic.shell.layers import peel
from holdfast.logic.shell.scope import Field, Scope, is_number
from holdfast.logic.shell.steps import Source, Step
from holdfast.logic.shell.syntax import Simple
from holdfast.logic.shell.walk import Around, Walker
from holdfast.logic.shell.witness import read_twice
from holdfast.logic.shell.words import Unreadable

DEEPEST: Final = 12
"""How many scripts may lie inside of each other before they count as hidden."""
MOST_LAYERS: Final = 32
MOST_GUESSES: Final = 40
"""How often a program is looked for in arguments that are not known to hold one."""
MOST_PIECES: Final = 4_000
"""How much of a text that cannot be read is looked through."""
MOST_WORDS: Final = 2_000
"""How many words a command has before one that becomes several counts as unknown."""

_PIECES: Final = re.compile(r"[;&|\n(){}`]|\$\(|[<>]\(")
_UNQUOTED: Final = re.compile(r"[\"'\\]")
_KEYWORDS: Final = frozenset(
    ("if", "then", "else", "elif", "do", "while", "until", "!", "time", "coproc", "exec", "for", "in")
)
_HERE: Final = frozenset(("command", "builtin", "time"))
"""Wrappers whose inner command still is the shell's own."""
_UNC: Final = re.compile(r"[\\/]{2}[^\\/]")


class Task(msgspec.Struct):
    """One command while its layers are peeled off."""

    scope: Scope
    around: Around
    source: Source = Source()
    opened: Effect = msgspec.field(default_factory=Effect)
    """What the shell does before it starts the command: redirects."""
    steers: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    found: Effect = msgspec.field(default_factory=Effect)
    """What the layers do so far."""
    tame: bool = True
    """Whether the layers leave what they run as harmless as it is."""

    def within(self, *, tame: bool = False, exact: bool = True) -> Around:
        """Give what lies around a command that this one runs."""
        return Around(
            layers=self.layers,
            steers=(*self.around.steers, *self.steers),
            tame=self.around.tame and tame,
            exact=self.around.exact or exact,
            network=self.around.network or self.found.network,
            depth=self.around.depth + 1,
        )


class Finder(Walker):
    """Finds every command of a script."""

    def __init__(self) -> None:
        super().__init__()
        self.guesses = MOST_GUESSES
        self.calling: list[str] = []
        """Functions whose bodies are being gone through."""

    def simple(self, node: Simple, scope: Scope, around: Around, source: Source, timed: tuple[str, ...] = ()) -> None:
        """Take in a simple command."""
        fields = list[Field]()
        for word in node.words:
            if word.tame:
                fields.append(Field(word.text, word.text))
            else:
                found = self.word(word, scope, around)
                fields += found if len(found) < 2 or len(fields) < MOST_WORDS else [Field(None, word.text, many=True)]
        values = [(each.name, self.assigned(each, scope, around)) for each in node.assignments]
        scope.secrets |= {each.name for each in node.assignments if shows_secret([Field(None, each.value.text)], scope)}
        task = Task(scope, around, source)
        self._commands_in(values, task)
        if node.redirects:
            self._redirect(node, task)
        if not fields:
            self._assign(values, task)
            return
        if timed:
            fields = [*(Field(word, word) for word in timed), *fields]
        if values and fields[0].value in scope.functions:
            for name, _ in values:
                scope.assign(name, None)
        if values:
            reads_line = fields[0].value in ("read", "mapfile", "readarray")
            names = [name for name, value in values if steering(name, exported=True) and not quiets(name, value)]
            task.steers = tuple(name for name in names if not (reads_line and name == "IFS"))
        self.command(fields, task)

    def _commands_in(self, values: list[tuple[str, Field | None]], task: Task) -> None:
        """Take in the commands that variables like `GIT_PAGER` hold."""
        for name, value in values:
            if value is not None and value.value and is_command_name(name) and not quiets(name, value):
                inner = msgspec.structs.replace(task.around, tame=False, depth=task.around.depth + 1)
                self.script(value, task.scope.fork(), inner)

    def _redirect(self, node: Simple, task: Task) -> None:
        self.redirected(node.redirects, task.opened, task.scope, task.around)
        for redirect in node.redirects:
            if redirect.operator in ("<<", "<<-", "<<<"):
                task.source = Source(False, expand_one(redirect.target, task.scope))
            elif redirect.operator in ("<", "<>", "<&"):
                task.source = Source(True)
            if redirect.variable:
                self.doubts.append("a redirect sets a variable")

    def _assign(self, values: list[tuple[str, Field | None]], task: Task) -> None:
        """Take in assignments and redirects without a command: they hold for what follows."""
        for name, value in values:
            if name in task.scope.counted and not is_number(value):
                self.doubts.append("arithmetic may run commands")
            task.scope.assign(name, value)
            if not quiets(name, value) and self.steered(name, task.scope):
                task.opened.run(f"it sets {name} for later commands")
        if any(access.kind == "write" for access in task.opened.accesses) and task.opened.does == "reads":
            task.opened.does = "edits"
        self.add(task.around.layers, task.opened, task.scope, task.around)

    def command(self, fields: list[Field], task: Task) -> None:
        """Take in a command's words: peel off what runs it, layer by layer, and say what the innermost one does."""
        task.layers = task.around.layers
        for _ in range(MOST_LAYERS):
            if not fields or not fields[0].value or fields[0].glob:
                self._unknown(fields, task)
                return
            head = fields[0].value
            name = base_name(head, task.scope.ground.os)
            step = None if head in task.scope.functions else peel(name, fields, task.scope, task.source)
            own = is_system(head)
            task.layers = (*task.layers, layer(fields, transparent=step is not None and step.transparent and own))
            if step is None and self._calls(head, task):
                self._call(head, fields, task)
                return
            if step is None:
                self._last(fields, task)
                return
            self._into(step, name, own, task)
            if step.effect.scripts or not step.inner:
                self._scripts(step, task)
                return
            fields = step.inner[1:] if step.inner[0].value == "--" else step.inner
        task.found.hide("too many programs run each other")
        self._finish(task.found, task)

    def _calls(self, head: str, task: Task) -> bool:
        """Whether it calls a function whose body is certain; one behind another program is none."""
        body = task.scope.functions.get(head)
        alone = len(task.layers) == len(task.around.layers) + 1 and head not in self.calling
        return body is not None and alone and self.rounds > 0 and task.around.depth < DEEPEST

    def _call(self, name: str, fields: list[Field], task: Task) -> None:
        """Go through a function's body as it runs now; what it sets may have been its own."""
        scope, effect, body = task.scope, Effect(), task.scope.functions[name]
        if shows_secret(fields[1:], scope):
            effect.run("it shows a secret")
        self._finish(effect, task)
        noted = dict(scope.changes)
        scope.changes.clear()
        self.rounds -= 1
        self.calling.append(name)
        steers = (*task.around.steers, *task.steers)
        inner = msgspec.structs.replace(task.around, steers=steers, depth=task.around.depth + 1)
        if body is not None:
            self.walk(body, scope, inner, task.source)
        self.calling.pop()
        for each in scope.since(noted):
            if each != "/":
                scope.assign(each, None)
        scope.settle()

    def _into(self, step: Step, name: str, own: bool, task: Task) -> None:
        """Go one layer inward."""
        task.steers = (*task.steers, *step.steers)
        task.tame = task.tame and step.tame and own
        _take(task.found, step.effect)
        if not (step.here or (name in _HERE and not step.folders)):
            task.scope = task.scope.copy()
        if step.folders:
            task.scope.folders = task.scope.failed = step.folders
        for words in step.also:
            self.guesses -= 1 + len(words) // 50
            if self.guesses > 0:
                self.command(words, Task(task.scope.copy(), task.within(), Source(True)))

    def _last(self, fields: list[Field], task: Task) -> None:
        """Say what the innermost program does, and take in what it runs in turn."""
        scope, source = task.scope, task.source
        effect = effect_of(fields, scope)
        if effect.from_input and (source.piped or (source.text is not None and source.text.value is None)):
            effect.hide("its program comes from elsewhere")
        elif effect.from_input and source.text is not None:
            mentioned(source.text.value or "", effect, scope)
        if source.text is not None and effect.does == "reads" and shows_secret([source.text], scope):
            effect.run("it shows a secret")
        if not task.tame:
            effect.run("what runs it is not harmless")
        if scope.ground.os == "windows" and any(_UNC.match(field.value or "") for field in fields):
            effect.run("a path of another machine")
            effect.network = True
        _take(effect, task.found)
        if effect.opaque or fields[0].value in scope.functions:
            scope.forget()
        self._finish(effect, task)
        task.found = effect
        for words in effect.inner:  # the command around them is judged by itself: they stay as harmless as they are
            self.command(words, Task(scope.copy(), task.within(tame=task.tame), Source(True)))
        for script in effect.scripts:
            self.script(script, scope.copy(), task.within())

    def _finish(self, effect: Effect, task: Task) -> None:
        _take(effect, task.opened)
        self.add(task.layers, effect, task.scope, task.around, task.steers)

    def _unknown(self, fields: list[Field], task: Task) -> None:
        """Take in a command whose program is not known; what follows the unknown word may turn out to be it."""
        task.found.hide("which program runs is not known")
        task.layers = (*task.layers, layer(fields))
        task.scope.forget()
        self._finish(task.found, task)
        self.guesses -= 1
        if fields and fields[0].hint and "$__" not in fields[0].hint and self.guesses > 0:
            words = [Field(word, word) for word in fields[0].hint.split()]
            self.command(
                [*words, *fields[1:]], Task(task.scope.copy(), task.within(), Source(True), steers=task.steers)
            )
        elif fields and fields[0].many and len(fields) > 1:
            self.command(fields[1:], Task(task.scope.copy(), task.around, Source(True), steers=task.steers))

    def _scripts(self, step: Step, task: Task) -> None:
        """Take in the texts that a program gives to a shell."""
        if any(script.value is None for script in step.effect.scripts):
            task.found.hide("the text that it runs is not known")
        inner = task.within(tame=task.tame and not task.found.opaque, exact=task.found.exact)
        before = len(self.commands)
        where = task.scope if step.here else fresh(task.scope)
        for script in step.effect.scripts:
            self.script(script, where, inner)
        if task.found.opaque or len(self.commands) == before or task.opened.accesses or task.found.accesses:
            self._finish(task.found, task)
        if task.found.opaque and step.here:
            task.scope.forget()

    def script(self, script: Field, scope: Scope, around: Around) -> None:
        """Take in the text of a script that a program runs."""
        text = script.value if script.value is not None else script.hint
        if around.depth > DEEPEST:
            self.doubts.append("scripts are inside of each other too deep")
            return
        try:
            tree, doubts = read_twice(text, around.depth)
        except Unreadable as problem:
            self.doubts.append(f"the script inside cannot be read: {problem}")
            self.coarse(text, scope, around)
            return
        self.doubts += doubts
        self.walk(tree, scope, around)

    def coarse(self, text: str, scope: Scope, around: Around) -> None:
        """Take in what looks like commands in a text that cannot be read, so that what is denied is found in it too."""
        unclear = scope.copy()
        unclear.forget()
        pieces = dict.fromkeys(_UNQUOTED.sub("", piece).strip() for piece in _PIECES.split(text))
        for piece in list(pieces)[:MOST_PIECES]:
            words = piece.split()
            while words and words[0] in _KEYWORDS:
                words.pop(0)
            if words:
                task = Task(unclear.copy(), around, Source(True))
                task.opened.hide("it stands in a text that cannot be read")
                self.command([Field(word, word) for word in words], task)


def layer(fields: list[Field], *, transparent: bool = False) -> Layer:
    """Give a program with its arguments as others see it."""
    words = tuple([field.value for field in fields if field.text or field.value is not None])
    text = " ".join([field.text for field in fields if field.text])
    return Layer(words=words, text=text, transparent=transparent)


def fresh(scope: Scope) -> Scope:
    """Give the scope of a new shell: the folder is the same, variables are not."""
    other = Scope(scope.ground)
    other.folders = other.failed = scope.folders
    other.steers = scope.steers
    return other


def _take(effect: Effect, other: Effect) -> None:
    """Add what another effect brings."""
    if other.accesses:
        effect.accesses += other.accesses
    effect.network = effect.network or other.network
    effect.exact = effect.exact or other.exact
    effect.opaque = effect.opaque or other.opaque
    if other.does == "runs":
        effect.run(other.why)
