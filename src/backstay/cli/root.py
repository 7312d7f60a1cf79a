"""`backstay`: the flags of a run, and the commands, each loaded when it is used."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from backstay.cli import output
from backstay.cli.flags import HeadedOption, prompt_flags, spread
from backstay.cli.location import StoreLocation, accept, is_unicode

COMMANDS: Final = {
    "agents": "agents",
    "config": "config",
    "demo": "demo",
    "doctor": "doctor",
    "export": "export",
    "hooks": "hooks",
    "log": "log",
    "memory": "memory",
    "models": "models",
    "permissions": "permissions",
    "plugins": "plugins",
    "secrets": "secrets",
    "sessions": "sessions",
    "skills": "skills",
    "trust": "trust",
    "usage": "usage",
}
"""The commands and the modules that hold them."""
LATER: Final = (
    "acp",
    "mcp",
    "run",
    "serve",
)
"""Commands that are promised and not there yet."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code; every error becomes one or two plain lines."""
    return output.with_stdout(lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    from backstay.vocab.errors import BackstayError

    try:
        _check_bytes(arguments)
        code = root.main(args=spread(arguments), prog_name="backstay", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as exc:
        output.warn(exc.format_message())
        if isinstance(exc, click.UsageError):
            command = exc.ctx.command_path if exc.ctx else "backstay"
            print(f"Try: {command} --help", file=sys.stderr)
        return exc.exit_code
    except BackstayError as exc:
        output.warn(str(exc))
        return output.exit_code_of(exc)
    except (click.Abort, KeyboardInterrupt):
        return output.INTERRUPTED
    except _NobodyReads:
        output.forget_output()
        return output.DONE


def _check_bytes(arguments: Sequence[str]) -> None:
    """Refuse what is not UTF-8, as a prompt of another encoding is or the name of a file: no log could hold it."""
    for number, each in enumerate(arguments, 1):
        if not is_unicode(each):
            shown = os.fsencode(each).decode("utf-8", "backslashreplace")
            raise click.UsageError(f"Argument {number}, '{shown}', is not UTF-8. Write it in UTF-8.")


class _NobodyReads(Exception):
    """The reader of what is printed went away. A pipe that breaks is kept from click, which would end with 1."""


class LazyCommands(click.Group):
    """Commands that load when they are used, and flags under headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the flags; the help may be printed by that."""
        try:
            return super().parse_args(ctx, args)
        except BrokenPipeError as exc:
            raise _NobodyReads from exc

    def invoke(self, ctx: click.Context) -> Any:  # Any: as click has it
        """Run what was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise _NobodyReads from exc

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"backstay.cli.{COMMANDS[cmd_name]}").command
        return accept(found) if cmd_name != "demo" else found  # which has a store and a folder of its own

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with, or say what to type instead."""
        name = args[0]
        if name in LATER:
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
        self.format_commands(ctx, formatter)


@click.group(cls=LazyCommands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@prompt_flags
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
        return output.say_version()
    ctx.obj = StoreLocation(store=given["store"], cwd=given["cwd"])
    if ctx.invoked_subcommand is not None:
        _refuse_run_flags(ctx)
        return 0
    from backstay.cli.prompt import run_prompt

    return run_prompt(ctx, given)


def _refuse_run_flags(ctx: click.Context) -> None:
    for option in ctx.command.params:
        name = option.name or ""
        source = ctx.get_parameter_source(name)
        if source is click.core.ParameterSource.COMMANDLINE and name not in ("store", "cwd"):
            raise click.UsageError(f"{option.opts[0]} belongs to -p, not to a command.", ctx)
