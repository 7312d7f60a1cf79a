"""What the contracts name as their API exists: every name, every argument, every command and every flag."""

import ast
import importlib
import inspect
import shlex
from collections.abc import Iterator

import click
import pytest

import backstay
from backstay import Session
from backstay.cli.root import root
from backstay.hooks.events import EVENTS
from backstay.runtime.callbacks import NAMES
from backstay.session.options import Options
from backstay.session.project.commands import BUILT_IN
from backstay.testing.contracts import load_contracts
from tests.contracts.kit import talk

APIS = sorted({contract.api for contract in load_contracts() if contract.api})


async def test_every_api_that_a_contract_names_is_there() -> None:
    async with talk("x") as session:
        assert {api: found for api in APIS if (found := problems(api, session))} == {}


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ("session.dance()", "session.dance is not there"),
        ("session.rewind(past=turn)", "session.rewind: got an unexpected keyword argument 'past'"),
        ("session.inject(role, content, more)", "session.inject: too many positional arguments"),
        ('session.on("dancing", ...)', "nobody is told of 'dancing'"),
        ("session.run(text), session.dance()", "session.dance is not there"),
        ("open_session(colour=...)", "open_session has no option 'colour'"),
        ("query(text, colour=...)", "query has no option 'colour'"),
        ("open_session(rules=[Rule.dance()])", "Rule.dance is not there"),
        ("backstay.logic.dance.step", "backstay.logic.dance.step is not there"),
        ("dance(text)", "dance is not there"),
        ('@hook("Dance")', "there is no hook event 'Dance'"),
        ("backstay dance", "backstay has no command 'dance'"),
        ("backstay sessions dance ID", "backstay sessions has no command 'dance'"),
        ("backstay sessions list --dance", "backstay sessions list has no flag '--dance'"),
        ("backstay --output-format dance", "--output-format cannot be 'dance'"),
        ("/dance", "there is no command '/dance'"),
        ("session dances", "it is neither Python nor a command"),
    ],
)
async def test_an_api_that_is_not_there_is_noticed(api: str, problem: str) -> None:
    async with talk("x") as session:
        assert problems(api, session) == [problem]


def problems(api: str, session: Session) -> list[str]:
    """What is wrong with an API as the contracts write it: Python, a command line, or a command behind a slash."""
    if api.startswith("/"):
        name = api[1:].split(maxsplit=1)[0]
        return [] if name in {each.spec.name for each in BUILT_IN.commands()} else [f"there is no command {api!r}"]
    if api.startswith("backstay "):
        return list(wrong_words(shlex.split(api)[1:]))
    try:
        tree = ast.parse(api.replace("@", ""), mode="eval").body
    except SyntaxError:
        return ["it is neither Python nor a command"]
    return [found for each in named(tree) if (found := wrong_name(each, session))]


def named(tree: ast.expr) -> Iterator[ast.expr]:
    """The calls and names that stand for something of ours; plain words in arguments stand for the caller's own."""
    match tree:
        case ast.Tuple(elts=each_one):
            for each in each_one:
                yield from named(each)
        case _:
            yield tree
            for inner in ast.walk(tree):
                if inner is not tree and isinstance(inner, ast.Call):
                    yield inner


def wrong_name(tree: ast.expr, session: Session) -> str:
    """Why this name or call cannot be right; empty when it can."""
    called = tree.func if isinstance(tree, ast.Call) else tree
    name = ast.unparse(called)
    try:
        target = resolve(name, session)
    except (AttributeError, ImportError):
        return f"{name} is not there"
    return wrong_call(name, target, tree) if isinstance(tree, ast.Call) else ""


def resolve(name: str, session: Session) -> object:
    """What a dotted name means: something of the session, a module and what it holds, or a public name."""
    first, *rest = name.split(".")
    target: object = session if first == "session" else backstay if first == "backstay" else getattr(backstay, first)
    for each in rest:
        if inspect.ismodule(target) and not hasattr(target, each):
            importlib.import_module(f"{target.__name__}.{each}")
        target = getattr(target, each)
    return target


def wrong_call(name: str, target: object, call: ast.Call) -> str:
    """Why these arguments cannot be given; empty when they can."""
    keywords = [each.arg for each in call.keywords if each.arg]
    match name, call.args:
        case "session.on", [ast.Constant(value=str(event)), *_] if event not in NAMES:
            return f"nobody is told of {event!r}"
        case "hook", [ast.Constant(value=str(event)), *_] if event not in EVENTS:
            return f"there is no hook event {event!r}"
        case (("open_session" | "query"), _):
            unknown = [each for each in keywords if each not in Options.__struct_fields__]
            return f"{name} has no option {unknown[0]!r}" if unknown else ""
    assert callable(target), name
    try:
        inspect.signature(target).bind_partial(*call.args, **dict.fromkeys(keywords))
    except TypeError as exc:
        return f"{name}: {exc}"
    return ""


def wrong_words(words: list[str]) -> Iterator[str]:
    """What the command line would not understand; words in capitals stand for values."""
    command: click.Command = root
    path, rest = "backstay", iter(words)
    for word in rest:
        context = click.Context(command, info_name=path)
        if word.startswith("-"):
            flag = next((each for each in command.get_params(context) if word in each.opts), None)
            if not isinstance(flag, click.Option):
                yield f"{path} has no flag {word!r}"
            elif not flag.is_flag and isinstance(flag.type, click.Choice):
                if (value := next(rest, "")) not in flag.type.choices:
                    yield f"{word} cannot be {value!r}"
            elif not flag.is_flag:
                next(rest, "")
        elif isinstance(command, click.Group) and word != "...":
            inner = command.get_command(context, word)
            if inner is None:
                yield f"{path} has no command {word!r}"
                return
            command, path = inner, f"{path} {word}"
