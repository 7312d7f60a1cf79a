"""`backstay`: the flags of a run, and the commands, each loaded when it is used."""

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from backstay.cli import output
from backstay.cli.shared_options import ON_EXCEED, F, StoreLocation, accept_location

COMMANDS: Final[dict[str, str]] = dict(
    line.split(maxsplit=1)
    for line in """
    agents       List the agents that work can be handed to, or show one.
    config       Show the settings files, the values that they come to, and why.
    demo         Watch a session crash in the middle of a turn and finish after the resume; offline, no key.
    doctor       Say what is active here: folders, store, sandbox, programs, models, and what the repository keeps for agents.
    export       Write a session to a file that only you can read.
    hooks        List hooks, and try them without a session.
    log          Show, follow, replay, check, export, import and repair the log of a session.
    memory       Show and change what this project remembers: .backstay/memory, plain files that you can read and edit.
    models       List models, show what is known of one, and read recorded answers.
    permissions  Judge a call without running it, check the rules, and show and remove grants.
    plugins      Install plugins, switch them on and off, and find more.
    secrets      Count the secrets in stored sessions, and erase them.
    sessions     List, search, rename, fork, compact, delete and move sessions.
    skills       List skills and commands of your own, show one, or check one against the open standard.
    trust        Show what this workspace would run or loosen, ask, and trust it from now on.
    usage        Show the tokens that models used, and what they cost, with a chart.
    """.strip().splitlines()
)
"""The commands and their help: with it, `backstay --help` loads none of them."""
_MODULES: Final = {"demo": "backstay.demo.show"}
"""Where a command is, if not in the module of its name."""
_PLANNED: Final = ("acp", "mcp", "run", "serve")
"""Commands that do not exist yet."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code; every error becomes one or two plain lines."""
    return output.with_stdout(lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    from backstay.vocab.errors import BackstayError

    try:
        _check_encoding(arguments)
        code = root.main(args=repeat_list_flags(arguments), prog_name="backstay", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as exc:
        output.warn(exc.format_message().replace("argument ()", "argument: an empty text"))
        if isinstance(exc, click.UsageError):
            command = exc.ctx.command_path if exc.ctx else "backstay"
            print(f"Try: {command} --help", file=sys.stderr)
        return exc.exit_code
    except BackstayError as exc:
        output.warn(str(exc))
        return output.exit_code_of(exc)
    except (click.Abort, KeyboardInterrupt):
        return output.INTERRUPTED
    except _ReaderGone:
        output.forget_output()
        return output.DONE


def _check_encoding(arguments: Sequence[str]) -> None:
    """Refuse an argument that is not UTF-8, such as a prompt or a file name of another encoding: no log could hold it."""
    for number, each in enumerate(arguments, 1):
        if not output.is_unicode(each):
            shown = os.fsencode(each).decode("utf-8", "backslashreplace")
            raise click.UsageError(f"Argument {number}, '{shown}', is not UTF-8. Write it in UTF-8.")


class _ReaderGone(Exception):
    """The reader of standard output is gone. A broken pipe is kept from click, which would end with 1."""


class LazyCommands(click.Group):
    """Commands that are loaded when they are used, and flags under headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the flags, which may print the help."""
        try:
            return super().parse_args(ctx, args)
        except BrokenPipeError as exc:
            raise _ReaderGone from exc

    def invoke(self, ctx: click.Context) -> Any:  # Any: as click has it
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise _ReaderGone from exc

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(_MODULES.get(cmd_name, f"backstay.cli.{cmd_name}"))
        command: click.Command = module.command
        return (
            accept_location(command) if cmd_name != "demo" else command
        )  # the demo has a store and a folder of its own

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with, or say what to type instead."""
        name = args[0]
        if name in _PLANNED:
            ctx.fail(f"The command {name!r} is not available yet.")
        if name not in COMMANDS:
            ctx.fail(f"There is no command {name!r}. A prompt is given with -p: backstay -p {name!r}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags under their headings, then the commands."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            line = option.get_help_record(ctx)
            if line is not None:
                heading = option.heading if isinstance(option, HeadedOption) else "Other"
                headings.setdefault(heading, []).append(line)
        for heading, lines in headings.items():
            with formatter.section(heading):
                formatter.write_dl(lines)
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


# --- the flags of a run ----------------------------------------------------------------------------------------------------------

MODES: Final = ("plan", "default", "acceptEdits", "dontAsk", "bypassPermissions")
FORMATS: Final = ("text", "json", "stream-json", "events")
_LIST_FLAGS: Final = ("--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools")
_RULE: Final = re.compile(r"(?:[A-Z]\w*|mcp__[\w*-]+)(?:\(.*\))?", re.DOTALL)


class HeadedOption(click.Option):
    """An option that stands under a heading of the help."""

    def __init__(self, *declared: Any, heading: str = "", **settings: Any) -> None:  # Any: as click has it
        super().__init__(*declared, **settings)
        self.heading = heading


def _refuse_flag(ctx: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """Refuse a flag in the place of a prompt: the prompt was forgotten."""
    flags = {name for each in ctx.command.params for name in each.opts}
    if given is not None and given.partition("=")[0] in flags:
        raise click.UsageError(f"-p needs a prompt, and {given} is a flag. -p - reads it from standard input.", ctx)
    return given


def _under(heading: str) -> Callable[..., Callable[[Any], Any]]:  # Any: as click has it
    return functools.partial(click.option, cls=HeadedOption, heading=heading)


_io, _session, _model = _under("In and out"), _under("The session"), _under("The model")
_limit, _permission, _where = _under("Limits"), _under("Permissions"), _under("Where")
_folder: Final = click.Path(exists=True, file_okay=False)

_FLAGS: Final[tuple[Callable[[Any], Any], ...]] = (  # Any: as click has it
    _io(
        "-p",
        "--print",
        "prompt",
        metavar="PROMPT",
        callback=_refuse_flag,
        help="One prompt, then exit; - reads it from standard input. With a prompt, what is piped in comes before it.",
    ),
    _io("--output-format", "output", type=click.Choice(FORMATS), default="text", help="What is printed."),
    _io(
        "--input-format",
        type=click.Choice(("text", "stream-json")),
        default="text",
        help="stream-json reads prompts, answers and interrupts as JSON lines.",
    ),
    _io("--include-partial-messages", "partial", is_flag=True, help="With stream-json: also the fragments."),
    _io("--verbose", is_flag=True, help="Accepted for compatibility; stream-json is always complete."),
    _session("-c", "--continue", "newest", is_flag=True, help="Go on with the newest session of this project."),
    _session("-r", "--resume", metavar="ID|NAME", help="Go on with this session."),
    _session("--fork-session", "fork", is_flag=True, help="With -c or -r: go on in a copy."),
    _session("--session-id", metavar="ID", help="Open the session of this id, or start it."),
    _session("--name", metavar="NAME", help="Give the session a name."),
    _session("--no-persist", "--no-session-persistence", "no_persist", is_flag=True, help="Keep nothing."),
    _session(
        "--on-crash",
        type=click.Choice(("continue", "abandon")),
        default="continue",
        help="What becomes of a turn that was open when the process died.",
    ),
    _session("--finish", is_flag=True, help="With -c or -r: finish the turn that was open, add no prompt."),
    _session("--input-id", metavar="ID", help="The same input sent again under this id is taken once."),
    _model(
        "--model",
        metavar="PROVIDER:MODEL",
        help="The model that answers: a profile of the settings, anthropic:MODEL, scripted:FILE ...",
    ),
    _model(
        "--fallback-model",
        "fallbacks",
        multiple=True,
        metavar="PROVIDER:MODEL",
        help="The model that answers when the first cannot; may be repeated.",
    ),
    _model("--effort", type=click.Choice(("low", "medium", "high")), help="How much the model should think."),
    _model("--json-schema", "schema", metavar="FILE|JSON", help="The answer is JSON that fits this schema."),
    _model("--system-prompt", metavar="TEXT", help="Replace the system prompt."),
    _model("--append-system-prompt", metavar="TEXT", default="", help="Add to the system prompt."),
    _limit("--max-turns", type=click.IntRange(min=1), metavar="N", help="Model calls that the run may take."),
    _limit(
        "--max-session-turns",
        type=click.IntRange(min=0),
        metavar="N",
        help="Prompts that the session may take; 50 when left out.",
    ),
    _limit("--max-budget-usd", "budget", metavar="X", help="Dollars that the session may cost, such as 0.25."),
    _limit(
        "--on-exceed",
        type=click.Choice(tuple(ON_EXCEED)),
        help="When the budget is spent: go on with a warning, fail, or pause and ask.",
    ),
    _limit("--allow-unpriced", is_flag=True, help="Keep a budget with a model of unknown price too."),
    _limit("--no-auto-compact", is_flag=True, help="Never shorten the conversation by itself."),
    _permission("--permission-mode", "mode", type=click.Choice(MODES), help="How calls are judged."),
    _permission("--allow", multiple=True, metavar="RULE", help="Run these calls without asking: Read, Bash ..."),
    _permission("--ask", multiple=True, metavar="RULE", help="Always ask for these calls."),
    _permission("--deny", multiple=True, metavar="RULE", help="Never run these calls."),
    _permission(
        "--allowedTools", "--allowed-tools", "allowed", multiple=True, metavar="RULES", help="Like --allow, for a list."
    ),
    _permission(
        "--disallowedTools",
        "--disallowed-tools",
        "disallowed",
        multiple=True,
        metavar="RULES",
        help="Like --deny, for a list.",
    ),
    _where("--cwd", type=_folder, metavar="DIR", help="The working folder."),
    _where("--store", metavar="URL", help="Where sessions live: sqlite:///FILE."),
    _where("--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over the person's own."),
    _where("--bare", is_flag=True, help="No settings, no extensions."),
    _permission(
        "--scope", type=click.Choice(("sandboxed", "project", "full")), help="How far commands and files may reach."
    ),
    _permission("--trust", is_flag=True, help="Trust what this workspace brings along, for this run."),
    _where(
        "--add-dir",
        "folders",
        multiple=True,
        type=_folder,
        metavar="DIR",
        help="Work in this folder too; may be repeated.",
    ),
    _where(
        "--mcp-config",
        "mcp_config",
        multiple=True,
        metavar="FILE|JSON",
        help="MCP servers besides those of the settings; may be repeated.",
    ),
    _model(
        "--agent",
        metavar="NAME",
        help="Be one of the agents that `backstay agents list` lists: its prompt, its tools, its model.",
    ),
    _session("--no-checkpoints", is_flag=True, help="Keep nothing of files before they are changed."),
)


def _run_flags(command: F) -> F:
    """Give a command all the flags of a run."""
    for declare in reversed(_FLAGS):
        command = declare(command)
    return command


def repeat_list_flags(arguments: Sequence[str]) -> list[str]:
    """Repeat the flag of a list before each of its rules: `--allowedTools Read "Bash(make *)"` is how people write one."""
    found: list[str] = []
    flag = ""
    for each in arguments:
        if flag and found[-1] != flag and _RULE.fullmatch(each):
            found.append(flag)
        elif found[-1:] != [flag]:
            flag = each if each in _LIST_FLAGS else ""
        found.append(each)
    return found


@click.group(cls=LazyCommands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@_run_flags
@click.option("--version", is_flag=True, help="Show the version.")
@click.pass_context
def root(ctx: click.Context, /, version: bool, **given: Any) -> int:  # Any: each flag has a type of its own
    """Run AI agent sessions that hold: every step is written down before it is done.

    \b
    backstay -p "What is in this folder?" --model scripted:FILE
    backstay -c -p "And now?"            go on with the newest session here
    backstay sessions list               what there is
    backstay demo                        watch a session survive a crash
    """
    if version:
        return output.print_version()
    ctx.obj = StoreLocation(store=given["store"], cwd=given["cwd"])
    if ctx.invoked_subcommand is not None:
        _refuse_run_flags(ctx)
        return 0
    from backstay.cli.prompt import run_prompt

    return run_prompt(given)


def _refuse_run_flags(ctx: click.Context) -> None:
    for option in ctx.command.params:
        name = option.name or ""
        source = ctx.get_parameter_source(name)
        if source is click.core.ParameterSource.COMMANDLINE and name not in ("store", "cwd"):
            raise click.UsageError(f"{option.opts[0]} belongs to -p, not to a command.", ctx)
