"""The flags of `backstay` and `backstay -p`, in groups."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from backstay.vocab.event import OnExceed

F = TypeVar("F", bound=Callable[..., Any])  # Any: click decorates functions of every shape

MODES: Final = ("plan", "default", "acceptEdits", "dontAsk", "bypassPermissions")
FORMATS: Final = ("text", "json", "stream-json", "events")
EFFORTS: Final = ("low", "medium", "high")
ON_EXCEED: Final[dict[str, "OnExceed"]] = {"warn": "warn", "fail": "fail", "pause": "pause_for_approval"}
"""What may be typed, and what it is called in the log."""

_LISTS: Final = ("--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools")
_RULE: Final = re.compile(r"(?:[A-Z]\w*|mcp__[\w*-]+)(?:\(.*\))?", re.DOTALL)

SESSION: Final = "The session"
MODEL: Final = "The model"
LIMITS: Final = "Limits"
PERMISSIONS: Final = "Permissions"
OUTPUT: Final = "In and out"
PLACE: Final = "Where"


class HeadedOption(click.Option):
    """An option that stands under a heading of the help."""

    def __init__(self, *declared: Any, heading: str = "", **settings: Any) -> None:  # Any: as click has it
        super().__init__(*declared, **settings)
        self.heading = heading


def flag(*declared: str, heading: str, **settings: Any) -> Callable[[F], F]:  # Any: as click has it
    """Declare a flag under a heading."""
    return click.option(*declared, cls=HeadedOption, heading=heading, **settings)


def _no_flag(ctx: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """Refuse a flag in the place of a prompt: the prompt was forgotten."""
    flags = {name for each in ctx.command.params for name in each.opts}
    if given is not None and given.partition("=")[0] in flags:
        raise click.UsageError(f"-p needs a prompt, and {given} is a flag. -p - reads it from standard input.", ctx)
    return given


_DECLARED: Final[tuple[Callable[[Any], Any], ...]] = (  # Any: as click has it
    flag(
        "-p",
        "--print",
        "prompt",
        metavar="PROMPT",
        heading=OUTPUT,
        callback=_no_flag,
        help="One prompt, then exit; - reads it from standard input. With a prompt, what is piped in comes before it.",
    ),
    flag(
        "--output-format", "output", type=click.Choice(FORMATS), default="text", heading=OUTPUT, help="What is printed."
    ),
    flag(
        "--input-format",
        type=click.Choice(("text", "stream-json")),
        default="text",
        heading=OUTPUT,
        help="stream-json reads prompts, answers and interrupts as JSON lines.",
    ),
    flag(
        "--include-partial-messages",
        "partial",
        is_flag=True,
        heading=OUTPUT,
        help="With stream-json: also the fragments.",
    ),
    flag("--verbose", is_flag=True, heading=OUTPUT, help="Accepted for compatibility; stream-json is always complete."),
    flag(
        "-c",
        "--continue",
        "newest",
        is_flag=True,
        heading=SESSION,
        help="Go on with the newest session of this project.",
    ),
    flag("-r", "--resume", metavar="ID|NAME", heading=SESSION, help="Go on with this session."),
    flag("--fork-session", "fork", is_flag=True, heading=SESSION, help="With -c or -r: go on in a copy."),
    flag("--session-id", metavar="ID", heading=SESSION, help="Open the session of this id, or start it."),
    flag("--name", metavar="NAME", heading=SESSION, help="Give the session a name."),
    flag("--no-persist", "--no-session-persistence", "no_persist", is_flag=True, heading=SESSION, help="Keep nothing."),
    flag(
        "--on-crash",
        type=click.Choice(("continue", "abandon")),
        default="continue",
        heading=SESSION,
        help="What becomes of a turn that was open when the process died.",
    ),
    flag(
        "--finish", is_flag=True, heading=SESSION, help="With -c or -r: finish the turn that was open, add no prompt."
    ),
    flag("--input-id", metavar="ID", heading=SESSION, help="The same input sent again under this id is taken once."),
    flag(
        "--model",
        metavar="PROVIDER:MODEL",
        heading=MODEL,
        help="Who answers: a profile of the settings, anthropic:MODEL, scripted:FILE ...",
    ),
    flag(
        "--fallback-model",
        "fallbacks",
        multiple=True,
        metavar="PROVIDER:MODEL",
        heading=MODEL,
        help="Who answers when the first cannot; may be repeated.",
    ),
    flag("--effort", type=click.Choice(EFFORTS), heading=MODEL, help="How much the model is to think."),
    flag(
        "--json-schema",
        "schema",
        metavar="FILE|JSON",
        heading=MODEL,
        help="The answer is JSON that fits this schema.",
    ),
    flag("--system-prompt", metavar="TEXT", heading=MODEL, help="Replace the system prompt."),
    flag("--append-system-prompt", metavar="TEXT", default="", heading=MODEL, help="Add to the system prompt."),
    flag(
        "--max-turns",
        type=click.IntRange(min=1),
        metavar="N",
        heading=LIMITS,
        help="Model calls that the run may take.",
    ),
    flag(
        "--max-session-turns",
        type=click.IntRange(min=0),
        metavar="N",
        heading=LIMITS,
        help="Prompts that the session may take; 50 when left out.",
    ),
    flag(
        "--max-budget-usd",
        "budget",
        metavar="X",
        heading=LIMITS,
        help="Dollars that the session may cost, such as 0.25.",
    ),
    flag(
        "--on-exceed",
        type=click.Choice(tuple(ON_EXCEED)),
        heading=LIMITS,
        help="When the budget is spent: go on with a warning, fail, or pause and ask.",
    ),
    flag("--allow-unpriced", is_flag=True, heading=LIMITS, help="Keep a budget with a model of unknown price too."),
    flag("--no-auto-compact", is_flag=True, heading=LIMITS, help="Never shorten the conversation by itself."),
    flag("--permission-mode", "mode", type=click.Choice(MODES), heading=PERMISSIONS, help="How calls are judged."),
    flag(
        "--allow",
        multiple=True,
        metavar="RULE",
        heading=PERMISSIONS,
        help="Run these calls without asking: Read, Bash ...",
    ),
    flag("--ask", multiple=True, metavar="RULE", heading=PERMISSIONS, help="Always ask for these calls."),
    flag("--deny", multiple=True, metavar="RULE", heading=PERMISSIONS, help="Never run these calls."),
    flag(
        "--allowedTools",
        "--allowed-tools",
        "allowed",
        multiple=True,
        metavar="RULES",
        heading=PERMISSIONS,
        help="Like --allow, for a list.",
    ),
    flag(
        "--disallowedTools",
        "--disallowed-tools",
        "disallowed",
        multiple=True,
        metavar="RULES",
        heading=PERMISSIONS,
        help="Like --deny, for a list.",
    ),
    flag(
        "--cwd", type=click.Path(exists=True, file_okay=False), metavar="DIR", heading=PLACE, help="The working folder."
    ),
    flag("--store", metavar="URL", heading=PLACE, help="Where sessions live: sqlite:///FILE."),
    flag(
        "--settings",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        heading=PLACE,
        help="Settings over the person's own.",
    ),
    flag("--bare", is_flag=True, heading=PLACE, help="No settings, no extensions."),
    flag(
        "--scope",
        type=click.Choice(("sandboxed", "project", "full")),
        heading=PERMISSIONS,
        help="How far commands and files may reach.",
    ),
    flag("--trust", is_flag=True, heading=PERMISSIONS, help="Trust what this workspace brings along, for this run."),
    flag(
        "--add-dir",
        "folders",
        multiple=True,
        type=click.Path(exists=True, file_okay=False),
        metavar="DIR",
        heading=PLACE,
        help="Work in this folder too; may be repeated.",
    ),
    flag(
        "--mcp-config",
        "mcp_config",
        multiple=True,
        metavar="FILE|JSON",
        heading=PLACE,
        help="MCP servers besides those of the settings; may be repeated.",
    ),
    flag(
        "--agent",
        metavar="NAME",
        heading=MODEL,
        help="Be one of the agents that `backstay agents list` lists: its prompt, its tools, its model.",
    ),
    flag("--no-checkpoints", is_flag=True, heading=SESSION, help="Keep nothing of files before they are changed."),
)


def prompt_flags(command: F) -> F:
    """Give a command all the flags of a run."""
    for declare in reversed(_DECLARED):
        command = declare(command)
    return command


def spread(arguments: Sequence[str]) -> list[str]:
    """`arguments` with the flag of a list before each of its rules: `--allowedTools Read "Bash(make *)"` is how people write one."""
    found: list[str] = []
    lists = ""
    for each in arguments:
        if lists and found[-1] != lists and _RULE.fullmatch(each):
            found.append(lists)
        elif found[-1:] != [lists]:
            lists = each if each in _LISTS else ""
        found.append(each)
    return found
