"""`backstay -p`: turn flags and standard input into a job, and run it."""

import functools
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import anyio
import click
import msgspec

from backstay.catalog.sessions import check_name
from backstay.cli import output
from backstay.cli.shared_options import ON_EXCEED
from backstay.config.former_name import explain_former_store
from backstay.config.layers import Layered, read_layers
from backstay.config.model_finder import no_model
from backstay.config.person import require_person
from backstay.config.settings import Settings
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.headless import run as headless
from backstay.headless.headless_run import DRAIN_S, Job
from backstay.headless.input import is_command
from backstay.hooks.decorator import read_configured_hooks
from backstay.logic.budget import parse_dollars
from backstay.session.options import Options
from backstay.stores.open import DEFAULT
from backstay.system.files import has_changed
from backstay.vocab.errors import UserError
from backstay.vocab.ids import check_session_id
from backstay.vocab.rules import Rule

LONGEST_PROMPT: Final = 10 * 1024 * 1024
"""Bytes that are read from standard input as one prompt."""
PIPE_WAIT_S: Final = 1.0
"""Seconds to wait for a silent pipe: many programs leave one open and write nothing."""
DRAIN: Final = "BACKSTAY_DRAIN_S"
"""Environment variable: seconds that a turn may go on after SIGTERM or SIGHUP."""
_NO_PROMPT: Final = """\
The terminal interface is not here yet. What works:
  backstay -p "your prompt"
  backstay demo"""

Given = Mapping[str, Any]  # Any: each flag has a type of its own


def run_prompt(given: Given) -> int:
    """Run the job that the flags name and return the exit code."""
    lines = given["input_format"] == "stream-json"
    if given["trust"]:
        require_person("trust a workspace")
    _check_flags(given)
    _check_folder(Path(given["cwd"] or "."))
    layers = functools.partial(
        read_layers, given=given["settings"], trust=True if given["trust"] else None, bare=given["bare"]
    )
    here = layers(Path(given["cwd"] or "."))

    def read(folder: Path, vouched: WorkspaceInventory | None) -> Layered:
        """Return what was read for the warnings, if nobody was waited for since and it is what the files say."""
        at_once = vouched is None and prompt is not None and prompt is given["prompt"]
        fresh = at_once and folder == here.paths.cwd and not has_changed(here.fingerprint)
        return here if fresh else layers(folder, vouched=vouched)

    of_hooks = read_configured_hooks(here).warnings if here.files else ()
    warnings = (*here.warnings, *of_hooks, *filter(None, (here.notice,)))
    options = _options(given, read)
    prompt = None if given["finish"] else _read_prompt(given, here.settings, lines=lines)
    for words in warnings:
        output.warn(words)
    job = Job(
        options=options,
        newest=given["newest"],
        prompt=prompt,
        output=given["output"],
        lines=lines,
        finish=given["finish"],
        input_id=given["input_id"],
        partial=given["partial"],
        drain_s=_drain_s(),
    )
    run = functools.partial(headless.run, job, sys.stdout.buffer, sys.stdin.fileno(), output.warn)
    return anyio.run(run)


def _check_flags(given: Given) -> None:
    """Refuse flags that contradict each other."""
    resumes = given["newest"] or given["resume"] is not None
    wrong = {
        "-c and -r cannot be used together.": given["newest"] and given["resume"] is not None,
        "--fork-session needs -c or -r.": given["fork"] and not resumes,
        "--session-id with -c or -r needs --fork-session: it names the copy.": (
            given["session_id"] is not None and resumes and not given["fork"]
        ),
        "--finish needs -c, -r or --session-id.": given["finish"] and not resumes and given["session_id"] is None,
        "--finish adds no prompt: leave -p away.": given["finish"] and given["prompt"] is not None,
        "--finish with --fork-session has nothing to finish: a copy leaves the open turn behind. No copy was made.": (
            given["finish"] and given["fork"]
        ),
        "-r is empty: give it the id or the name of a session.": given["resume"] is not None
        and not given["resume"].strip(),
        "--input-id needs a prompt.": given["input_id"] is not None and given["finish"],
        "--input-id is empty.": given["input_id"] == "",
        "--no-persist keeps nothing, so there is nothing to go on with.": given["no_persist"] and resumes,
        "--no-persist and --store cannot be used together.": given["no_persist"] and given["store"] is not None,
        "--include-partial-messages needs --output-format stream-json.": (
            given["partial"] and given["output"] != "stream-json"
        ),
        "--bare reads no settings: leave --settings away.": given["bare"] and given["settings"] is not None,
        "--bare has no servers: leave --mcp-config away.": given["bare"] and bool(given["mcp_config"]),
        "--agent is empty: give it the name of an agent.": given["agent"] is not None and not given["agent"].strip(),
    }
    for words, is_wrong in wrong.items():
        if is_wrong:
            raise click.UsageError(words)


