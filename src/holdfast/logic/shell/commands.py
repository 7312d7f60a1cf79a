"""Simple commands: their words, the programs around them, and what the innermost one does."""

import re
from typing import Final

from holdfast.logic.acts import Layer
from holdfast.logic.shell.effects import Effect, base_name, is_system, steering
from holdfast.logic.shell.known import effect_of
from holdfast.logic.shell.layers import Source, Step, peel
from holdfast.logic.shell.scope import UNKNOWN, Field, Scope
from holdfast.logic.shell.syntax import Simple
from holdfast.logic.shell.walk import Around, Walker
from holdfast.logic.shell.witness import read_twice
from holdfast.logic.shell.words import Unreadable

DEEPEST: Final = 12
"""How many scripts may lie inside of each other before they count as hidden."""
MOST_LAYERS: Final = 64

_HERE: Final = frozenset(("command", "builtin", "time"))
"""Wrappers whose inner command still is the shell's own."""
MOST_PIECES: Final = 4_000
_PIECES: Final = re.compile(r"[;&|\n(){}`]|\$\(|[<>]\(")
_UNQUOTED: Final = re.compile(r"[\"'\\]")
_KEYWORDS: Final = frozenset(
    ("if", "then", "else", "elif", "do", "while", "until", "!", "time", "coproc", "exec", "for", "in")
)
_UNC: Final = re.compile(r"[\\/]{2}[^\\/]")


