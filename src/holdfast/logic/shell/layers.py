"""Programs that run other programs: what is inside of `env`, `sudo`, `xargs`, `sh -c` and their kin."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.logic.shell.about_find import filled_in
from holdfast.logic.shell.effects import is_command_name, quiets, see, steering
from holdfast.logic.shell.options import Line, Options, take_apart
from holdfast.logic.shell.scope import UNKNOWN, Field, Scope, union
from holdfast.logic.shell.shells import OTHER_SHELLS, SHELLS, read_cmd, read_shell
from holdfast.logic.shell.steps import Source, Step, joined
from holdfast.logic.shell.table import Wrapper, wrappers

_ASSIGNED: Final = re.compile(r"([^=]+)=")
_LOADER: Final = re.compile(r"ld(?:-linux[\w-]*|-musl[\w-]*|64)?\.so(?:\.\d+)?|ld-\d[\d.]*\.so")
_XARGS: Final = Options(
    "-0 --null -a:read --arg-file:read -d: --delimiter: -E: -e? --eof? -I: -i? --replace? -L: -l? --max-lines? -n: "
    "--max-args: -P: --max-procs: -s: --max-chars: -t --verbose -p --interactive -r --no-run-if-empty -x --exit "
    "-o --open-tty --process-slot-var: -J: -R: -S:"
)
_FLOCK: Final = Options(
    "-s --shared -x -e --exclusive -u --unlock -n --nb --nonblock -w: --wait: --timeout: -E: --conflict-exit-code: "
    "-o --close -F --no-fork -v --verbose"
)
_SU: Final = Options(
    "-c:script --command:script -s: --shell: -l --login -m -p --preserve-environment -P --pty -g: --group: -G: --supp-group: -w: "
    "--whitelist-environment: -f --fast --session-command:script"
)
MOST_ENDINGS: Final = 8
MOST_GIVEN: Final = 50
_PLACE: Final = re.compile(r"\{(?:\d+|[./%#]{1,2}|)\}")
"""Where `parallel` puts an argument."""
_PARALLEL: Final = re.compile(r":{3,4}\+?")


def peel(name: str, fields: Sequence[Field], scope: Scope, source: Source) -> Step | None:
    """Look inside of a program that runs another one; nothing when it is none."""
    special = _SPECIAL.get(name)
    if special:
        return special(fields, scope, source)
    if name in SHELLS or name in OTHER_SHELLS:
        if len(fields) == 2 and fields[1].value == "--version":
            return None
        return read_shell(name, fields, scope, source)
    row = wrappers().get(name) or (wrappers()["ld.so"] if name.startswith("ld") and _LOADER.fullmatch(name) else None)
    return _generic(name, fields, scope, *row) if row else None


def _generic(name: str, fields: Sequence[Field], scope: Scope, wrapper: Wrapper, options: Options) -> Step | None:
    step, rest = Step(), list(fields[1:])
    if wrapper.sub:
        before = _subcommand(rest, wrapper)
        if before is None:
            return None
        group, rest = wrapper.groups.get(rest[before].value or ""), rest[before + 1 :]
        if group:
            return _generic(name, [fields[0], *rest], scope, *wrappers()[group])
    line = take_apart(rest, options, stop=True, number=wrapper.number)
    if name == "command" and line.has("-v", "-V"):
        return None
    split = line.values("-S", "--split-string") if wrapper.assigns else []
    if name == "env" and split:
        return _env_string(fields, split[0], line, scope)
    for seen in line.seen:
        see(seen, step.effect, scope)
    operands = line.operands[wrapper.skip :]
    if name == "env" and operands and operands[0].value == "-":
        operands = operands[1:]
    if wrapper.assigns:
        operands = _assigned(operands, step)
    for field in line.values("--entrypoint"):
        step.also += [operands] if operands else []
        operands = [*_split(field), *operands]
    step.folders = _folders(line, wrapper, scope)
    step.effect.network, step.effect.exact = wrapper.network, wrapper.exact
    step.inner = operands
    step.tame = (wrapper.transparent or wrapper.tame) and not step.steers and not (wrapper.strict and line.seen)
    if line.unknown or line.unsure or any(field.many or field.value is None for field in line.operands[: wrapper.skip]):
        step.effect.hide(f"{name} has options that are not known")
        step.also += _endings(rest)
    if wrapper.unsure:
        step.effect.hide(f"where {name} has its program is not known")
        step.also += _endings(rest)
    if wrapper.joins:
        _join_arguments(name, step, line)
    step.tame = step.tame and step.effect.does != "runs"
    step.transparent = wrapper.transparent and step.tame
    return step if step.inner or step.effect.scripts else None


def _subcommand(fields: Sequence[Field], wrapper: Wrapper) -> int | None:
    """Find the word that says what a tool is to do, if it is one of those that run a program; options before it may have values."""
    valued = False
    for at, field in enumerate(fields):
        value = field.value
        if value is not None and (value in wrapper.sub.split() or value in wrapper.groups):
            return at
        option = value is not None and value.startswith("-")
        if not option and not valued:
            return None
        valued = option and "=" not in (value or "")
    return None


def _folders(line: Line, wrapper: Wrapper, scope: Scope) -> tuple[str | None, ...]:
    """Say where a program runs that is not run here; nothing when it is."""
    folders: tuple[str | None, ...] = ()
    for field in line.values(*wrapper.folder.split()):
        known = field.value is not None and not field.glob
        folders = union(folders, tuple(path or None for path in scope.paths(field.value or "")) if known else UNKNOWN)
    if not wrapper.moves:
        return folders
    return union(folders or scope.folders, UNKNOWN) if wrapper.stays else UNKNOWN


def _endings(fields: Sequence[Field]) -> list[list[Field]]:
    """Give the words from each place on: one of them is the program."""
    starts = [at for at, field in enumerate(fields) if field.value is None or not field.value.startswith("-")]
    return [list(fields[at:]) for at in starts[:MOST_ENDINGS]]


def _join_arguments(name: str, step: Step, line: Line) -> None:
    """Turn the arguments into the text that a shell is given."""
    if name == "watch" and line.has("-x", "--exec"):
        return
    if name == "hyperfine":
        step.effect.scripts += step.inner
    elif step.inner:
        step.effect.scripts.append(joined(step.inner))
    step.inner = []


def _assigned(operands: list[Field], step: Step) -> list[Field]:
    at = 0
    while at < len(operands):
        field = operands[at]
        found = _ASSIGNED.match(field.value if field.value is not None else field.start)
        if not found:
            break
        held = field.value[found.end() :] if field.value is not None else None
        if quiets(found[1], Field(held)):
            at += 1
            continue
        if steering(found[1], exported=True):
            step.steers.append(found[1])
        if is_command_name(found[1]) and field.value is not None:
            step.also.append([Field("sh", "sh"), Field("-c", "-c"), Field(field.value[found.end() :], field.text)])
        at += 1
    return operands[at:]


def _env_string(fields: Sequence[Field], text: Field, line: Line, scope: Scope) -> Step | None:
    """Read `env -S 'text'`, which env splits by rules of its own."""
    if text.value is None or re.search(r"[\\$#]", text.value):
        step = Step(inner=[Field(None, text.text, many=True), *line.operands])
        step.effect.hide("env splits a text that is not known")
        step.effect.scripts.append(Field(None, text.text, hint=text.value or text.hint))
        return step
    words = _split(text)
    if any(word.value is None for word in words):
        return Step(inner=[*words, *line.operands])
    found = _generic("env", [fields[0], *words, *line.operands], scope, *wrappers()["env"])
    if found is not None:
        found.transparent = found.tame = False
        found.folders = union(_folders(line, wrappers()["env"][0], scope), found.folders)
    return found


def _split(text: Field) -> list[Field]:
    """Split a text into words; one that is not known may be any."""
    try:
        words = shlex.split(text.value) if text.value is not None else None
    except ValueError:
        words = None
    return [Field(word, word) for word in words] if words is not None else [Field(None, text.text, many=True)]


def _eval(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step | None:
    rest = fields[2:] if len(fields) > 1 and fields[1].value == "--" else fields[1:]
    step = Step(tame=True, here=True)
    if rest:
        step.effect.scripts.append(joined(rest))
    return step if rest else None


def _trap(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step | None:
    rest = fields[2:] if len(fields) > 1 and fields[1].value == "--" else fields[1:]
    if len(rest) < 2 or rest[0].value in ("-", "-l", "-p", ""):
        return None
    step = Step(here=True)  # it runs later, when variables may hold something else
    step.effect.scripts.append(rest[0])
    return step


def _alias(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step | None:
    step = Step(here=True)
    step.effect.hide("an alias changes what later words mean")
    for field in fields[1:]:
        value = field.value if field.value is not None else field.hint
        if "=" in value:
            step.effect.scripts.append(Field(value.partition("=")[2], field.text))
    return step


def _source(fields: Sequence[Field], scope: Scope, _source: Source) -> Step | None:
    step = Step(here=True)
    step.effect.hide("it runs commands from a file")
    for field in fields[1:2]:
        step.effect.touch("read", field, scope)
        step.effect.scripts += [Field(None, field.text, hint=field.hint)] if field.pipe and field.hint else []
    return step


def _xargs(fields: Sequence[Field], scope: Scope, _source: Source) -> Step:
    line = take_apart(fields[1:], _XARGS, stop=True)
    step = Step(transparent=not line.seen and not line.unknown and not line.unsure)
    for seen in line.seen:
        see(seen, step.effect, scope)
    if line.unknown or line.unsure:
        step.effect.hide("xargs has options that are not known")
        step.also = _endings(fields[1:])
    mark = next(
        (field.value for field in line.values("-I", "-J") if field.value), "{}" if line.has("-i", "--replace") else ""
    )
    operands = line.operands or [Field("echo", "echo")]
    step.inner = [filled_in(field, mark) for field in operands] if mark else operands
    if not mark:
        step.inner.append(Field(None, "", many=True))
    step.tame = step.transparent
    return step


def _parallel(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step:
    step = Step()
    step.effect.hide("parallel gives text to a shell")
    end = next(
        (at for at, field in enumerate(fields) if field.value is not None and _PARALLEL.fullmatch(field.value)),
        len(fields),
    )
    given = [field for field in fields[end + 1 :] if field.value is None or not _PARALLEL.fullmatch(field.value)]
    words = list(fields[1:end])
    step.effect.scripts += given if sum(not (field.value or "").startswith("-") for field in words) < 2 else []
    _each(words, given, step)
    while words and words[0].value is not None and words[0].value.startswith("-"):
        # Whether an option takes a value is not known: the words after it are looked at with and without the first.
        words = words[1:]
        _each(words[1:], given, step)
    _each(words, given, step)
    return step


def _each(words: Sequence[Field], given: Sequence[Field], step: Step) -> None:
    """Take in a command for each of the arguments that it is given, in the place of `{}` or at the end."""
    line = joined(words)
    step.effect.scripts.append(line)
    text = line.value if line.value is not None else line.hint
    for field in given[:MOST_GIVEN] if words else ():
        word = field.value if field.value is not None else field.hint or "$__"
        filled = word.join(_PLACE.split(text))
        step.effect.scripts.append(Field(filled if filled != text else f"{text} {word}", field.text))


def _flock(fields: Sequence[Field], scope: Scope, _source: Source) -> Step | None:
    line = take_apart(fields[1:], _FLOCK, stop=True)
    step = Step(inner=line.operands[1:])
    step.effect.exact = True
    for field in line.operands[:1]:
        step.effect.touch("write", field, scope)
    if line.unknown or line.unsure:
        step.effect.hide("flock has options that are not known")
        step.also = _endings(fields[1:])
    if step.inner and step.inner[0].value in ("-c", "--command"):
        step.effect.scripts += step.inner[1:2]
        step.inner = []
    return step if step.inner or step.effect.scripts else None


def _su(fields: Sequence[Field], scope: Scope, source: Source) -> Step:
    step = Step()
    line = take_apart(fields[1:], _SU)
    step.effect.run("it runs as somebody else")
    for seen in line.seen:
        see(seen, step.effect, scope)
    if not step.effect.scripts:
        step.effect.hide("it starts a shell")
        step.effect.scripts += [source.text] if source.text else []
    return step


def _sg(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step | None:
    step = Step()
    rest = list(fields[3:] if len(fields) > 2 and fields[2].value == "-c" else fields[2:])
    step.effect.run("it runs as somebody else")
    step.effect.scripts += [joined(rest)] if rest else []
    step.also = [rest] if len(rest) > 1 else []  # not every version joins them
    return step if rest else None


def _gdb(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step | None:
    step = Step()
    step.effect.hide("a debugger runs commands of its own")
    at = next((at for at, field in enumerate(fields) if field.value in ("--args", "-args", "--")), 0)
    step.inner = list(fields[at + 1 :])
    step.also = _endings(fields[1:])
    return step if step.inner else None


def _applet(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step | None:
    inner = list(fields[1:])
    if not inner or (inner[0].value or "").startswith("-"):
        return None
    return Step(inner=inner)


_SPECIAL: Final[Mapping[str, Callable[[Sequence[Field], Scope, Source], Step | None]]] = {
    "cmd": read_cmd,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "source": _source,
    ".": _source,
    "xargs": _xargs,
    "gxargs": _xargs,
    "parallel": _parallel,
    "flock": _flock,
    "su": _su,
    "sg": _sg,
    "gdb": _gdb,
    "lldb": _gdb,
    "sem": _parallel,
    "busybox": _applet,
    "toybox": _applet,
}