def _check_folder(cwd: Path) -> None:
    """Refuse a folder whose name the log could not hold: the session would work in another one."""
    folder = str(cwd.expanduser().absolute())
    if not output.is_unicode(folder):
        shown = os.fsencode(folder).decode("utf-8", "backslashreplace")
        raise click.ClickException(f"The name of the folder '{shown}' is not UTF-8. Rename it, or work elsewhere.")


def _options(given: Given, layers: Callable[[Path, WorkspaceInventory | None], Layered]) -> Options:
    try:
        rules = tuple(_rules(given))
        session_id = None if given["session_id"] is None else check_session_id(given["session_id"])
        name = "" if given["name"] is None else check_name(given["name"])
        budget = None if given["budget"] is None else parse_dollars(given["budget"])
        parameters = _parameters(given)
        _check_servers(given["mcp_config"])
    except UserError as exc:
        raise click.UsageError(str(exc)) from exc
    if words := explain_former_store(given["store"] or ""):
        raise UserError(words)
    return Options(
        model=given["model"],
        layers=layers,
        fallback_models=given["fallbacks"],
        parameters=parameters,
        cwd=given["cwd"] or ".",
        store=None if given["no_persist"] else given["store"] or DEFAULT,
        resume=given["resume"],
        session_id=session_id,
        fork=given["fork"],
        name=name,
        agent=given["agent"] or "",
        permission_mode=given["mode"],
        rules=rules,
        fs_scope=given["scope"],
        folders=given["folders"],
        trust=True if given["trust"] else None,
        bare=given["bare"],
        system_prompt=given["system_prompt"],
        append_system_prompt=given["append_system_prompt"],
        on_crash=given["on_crash"],
        max_rounds=given["max_turns"],
        max_session_turns=given["max_session_turns"] or 0,
        auto_compact=False if given["no_auto_compact"] else None,
        budget_microcents=budget,
        on_exceed=None if given["on_exceed"] is None else ON_EXCEED[given["on_exceed"]],
        allow_unpriced=given["allow_unpriced"],
        mcp_config=given["mcp_config"],
        checkpoints=not given["no_checkpoints"],
    )


def _parameters(given: Given) -> dict[str, object]:
    found: dict[str, object] = {}
    if given["effort"] is not None:
        found["effort"] = given["effort"]
    if given["schema"] is not None:
        found["schema"] = _read_schema(given["schema"])
    return found


def _check_servers(given: Sequence[str]) -> None:
    """Refuse a value that is neither a file nor JSON. A single bad server is only a warning, later."""
    from backstay.mcp.config.files import read_given

    for each in given:
        if not each.lstrip().startswith("{") and not Path(each).expanduser().is_file():
            raise UserError(f"--mcp-config names {each!r}, which is no file.")
        read_given(each)


def _rules(given: Given) -> Iterable[Rule]:
    decisions: tuple[Literal["allow", "ask", "deny"], ...] = ("allow", "ask", "deny")
    for decision in decisions:
        for text in given[decision]:
            yield Rule.parse(decision, text)
    for text in given["allowed"]:
        yield from (Rule.parse("allow", each) for each in split_rules(text))
    for text in given["disallowed"]:
        yield from (Rule.parse("deny", each) for each in split_rules(text))


def split_rules(text: str) -> list[str]:
    """Split a list of rules at commas and spaces, but for those inside the parentheses of a rule."""
    return re.findall(r"(?:[^\s,(]|\([^)]*\)?)+", text)


def _drain_s() -> float:
    try:
        return max(0.0, float(os.environ.get(DRAIN, DRAIN_S)))
    except ValueError:
        return DRAIN_S


# --- the prompt -----------------------------------------------------------------------------------------------------------------


def _read_prompt(given: Given, settings: Settings, *, lines: bool) -> str | None:
    prompt: str | None = given["prompt"]
    if prompt is None and not lines and sys.stdin.isatty():
        if given["model"] is None and settings.chat.default_model is None:
            raise click.ClickException(no_model())
        raise click.UsageError(_NO_PROMPT)
    if prompt is None or prompt == "-":
        if lines:
            return None
        prompt = _read_stdin()
    elif not lines:
        prompt = _add_piped_text(prompt)
    if not prompt.strip():
        raise click.UsageError("The prompt is empty. Say something.")
    return prompt


def _read_stdin() -> str:
    content = sys.stdin.buffer.read(LONGEST_PROMPT + 1)
    if len(content) > LONGEST_PROMPT:
        raise click.UsageError(f"The prompt has more than {LONGEST_PROMPT} bytes. Put it into a file.")
    return content.decode("utf-8", "replace")


def _add_piped_text(prompt: str) -> str:
    """Return `prompt` behind the text of standard input, with a blank line between them; a slash command gets it as its arguments."""
    try:
        text = _read_stdin().rstrip("\n") if _has_input() else ""
    except OSError as exc:
        raise click.UsageError(
            f"Standard input cannot be read: {exc.strerror}. `< /dev/null` says that there is nothing."
        ) from exc
    if not text.strip():
        return prompt
    if is_command(prompt):
        return f"{prompt}{chr(10) * 2 if ' ' in prompt else ' '}{text}"
    return f"{text}\n\n{prompt}"