class Finder(Walker):
    """Finds every command of a script."""

    def simple(self, node: Simple, scope: Scope, around: Around, source: Source, timed: tuple[str, ...] = ()) -> None:
        """Take in a simple command."""
        fields = [field for word in node.words for field in self.word(word, scope, around)]
        values = [(each, self.assigned(each, scope, around)) for each in node.assignments]
        opened = Effect()
        self.redirected(node.redirects, opened, scope, around)
        for redirect in node.redirects:
            if redirect.operator in ("<<", "<<-", "<<<"):
                source = Source(
                    False, self.one(redirect.target, scope, Around()) if redirect.target.parts else Field("")
                )
            elif redirect.operator in ("<", "<>", "<&"):
                source = Source(True)
            if redirect.variable:
                self.doubts.append("a redirect sets a variable")
        if not fields:
            names = [each.name for each, value in values if self._set(each.name, value, scope)]
            if names:
                opened.run(f"it sets {names[0]} for later commands")
            elif any(access.kind == "write" for access in opened.accesses) and opened.does == "reads":
                opened.does = "edits"
            self.add(around.layers, opened, scope, around)
            return
        fields = [*(Field(word, word) for word in timed), *fields]
        reads_line = fields[0].value in ("read", "mapfile", "readarray")
        steers = [
            each.name
            for each in node.assignments
            if steering(each.name, exported=True) and not (reads_line and each.name == "IFS")
        ]
        self.command(fields, scope, around, source, opened, steers)

    def _set(self, name: str, value: Field | None, scope: Scope) -> bool:
        scope.assign(name, value)
        return self._steered(name, scope)

    def command(
        self, fields: list[Field], scope: Scope, around: Around, source: Source, opened: Effect, steers: list[str]
    ) -> None:
        """Take in a command's words: peel off what runs it, layer by layer, and say what the innermost one does."""
        layers, tame, found, inside = list(around.layers), True, Effect(), scope
        for _ in range(MOST_LAYERS):
            if not fields or fields[0].value is None or fields[0].glob or not fields[0].value:
                self._unknown(fields, layers, found, inside, around, opened, steers)
                return
            name = base_name(fields[0].value, scope.ground.os)
            step = None if fields[0].value in scope.functions else peel(name, fields, inside, source)
            own = is_system(fields[0].value)
            layers.append(layer(fields, transparent=step is not None and step.transparent and own))
            if step is None:
                break
            steers = [*steers, *step.steers]
            tame = tame and step.tame and own
            _take(found, step.effect)
            inside = _inside(inside, step, name)
            if step.effect.scripts or not step.inner:
                self._scripts(step, tuple(layers), inside, around, opened, steers, found, tame)
                return
            fields = step.inner
        else:
            found.hide("too many programs run each other")
            self._finish(tuple(layers), found, opened, scope, around, steers)
            return
        self._last(fields, tuple(layers), found, inside, around, opened, steers, tame)

    def _last(
        self,
        fields: list[Field],
        layers: tuple[Layer, ...],
        found: Effect,
        scope: Scope,
        around: Around,
        opened: Effect,
        steers: list[str],
        tame: bool,
    ) -> None:
        effect = effect_of(fields, scope)
        if not tame:
            effect.run("what runs it is not harmless")
        effect.exact = effect.exact or found.exact
        effect.network = effect.network or found.network
        effect.opaque = effect.opaque or found.opaque
        if found.does == "runs":
            effect.run(found.why)
        effect.accesses = [*found.accesses, *effect.accesses]
        if scope.ground.os == "windows" and any(_UNC.match(field.value or "") for field in fields):
            effect.run("a path of another machine")
            effect.network = True
        if effect.opaque:
            scope.forget()
        self._finish(layers, effect, opened, scope, around, steers)
        inner = Around(layers, (*around.steers, *steers), False, True, effect.network, around.depth + 1)
        for words in effect.inner:
            self.command(words, scope.copy(), inner, Source(True), Effect(), [])
        for script in effect.scripts:
            self.script(script, scope.copy(), inner)

    def _finish(
        self, layers: tuple[Layer, ...], effect: Effect, opened: Effect, scope: Scope, around: Around, steers: list[str]
    ) -> None:
        _take(effect, opened)
        self.add(layers, effect, scope, around, tuple(steers))

    def _unknown(
        self,
        fields: list[Field],
        layers: list[Layer],
        found: Effect,
        scope: Scope,
        around: Around,
        opened: Effect,
        steers: list[str],
    ) -> None:
        """Take in a command whose program is not known; what follows the unknown word may turn out to be it."""
        found.hide("which program runs is not known")
        scope.forget()
        self._finish((*layers, layer(fields)), found, opened, scope, around, steers)
        if fields and fields[0].many and len(fields) > 1:
            self.command(fields[1:], scope.copy(), around, Source(True), Effect(), steers)

    def _scripts(
        self,
        step: Step,
        layers: tuple[Layer, ...],
        scope: Scope,
        around: Around,
        opened: Effect,
        steers: list[str],
        found: Effect,
        tame: bool,
    ) -> None:
        """Take in the texts that a program gives to a shell."""
        if any(script.value is None for script in step.effect.scripts):
            found.hide("the text that it runs is not known")
        inner = Around(
            layers,
            (*around.steers, *steers),
            around.tame and tame and not found.opaque,
            around.exact or found.exact,
            around.network or found.network,
            around.depth + 1,
        )
        before = len(self.commands)
        where = scope if step.here else fresh(scope)
        for script in step.effect.scripts:
            self.script(script, where, inner)
        if found.opaque or len(self.commands) == before or opened.accesses or found.accesses:
            self._finish(layers, found, opened, scope, around, steers)
        if found.opaque and step.here:
            scope.forget()

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
        scope = scope.copy()
        scope.forget()
        for piece in _PIECES.split(text)[:MOST_PIECES]:
            words = [word for word in _UNQUOTED.sub("", piece).split() if word]
            while words and words[0] in _KEYWORDS:
                words.pop(0)
            if words:
                effect = Effect()
                effect.hide("it stands in a text that cannot be read")
                fields = [Field(word, word) for word in words]
                self.command(fields, scope.copy(), around, Source(True), effect, [])


def layer(fields: list[Field], *, transparent: bool = False) -> Layer:
    """Give a program with its arguments as others see it."""
    return Layer(
        words=tuple(field.value for field in fields if field.text or field.value is not None),
        text=" ".join(field.text for field in fields if field.text),
        transparent=transparent,
    )


def fresh(scope: Scope) -> Scope:
    """Give the scope of a new shell: the folder is the same, variables are not."""
    other = Scope(scope.ground)
    other.folders = other.failed = scope.folders
    other.steers = scope.steers
    return other


def _inside(scope: Scope, step: Step, name: str) -> Scope:
    if step.here or (name in _HERE and not step.moved):
        return scope
    inside = scope.copy()
    if step.moved:
        inside.folders = inside.failed = UNKNOWN
    return inside


def _take(effect: Effect, other: Effect) -> None:
    """Add what another effect brings."""
    effect.accesses += other.accesses
    effect.network = effect.network or other.network
    effect.exact = effect.exact or other.exact
    effect.opaque = effect.opaque or other.opaque
    if other.does == "runs":
        effect.run(other.why)
