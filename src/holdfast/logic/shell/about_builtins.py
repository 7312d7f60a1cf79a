"""What the shell's own commands do: tests, variables, folders, options."""

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.arithmetic import counted, is_risky
from holdfast.logic.shell.effects import Effect, is_command_name, names_secret, quiets, steering, touched
from holdfast.logic.shell.options import Options, may_be_option, take_apart
from holdfast.logic.shell.scope import UNKNOWN, Field, Scope, is_number, join
from holdfast.logic.shell.table import Program

_FILE_TEST: Final = re.compile(r"-[abcdefghkprsuwxLOGNSh]")
_FILE_COMPARISON: Final = frozenset(("-nt", "-ot", "-ef"))
_SUBSCRIPT: Final = re.compile(r"\[|\$\(|`")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COUNT: Final = re.compile(r"[A-Za-z_]\w*(?:[-+*/%]?=-?[0-9]+|\+\+|--)|(?:\+\+|--)[A-Za-z_]\w*")
_SET_FLAGS: Final = re.compile(r"[-+][euxvfhbmET]*o?")
_SET_NAMES: Final = frozenset(
    ("errexit", "nounset", "pipefail", "xtrace", "verbose", "noglob", "errtrace", "functrace", "monitor", "notify")
)
_SHOPT_NAMES: Final = frozenset(("nullglob", "globstar", "nocasematch", "failglob", "inherit_errexit"))
"""Not `dotglob`, `nocaseglob` and `extglob`: with them, wildcards stand for other names than those that were looked up."""
_VARIABLE_OPTIONS: Final = {
    "read": Options("-a:name -d: -i: -n: -N: -p: -t: -u: -r -s -e -E"),
    "mapfile": Options("-C!: -c: -d: -n: -O: -s: -t -u:"),
    "wait": Options("-p:name -n -f"),
    "unset": Options("-f -v -n"),
    "getopts": Options(""),
    "let": Options(""),
}
_UNNAMED: Final = {"read": "REPLY", "mapfile": "MAPFILE", "readarray": "MAPFILE"}
_DECLARE: Final = Options("-a -A -f! -F! -g -i -I -l -n! -p! -r -t! -u -x")


