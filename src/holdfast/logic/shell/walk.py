"""Walking a script's tree in the order that a shell would run it, noting every command and the folder that each is in."""

import re
from typing import Final

import msgspec

from holdfast.logic.acts import AccessKind, Command, Layer
from holdfast.logic.shell.about_builtins import tested
from holdfast.logic.shell.arithmetic import counted, is_risky, is_risky_element, is_risky_subscript
from holdfast.logic.shell.effects import Effect, shows_secret, steering, touched
from holdfast.logic.shell.fields import expand, expand_one, said
from holdfast.logic.shell.scope import Field, Scope, is_number
from holdfast.logic.shell.steps import Source
from holdfast.logic.shell.syntax import (
    AndOr,
    Arithmetic,
    Array,
    Assignment,
    Choose,
    Coprocess,
    Count,
    Function,
    Group,
    Literal,
    Loop,
    Node,
    Parameter,
    Part,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Substitution,
    Test,
    Word,
)

DEEPEST: Final = 60
"""How deep the walk goes, scripts inside of scripts included: Python's stack is finite."""
MOST_ROUNDS: Final = 16
"""How many values of a loop's variable are gone through one by one."""

_REDIRECTS: Final[dict[str, tuple[AccessKind, ...]]] = {
    "<": ("read",),
    ">": ("write",),
    ">>": ("write",),
    ">|": ("write",),
    "&>": ("write",),
    "&>>": ("write",),
    ">&": ("write",),
    "<&": ("read",),
    "<>": ("read", "write"),
}
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?")
_COMPARISONS: Final = frozenset(("-eq", "-ne", "-lt", "-gt", "-le", "-ge"))


class Around(msgspec.Struct, frozen=True):
    """What lies around a script: the programs that run it."""

    layers: tuple[Layer, ...] = ()
    steers: tuple[str, ...] = ()
    tame: bool = True
    """Whether what is inside stays as harmless as it is."""
    exact: bool = False
    network: bool = False
    depth: int = 0