def _has_input() -> bool:
    """Return whether standard input is a file, or a pipe with bytes in it; warn of a silent pipe."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # there is none
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # some programs make their pipes of sockets
        return stat.S_ISREG(mode)
    if select.select([descriptor], [], [], PIPE_WAIT_S)[0]:
        return True
    output.warn(
        f"Standard input is an open pipe, and nothing came for {PIPE_WAIT_S:g} second: it is not read. "
        "`< /dev/null` says that there is nothing."
    )
    return False


# --- --json-schema --------------------------------------------------------------------------------------------------------------


Schema = dict[str, object]

_TYPES: Final = ("object", "array", "string", "boolean", "null", "number", "integer")
_WRAPPER_KEYS: Final = frozenset(("schema", "name", "description", "strict"))
"""Keys of the object that some providers put around a schema."""


def _read_schema(given: str) -> Schema:
    """Read a JSON Schema, given as text or as a file. Raise `UserError` that says what is wrong with it."""
    text, where = given, "--json-schema"
    if not given.lstrip().startswith("{"):
        where = f"The schema {given!r}"
        try:
            text = Path(given).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise UserError(f"{where} cannot be read: {getattr(exc, 'strerror', None) or exc}.") from exc
    try:
        schema = msgspec.json.decode(text, type=dict[str, object])
        wrong = next(_problems(_unwrap(schema)), "")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise UserError(f"{where} is not a JSON object: {exc}.") from exc
    if wrong:
        raise UserError(f"{where} is no JSON Schema: {wrong}.")
    return schema


def _unwrap(schema: Schema) -> Schema:
    inner = schema.get("schema")
    return inner if isinstance(inner, dict) and schema.keys() <= _WRAPPER_KEYS else schema


def _problems(root: Schema) -> Iterator[str]:
    """Yield what is wrong with a schema, each as a sentence without its full stop."""
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        at, schema = waiting.pop(0)
        if isinstance(schema, bool):
            continue
        if not isinstance(schema, Mapping):
            yield f"{at or 'it'} is {_excerpt(schema)}, not an object, true or false"
            continue
        yield from _keywords(schema, root, at)
        waiting += _inside(schema, at)


def _keywords(schema: Mapping[str, object], root: Schema, at: str) -> Iterator[str]:
    for keyword, value in schema.items():
        fits, wanted = _RULES.get(keyword, (None, ""))
        if fits is not None and not fits(value):
            yield f"{_below(at, keyword)} is {_excerpt(value)}, not {wanted}"
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/") and not _is_there(ref, root):
        yield f"{_below(at, '$ref')} names {ref!r}, which is not there"


def _inside(schema: Mapping[str, object], at: str) -> Iterator[tuple[str, object]]:
    """Yield the schemas within one, each with its path."""
    for keyword, value in schema.items():
        place = _below(at, keyword)
        if keyword in _ONE and not isinstance(value, list):
            yield place, value
        elif keyword in (*_SEVERAL, "items") and isinstance(value, list):
            yield from ((f"{place}[{number}]", each) for number, each in enumerate(value))
        elif keyword in _NAMED and isinstance(value, dict):
            yield from ((_below(place, name), each) for name, each in value.items())


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _is_there(ref: str, root: Schema) -> bool:
    node: object = root
    for step in unquote(ref.removeprefix("#/")).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict) and name in node:
            node = node[name]
        else:
            return False
    return True


def _excerpt(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}..."


def _is_kind(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, str) and each in _TYPES for each in value)
    return isinstance(value, str) and value in _TYPES


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except re.error:
        return "\\p" in value or "(?<" in value  # not Python's language, but perhaps the standard's
    return True


_ONE: Final = (
    *("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "items"),
    *("unevaluatedItems", "unevaluatedProperties", "additionalItems"),
)
"""Keywords whose value is a schema."""
_SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_RULES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "type": (_is_kind, f"one of {', '.join(_TYPES)}, or a list of them"),
    "enum": (lambda value: isinstance(value, list) and bool(value), "a list of values"),
    "required": (_is_names, "a list of names"),
    "pattern": (_is_pattern, "a regular expression"),
    "$ref": (lambda value: isinstance(value, str), "a text"),
    "multipleOf": (lambda value: isinstance(value, int | float) and value > 0, "a number above 0"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "a whole number, 0 or more"),
    ),
    **dict.fromkeys(("uniqueItems",), (lambda value: isinstance(value, bool), "true or false")),
    **dict.fromkeys(_SEVERAL, (lambda value: isinstance(value, list) and bool(value), "a list of schemas")),
    **dict.fromkeys(_NAMED, (lambda value: isinstance(value, dict), "an object of schemas")),
}
"""Tests for the values of keywords, each with its requirement in words. Unknown keywords are ignored, as the standard has it."""
