"""`backstay -p`: from flags to a job."""

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import click

from backstay import headless
from backstay.cli import telling
from backstay.cli.answer_schema import answer_schema
from backstay.cli.flags import ON_EXCEED
from backstay.cli.piped import whole_input, with_piped
from backstay.cli.place import is_unicode
from backstay.config.finding import no_model
from backstay.config.layers import Layered, read_layers
from backstay.config.person import require_person
from backstay.config.settings import Settings
from backstay.hooks import configured
from backstay.logic.pricing import parse_dollars
from backstay.options import DEFAULT, Options
from backstay.view.job import DRAIN_S, Job
from backstay.vocab.errors import UserError
from backstay.vocab.ids import check_session_id
from backstay.vocab.rules import Rule

DRAIN: Final = "BACKSTAY_DRAIN_S"
"""Environment: seconds that a turn may go on after SIGTERM or SIGHUP."""
_HELLO: Final = """\
The terminal interface is not here yet. What works:
  backstay -p "your prompt"
  backstay demo"""

Given = Mapping[str, Any]  # Any: each flag has a type of its own


def run_prompt(ctx: click.Context, given: Given) -> int:
    """Run what the flags say and return the exit code."""
    lines = given["input_format"] == "stream-json"
    if given["trust"]:
        require_person("trust a workspace")
    _check(ctx, given)
    _check_folder(Path(given["cwd"] or "."))
    layers = functools.partial(
        read_layers, given=given["settings"], trust=True if given["trust"] else None, bare=given["bare"]
    )
    here = layers(Path(given["cwd"] or "."))
    said = (*here.warnings, *configured(here).warnings, *filter(None, (here.notice,)))
    options = _options(ctx, given, layers)
    prompt = None if given["finish"] else _prompt(ctx, given, here.settings, lines=lines)
    for words in said:
        telling.complain(words)
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
    run = functools.partial(headless.run, job, sys.stdout.buffer, sys.stdin.fileno(), telling.complain)
    return anyio.run(run)


def _check(ctx: click.Context, given: Given) -> None:
    """Refuse flags that contradict each other."""
    goes_on = given["newest"] or given["resume"] is not None
    wrong = {
        "-c and -r cannot be used together.": given["newest"] and given["resume"] is not None,
        "--fork-session needs -c or -r.": given["fork"] and not goes_on,
        "--session-id with -c or -r needs --fork-session: it names the copy.": (
            given["session_id"] is not None and goes_on and not given["fork"]
        ),
        "--finish needs -c, -r or --session-id.": given["finish"] and not goes_on and given["session_id"] is None,
        "--finish adds no prompt: leave -p away.": given["finish"] and given["prompt"] is not None,
        "--finish with --fork-session has nothing to finish: a copy leaves the open turn behind. No copy was made.": (
            given["finish"] and given["fork"]
        ),
        "-r is empty: give it the id or the name of a session.": given["resume"] is not None
        and not given["resume"].strip(),
        "--input-id needs a prompt.": given["input_id"] is not None and given["finish"],
        "--input-id is empty.": given["input_id"] == "",
        "--no-persist keeps nothing, so there is nothing to go on with.": given["no_persist"] and goes_on,
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
            raise click.UsageError(words, ctx)


def _check_folder(cwd: Path) -> None:
    """Refuse a folder that the log could not name: the session would work in another one."""
    folder = str(cwd.expanduser().absolute())
    if not is_unicode(folder):
        shown = os.fsencode(folder).decode("utf-8", "backslashreplace")
        raise click.ClickException(f"The name of the folder '{shown}' is not UTF-8. Rename it, or work elsewhere.")


def _options(ctx: click.Context, given: Given, layers: Callable[[Path], Layered]) -> Options:
    try:
        rules = tuple(_rules(given))
        session_id = None if given["session_id"] is None else check_session_id(given["session_id"])
        name = "" if given["name"] is None else headless.check_name(given["name"])
        budget = None if given["budget"] is None else parse_dollars(given["budget"])
        parameters = _parameters(given)
        _check_servers(given["mcp_config"])
    except UserError as exc:
        raise click.UsageError(str(exc), ctx) from exc
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
        found["schema"] = answer_schema(given["schema"])
    return found


def _check_servers(given: Sequence[str]) -> None:
    """Refuse what is no file and no JSON: whoever names one wants it. What is wrong with one server is told, and hides no other."""
    for each in given:
        from backstay.extensions.mcp_files import read_given

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
    """The rules of a list, with commas or spaces between them; those inside parentheses belong to a rule."""
    return re.findall(r"(?:[^\s,(]|\([^)]*\)?)+", text)


def _prompt(ctx: click.Context, given: Given, settings: Settings, *, lines: bool) -> str | None:
    prompt: str | None = given["prompt"]
    if prompt is None and not lines and sys.stdin.isatty():
        if given["model"] is None and settings.chat.default_model is None:
            raise click.ClickException(no_model())
        raise click.UsageError(_HELLO, ctx)
    if prompt is None or prompt == "-":
        if lines:
            return None
        prompt = whole_input(ctx)
    elif not lines:
        prompt = with_piped(ctx, prompt)
    if not prompt.strip():
        raise click.UsageError("The prompt is empty. Say something.", ctx)
    return prompt


def _drain_s() -> float:
    try:
        return max(0.0, float(os.environ.get(DRAIN, DRAIN_S)))
    except ValueError:
        return DRAIN_S