class Walker:
    """One walk; `commands.Finder` adds what a simple command does."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.doubts: list[str] = []
        self.level = 0
        self.rounds = 400
        """How many more rounds of loops may be gone through one by one."""

    def simple(self, node: Simple, scope: Scope, around: Around, source: Source, timed: tuple[str, ...] = ()) -> None:
        """Take in a simple command."""
        raise NotImplementedError

    def walk(self, node: Node, scope: Scope, around: Around, source: Source = Source()) -> None:  # noqa: B008  # it is frozen
        """Take in a part of the tree."""
        if self.level > DEEPEST:
            self.doubts.append("commands are nested too deep")
            return
        self.level += 1
        self._visit(node, scope, around, source)
        self.level -= 1

    def _visit(self, node: Node, scope: Scope, around: Around, source: Source) -> None:
        match node:
            case Simple():
                self.simple(node, scope, around, source)
            case Sequence(items):
                for each, background in items:
                    scope.settle()
                    self.walk(each, scope.fork() if background else scope, around, source)
            case AndOr():
                self._and_or(node, scope, around, source)
            case Pipeline():
                self._pipeline(node, scope, around, source)
            case Group(body, own_shell, redirects):
                self._around(redirects, scope, around)
                self.walk(body, scope.fork() if own_shell else scope, around, source)
            case Choose():
                self._choose(node, scope, around, source)
            case Loop():
                self._loop(node, scope, around, source)
            case Test():
                self._test(node, scope, around)
            case Count(value, redirects):
                self._around(redirects, scope, around)
                self.part(value, scope, around)
            case Function(name, body):
                inside = scope.fork()
                inside.forget()
                inside.folders, inside.failed = (
                    scope.folders,
                    scope.failed,
                )  # each call is gone through where it happens
                self.walk(body, inside, around)
                scope.functions = {**scope.functions, **dict.fromkeys(inside.functions), name: body}
                scope.steers = tuple(dict.fromkeys((*scope.steers, *inside.steers)))
                scope.exported |= inside.exported
                scope.exports_all |= inside.exports_all
                scope.counted |= inside.counted
            case Coprocess(body):
                self.walk(body, scope.fork(), around)

    def _and_or(self, node: AndOr, scope: Scope, around: Around, source: Source) -> None:
        self.walk(node.first, scope, around, source)
        good, bad = scope.copy(), scope.copy()
        bad.folders = bad.failed = scope.failed
        good.failed = good.folders
        for operator, each in node.rest:
            taken, other = (good, bad) if operator == "&&" else (bad, good)
            self.walk(each, taken, around, source)
            failed = taken.copy()
            failed.folders = failed.failed
            taken.failed = taken.folders
            if operator == "&&":
                other.merge(failed)
            else:
                other.merge(taken)
                good, bad = other, failed
        scope.values, scope.steers = good.values, good.steers
        scope.merge(good)
        scope.merge(bad)
        scope.folders, scope.failed = good.folders, bad.folders

    def _pipeline(self, node: Pipeline, scope: Scope, around: Around, source: Source) -> None:
        if len(node.elements) == 1:
            only = node.elements[0]
            if isinstance(only, Simple):
                self.simple(only, scope, around, source, node.timed)
            else:
                self.walk(only, scope, around, source)
        for at, each in enumerate(node.elements if len(node.elements) > 1 else ()):
            given = Source(True, said(node.elements[at - 1])) if at else source
            inside = scope.fork()
            if isinstance(each, Simple):
                self.simple(each, inside, around, given, node.timed if not at else ())
            else:
                self.walk(each, inside, around, given)
        if node.negated:
            scope.folders, scope.failed = scope.failed, scope.folders

    def _choose(self, node: Choose, scope: Scope, around: Around, source: Source) -> None:
        self._around(node.redirects, scope, around)
        for word in node.words:
            self.word(word, scope, around)
        ways = list[Scope]()
        for at in range(max(len(node.conditions), len(node.bodies))):
            if at < len(node.conditions):
                self.walk(node.conditions[at], scope, around, source)
                scope.settle()
            if at < len(node.bodies):
                way = scope.copy()
                self.walk(node.bodies[at], way, around, source)
                way.settle()
                ways.append(way)
        for way in ways:
            scope.merge(way)

    def _loop(self, node: Loop, scope: Scope, around: Around, source: Source) -> None:
        self._around(node.redirects, scope, around)
        values = [field for word in node.words or () for field in self.word(word, scope, around)]
        if shows_secret(values, scope):
            scope.secrets |= {node.variable}
        known = node.kind == "for" and 0 < len(values) <= MOST_ROUNDS and all(each.value is not None for each in values)
        before, first, noted, found = scope.copy(), len(self.commands), dict(scope.changes), dict[str, bool]()
        scope.changes.clear()
        while True:
            self.rounds -= len(values) if known else 1
            self._round(node, values if known and self.rounds >= 0 else [Field(None)], scope, around, source)
            # What the body sets, it finds the next time: it is gone through again until nothing new is set.
            again = {name: number and _was_number(name, before) for name, number in scope.changes.items()}
            again.pop(node.variable, None)
            if all(found.get(name) == number for name, number in again.items()):
                break
            if self.rounds < 0:
                self.doubts.append("loops are nested too deep")
                break
            found.update(again)
            scope.blur(found, before)
        self.commands[first:] = dict.fromkeys(self.commands[first:])
        scope.since(noted)
        scope.merge(before)

    def _round(self, node: Loop, values: list[Field], scope: Scope, around: Around, source: Source) -> None:
        """Take in a loop's condition and its body, once for each value."""
        if node.counts is not None:
            self.part(node.counts, scope, around)
        if node.condition is not None:
            self.walk(node.condition, scope, around, source)
            scope.settle()
        for field in values:
            if node.variable:
                scope.assign(node.variable, field)
                self.steered(node.variable, scope)
            self.walk(node.body, scope, around, source)
            scope.settle()

    def steered(self, name: str, scope: Scope) -> bool:
        """Note that a variable was set; say whether that may change what later commands do."""
        exported = scope.exports_all or name in scope.exported
        if not steering(name, exported=exported):
            return False
        scope.steers = tuple(dict.fromkeys((*scope.steers, name)))
        return True

    def _test(self, node: Test, scope: Scope, around: Around) -> None:
        self._around(node.redirects, scope, around)
        fields = [self.one(word, scope, around) for word in node.words]
        effect = Effect()
        tested(fields, effect, scope)
        if any(field.value == "=~" for field in fields):
            scope.assign("BASH_REMATCH", None)
        for at, field in enumerate(fields):
            if field.value in _COMPARISONS:
                sides = (*node.words[max(at - 1, 0) : at], *node.words[at + 1 : at + 2])
                if any(self._evaluates(side, scope) for side in sides):
                    effect.hide("a comparison of numbers evaluates text")
        words = ("[[", *(field.value for field in fields), "]]")
        text = " ".join(("[[", *(word.text for word in node.words), "]]"))
        self.add((*around.layers, Layer(words=words, text=text)), effect, scope, around)

    @staticmethod
    def _evaluates(word: Word, scope: Scope) -> bool:
        if word.literal is not None:
            return (not is_number(Field(word.literal)) and is_risky(word.literal, (), scope)) or "[" in word.literal
        return is_risky("", word.parts, scope)

    def add(
        self,
        layers: tuple[Layer, ...],
        effect: Effect,
        scope: Scope,
        around: Around,
        steers: tuple[str, ...] = (),
    ) -> None:
        """Note a command."""
        if not around.tame:
            effect.run("what runs it is not harmless")
        self.commands.append(
            Command(
                layers=layers,
                does=effect.does,
                why=effect.why if effect.does == "runs" else "",
                accesses=tuple(effect.accesses),
                steers=tuple(dict.fromkeys((*around.steers, *scope.steers, *steers)))
                if around.steers or scope.steers or steers
                else (),
                opaque=effect.opaque,
                exact=effect.exact or around.exact,
                network=effect.network or around.network,
            )
        )

    def _around(self, redirects: tuple[Redirect, ...], scope: Scope, around: Around) -> None:
        """Take in the redirects of a compound command, which the shell opens by itself."""
        if redirects:
            effect = Effect()
            self.redirected(redirects, effect, scope, around)
            if any(access.kind == "write" for access in effect.accesses) and effect.does == "reads":
                effect.does = "edits"
            self.add(around.layers, effect, scope, around)

    def redirected(self, redirects: tuple[Redirect, ...], effect: Effect, scope: Scope, around: Around) -> None:
        """Take in redirects: the files that they open, the commands inside of their words."""
        for redirect in redirects:
            kinds = _REDIRECTS.get(redirect.operator)
            if kinds is None:
                if shows_secret([self.one(redirect.target, scope, around)], scope):
                    effect.run("it shows a secret")
                continue
            fields = self.word(redirect.target, scope, around)
            field = fields[0] if len(fields) == 1 else Field(None, redirect.target.text)
            value = field.value
            if value == "-" or (redirect.operator in (">&", "<&") and _DESCRIPTOR.fullmatch(value or "")):
                continue
            if value is not None and value.startswith(("/dev/tcp/", "/dev/udp/")):
                effect.network = True
                effect.run("it talks to another machine")
            for kind in kinds:
                effect.accesses += touched(kind, field, scope, redirect=True)

    def word(self, word: Word, scope: Scope, around: Around) -> list[Field]:
        """Expand a word, and take in the commands inside of it."""
        if len(word.parts) == 1 and isinstance(word.parts[0], Literal):
            return expand(word, scope)
        for part in word.parts:
            if not isinstance(part, Literal):
                self.part(part, scope, around)
        return expand(word, scope)

    def one(self, word: Word, scope: Scope, around: Around) -> Field:
        """Expand a word that is not split, and take in the commands inside of it."""
        for part in word.parts:
            if not isinstance(part, Literal):
                self.part(part, scope, around)
        return expand_one(word, scope)

    def part(self, part: Part, scope: Scope, around: Around) -> None:
        """Take in the commands inside of a part of a word."""
        match part:
            case Substitution(script):
                self.walk(script, scope.fork(), around)
            case Parameter(name, parts=parts):
                for each in parts:
                    self.part(each, scope, around)
                if part.sets:
                    scope.assign(name, None)
                    self.steered(name, scope)
                if part.counts and is_risky(part.counts, parts, scope):
                    self.doubts.append("a subscript or an offset may run commands")
            case Arithmetic(text, parts):
                for each in parts:
                    self.part(each, scope, around)
                if is_risky(text, parts, scope):
                    self.doubts.append("arithmetic may run commands")
                for name in counted(text):
                    scope.assign(name, Field(None, number=True))
                    self.steered(name, scope)
            case Array(words):
                for word in words:
                    self.word(word, scope, around)
                    if is_risky_element(word, scope):
                        self.doubts.append("a subscript may run commands")
            case Literal():
                pass

    def assigned(self, assignment: Assignment, scope: Scope, around: Around) -> Field | None:
        """Take in the value of an assignment."""
        field = self.one(assignment.value, scope, around)
        if assignment.subscript and is_risky_subscript(assignment.subscript[1:-1], scope):
            self.doubts.append("a subscript may run commands")
        return field if assignment.plain else None


def _was_number(name: str, before: Scope) -> bool:
    return name not in before.values or is_number(before.values[name])