def about_test(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what `test` and `[` do: look at files, and evaluate a subscript in `-v`."""
    effect = Effect()
    words = fields[1:-1] if (fields[0].value or "").endswith("[") else fields[1:]
    if any(field.many and not field.number for field in words) or (len(words) == 2 and words[0].value is None):
        effect.run("a word may become a test that evaluates text")
        effect.opaque = any(_SUBSCRIPT.search(field.text) for field in words)
    tested(words, effect, scope)
    return effect


def tested(words: Sequence[Field], effect: Effect, scope: Scope) -> None:
    """Take in the files and the names that the words of a test look at."""
    for at, field in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else None
        if field.value in ("-v", "-R") and following is not None and not _plain(following):
            effect.hide("a subscript is evaluated")
        elif field.value in _FILE_COMPARISON:
            for side in (words[at - 1] if at else None, following):
                if side is not None:
                    effect.touch("list", side, scope)
        elif field.value is not None and _FILE_TEST.fullmatch(field.value) and following is not None:
            effect.touch("list", following, scope)


def _plain(field: Field) -> bool:
    return field.value is not None and not field.glob and "[" not in field.value


def about_printf(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what `printf` does: print, or assign with `-v`."""
    effect = Effect()
    if len(fields) > 1 and may_be_option(fields[1]):
        effect.run(f"{fields[1].text} may become an option")
    first = fields[1].value if len(fields) > 1 else None
    if first is not None and first.startswith("-v"):
        name = Field(first[2:]) if len(first) > 2 else (fields[2] if len(fields) > 2 else Field(None))
        _assigned(name, effect, scope)
    return effect


def about_printenv(fields: Sequence[Field], _program: Program, _scope: Scope) -> Effect:
    """Say what `printenv` does: show variables, all of them when it names none."""
    effect = Effect()
    names = [field.value or "" for field in fields[1:]]
    if not names or not all(_NAME.fullmatch(name) and not names_secret(name) for name in names):
        effect.run("it may show secrets")
    return effect


def about_variables(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what commands do that set variables."""
    name = fields[0].value or ""
    if name in ("declare", "typeset", "local", "export", "readonly"):
        return _declared(name, fields, scope)
    effect = Effect()
    options = _VARIABLE_OPTIONS["mapfile" if name == "readarray" else name]
    line = take_apart(fields[1:], options)
    if line.unknown or line.unsure or line.has("-C"):
        effect.hide("its options are not known")
    operands = line.operands
    if name in _UNNAMED and not operands:
        scope.assign(_UNNAMED[name], None)
    if name == "getopts":
        operands = operands[1:2]
    if name == "wait":
        operands = []
    if name == "let":
        for field in operands:
            if field.value is None or not _COUNT.fullmatch(field.value) or is_risky(field.value, (), scope):
                effect.hide("arithmetic may run commands")
            for variable in counted(field.value or ""):
                _assigned(Field(variable), effect, scope)
                scope.assign(variable, Field(None, number=True))
        return effect
    for field in (*operands, *line.values("-a", "-p" if name == "wait" else "-a")):
        if name == "unset" and field.value is not None and field.value in scope.functions:
            scope.functions = {**scope.functions, field.value: None}
        if not (name == "unset" and line.has("-f")):
            _assigned(field, effect, scope)
    return effect


def _assigned(field: Field, effect: Effect, scope: Scope) -> None:
    if field.value is None or field.glob or not _NAME.fullmatch(field.value):
        effect.hide("a subscript is evaluated")
        return
    scope.assign(field.value, None)
    if steering(field.value, exported=False):
        scope.steers = (*scope.steers, field.value)
        effect.run(f"it sets {field.value}")


def _declared(name: str, fields: Sequence[Field], scope: Scope) -> Effect:
    """Take in `declare`, `export` and their kin."""
    effect = Effect()
    line = take_apart(_minus(fields[1:]), _DECLARE)
    exported = name == "export" or line.has("-x")
    if not line.operands:
        effect.run("it shows every variable, secrets too")
    if line.unknown or line.unsure or line.has("-n", "-f", "-F", "-p", "-t"):
        effect.run("its options are not known to be harmless")
    if line.has("-n"):
        effect.hide("a name for another variable")
    counts = line.has("-i")
    for field in line.operands:
        if counts:
            _counted(field, effect, scope)
        _declare(
            field, effect, scope, exported=exported, odd=line.has("-i", "-l", "-u", "-a", "-A") or name == "readonly"
        )
    return effect


def _counted(field: Field, effect: Effect, scope: Scope) -> None:
    """Take in a variable that holds a number: its value is evaluated."""
    name, equals, value = (field.value or "").partition("=")
    scope.counted |= {name}
    if field.value is None or (equals and not is_number(Field(value))):
        effect.hide("arithmetic may run commands")


def _minus(fields: Sequence[Field]) -> list[Field]:
    """Write `+x` as an option too."""
    return [
        Field("-" + field.value[1:], field.text) if (field.value or "").startswith("+") and field.value else field
        for field in fields
    ]


def _declare(field: Field, effect: Effect, scope: Scope, *, exported: bool, odd: bool) -> None:
    known = field.value if field.value is not None else field.start
    variable, equals, value = known.partition("=")
    if not _NAME.fullmatch(variable) or field.glob or (field.value is None and not equals):
        effect.hide("a subscript is evaluated")
        return
    if odd:
        scope.unclear |= {variable}
    if equals:
        scope.assign(variable, Field(value) if field.value is not None else None)
        if is_command_name(variable) and value and not quiets(variable, Field(value)):
            effect.scripts.append(Field(value, field.text))
    if exported:
        scope.exported |= {variable}
    if (not equals and variable not in scope.values) or (
        equals and field.value is not None and quiets(variable, Field(value))
    ):
        return
    if steering(variable, exported=exported):
        scope.steers = (*scope.steers, variable)
        effect.run(f"it sets {variable} for later commands")


def about_shell_options(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what `set` and `shopt` do: some options change how everything after them is read."""
    effect = Effect()
    if fields[0].value == "shopt":
        names = [field.value for field in fields[1:]]
        if not all(name in ("-s", "-u", "-q", "-p") or name in _SHOPT_NAMES for name in names):
            effect.hide("it changes how later commands are read")
        return effect
    if len(fields) == 1:
        effect.run("it shows every variable, secrets too")
    named = False
    for field in fields[1:]:
        if field.value == "--" or (not named and field.value == "-"):
            break
        if field.value is None or not (field.value in _SET_NAMES if named else _SET_FLAGS.fullmatch(field.value)):
            effect.hide("it changes how later commands are read")
            scope.exports_all = True
            scope.forget()
            break
        named = not named and field.value.endswith("o")
    return effect


def about_folder(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what `cd`, `pushd` and `popd` do, and note the folder for what follows."""
    effect = Effect()
    name = fields[0].value
    options = [field for field in fields[1:] if (field.value or "")[:1] == "-" and field.value not in ("-", "--")]
    operands = [field for field in fields[1:] if field not in options and field.value != "--"]
    physical = any("P" in (field.value or "") for field in options)
    if name == "popd" or (name == "pushd" and (not operands or (operands[0].value or "")[:1] in ("+", "-"))):
        plain = name == "popd" and not operands and not options
        scope.move(scope.stack[-1] if plain and scope.stack else UNKNOWN)
        scope.stack = scope.stack[:-1] if plain else ()
        return effect
    if name == "pushd":
        scope.stack = (*scope.stack, scope.folders)
    target = operands[0] if operands else (scope.value("HOME") or Field(None))
    # What follows is looked at for each folder that it may be in; for the step itself the likely one is enough.
    effect.accesses += list(touched("list", target, scope))[:1]
    if len(operands) > 1 or target.value in (None, "", "-") or target.glob or target.many or "CDPATH" in scope.values:
        scope.move(UNKNOWN)
        if target.value == "-":
            effect.accesses.clear()
        return effect
    scope.move(tuple(_entered(path, physical) for path in scope.paths(target.value or "")))
    return effect


def _entered(path: str, physical: bool) -> str | None:
    if not path:
        return None
    # The shell takes `..` away from the text of the path, before links are followed.
    return join(path, "") if physical else posixpath.normpath(path)
