"""What a command is: a name, a sentence, who may use it, and what it does."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from msgspec import Struct, field

from backstay.vocab.event import By

if TYPE_CHECKING:
    from backstay.session.project.context import ProjectContext
    from backstay.session.session import Session

Safety = Literal["reads", "proposes", "writes"]
"""`proposes`: what a model does with it waits for a person, in files of our own."""
Source = Literal["built-in", "skill", "custom", "plugin", "mcp", "module"]


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A command as menus and models know it."""

    name: str
    """Without the slash. A plugin's is `plugin:name`."""
    description: str
    argument_hint: str = ""
    subcommands: tuple[str, ...] = ()
    model_invocable: bool = False
    user_invocable: bool = True
    safety: Safety = "writes"
    """Whether it only looks. What a model may do with a command that writes is the policy's to say."""
    source: Source = "built-in"
    origin: str = ""
    """The plugin, server or file that it comes from."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a command."""

    message: str
    success: bool = True
    data: Mapping[str, object] = {}
    """For programs; what the caller is to do about it is in here too: pick a session, reset, leave."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What is said to the model because of a command: a skill, a command of one's own, a server's prompt."""

    prompt: str
    display: str
    """What the person typed: histories and hooks see this."""
    skill: str = ""


class CommandCall(Struct, frozen=True, kw_only=True):
    """One use of a command."""

    session: "Session"
    kit: "ProjectContext"
    name: str
    args: str = ""
    by: By = "user"

    @property
    def words(self) -> list[str]:
        """The arguments, split at blanks."""
        return self.args.split()


Execute = Callable[[CommandCall], Awaitable[CommandResult]]
Expand = Callable[[CommandCall], Awaitable[Submission]]


class Command(Struct, frozen=True, kw_only=True):
    """A command that can be run. One with `expand` says something to the model instead of answering by itself."""

    spec: CommandSpec
    execute: Execute | None = None
    expand: Expand | None = None


class CommandSource(Protocol):
    """Something that commands come from; asked again each time, so that what it finds may change."""

    @property
    def name(self) -> str:
        """What it is called in listings."""

    def commands(self) -> Iterable[Command]:
        """The commands, those that win first."""


class CommandModule(Struct, frozen=True, kw_only=True):
    """Commands that come together with what they need of a session. The SDK never knows their names."""

    name: str
    sources: tuple[CommandSource, ...] = ()
    commands: tuple[Command, ...] = ()
    requirements: frozenset[str] = field(default_factory=frozenset)
    """What the session must offer, such as `agent-runtime`."""


def command(
    name: str,
    *,
    hint: str = "",
    subcommands: tuple[str, ...] = (),
    model: bool = False,
    safety: Safety = "writes",
) -> Callable[[Execute], Command]:
    """Make a built-in command of a function. Its first line of documentation is the description."""

    def make(function: Execute) -> Command:
        description = (function.__doc__ or "").strip().partition("\n")[0]
        spec = CommandSpec(
            name=name,
            description=description,
            argument_hint=hint,
            subcommands=subcommands,
            model_invocable=model,
            safety=safety,
        )
        return Command(spec=spec, execute=function)

    return make


def usage(call: CommandCall, hint: str) -> CommandResult:
    """The answer to arguments that a command cannot use."""
    return CommandResult(message=f"Usage: /{call.name} {hint}", success=False)
