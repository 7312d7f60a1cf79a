"""Commands: what one is, who may use it and what it does, and the registry of all commands of a session."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from backstay.vocab.errors import UserError
from backstay.vocab.event import By

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
    """The result of a command."""

    message: str
    success: bool = True
    data: Mapping[str, object] = {}
    """For programs; what the caller is to do about it is in here too: pick a session, reset, leave."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """The input that a command sends to the model: a skill, a command of one's own, a server's prompt."""

    prompt: str
    display: str
    """What the person typed: histories and hooks see this."""
    skill: str = ""


class PromptSession(Protocol):
    """A session as the registry uses it: it answers what a command says to the model."""

    async def run(self, prompt: str, *, display: str, raw: str) -> str:
        """Return the model's answer."""


SessionT = TypeVar("SessionT", bound=PromptSession)
ProjectT = TypeVar("ProjectT")


class CommandCall(Struct, Generic[SessionT, ProjectT], frozen=True, kw_only=True):
    """One use of a command. Which session and project context it has, `SessionCall` in `session/session.py` says."""

    session: SessionT
    project: ProjectT
    name: str
    args: str = ""
    by: By = "user"

    @property
    def words(self) -> list[str]:
        """The arguments, split at blanks."""
        return self.args.split()


AnyCall = CommandCall[Any, Any]  # Any: a session is typed in terms of its commands, so they cannot name its type here
Execute = Callable[[AnyCall], Awaitable[CommandResult]]
Expand = Callable[[AnyCall], Awaitable[Submission]]


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
        """Return the commands, those that win first."""


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


def usage(call: AnyCall, hint: str) -> CommandResult:
    """Return the result for arguments that a command cannot use."""
    return CommandResult(message=f"Usage: /{call.name} {hint}", success=False)


class FixedSource(Struct, frozen=True):
    """A source whose commands never change."""

    name: str
    given: Sequence[Command]

    def commands(self) -> Iterable[Command]:
        """Return the commands."""
        return self.given


class DynamicSource(Struct, frozen=True):
    """A source that is asked each time."""

    name: str
    look: Callable[[], Iterable[Command]]

    def commands(self) -> Iterable[Command]:
        """Return the commands there are now."""
        return self.look()


class Commands:
    """The registry. Of two commands with one name, that of the source added first is meant."""

    def __init__(self, *sources: CommandSource, offers: frozenset[str] = frozenset()) -> None:
        """Set the sources; `offers` is what the session has for modules that require something."""
        self._sources: list[CommandSource] = list(sources)
        self._offers = offers

    def add_module(self, module: CommandModule) -> None:
        """Take in a module. Raise `UserError` when the session does not offer what it requires."""
        if missing := module.requirements - self._offers:
            raise UserError(
                f"The command module {module.name!r} requires {', '.join(sorted(missing))}, which this session does not offer."
            )
        self._sources += module.sources
        if module.commands:
            self._sources.append(FixedSource(module.name, module.commands))

    def find(self, name: str) -> Command | None:
        """Return the command called `name`. A plugin's may be named without its plugin where no other has the name."""
        every = list(self)
        exact = next((each for each in every if each.spec.name == name), None)
        if exact is not None or ":" in name:
            return exact
        short = [each for each in every if each.spec.name.rpartition(":")[2] == name]
        return short[0] if len(short) == 1 else None

    def specs(self, *, prefix: str = "", hidden: bool = False) -> tuple[CommandSpec, ...]:
        """Return what there is, by name; with `hidden`, also what no menu shows."""
        fitting = (
            each.spec for each in self if each.spec.name.startswith(prefix) and (hidden or each.spec.user_invocable)
        )
        return tuple(sorted(fitting, key=lambda spec: spec.name))

    def complete(self, text: str) -> tuple[str, ...]:
        """Return what `text`, typed after a slash, may become: a name, or a subcommand after a name."""
        name, blank, rest = text.partition(" ")
        if not blank:
            return tuple(spec.name for spec in self.specs(prefix=name))
        found = self.find(name)
        if found is None or " " in rest:
            return ()
        return tuple(f"{name} {each}" for each in found.spec.subcommands if each.startswith(rest))

    async def run(self, call: CommandCall[SessionT, ProjectT]) -> CommandResult | None:
        """Run a command by itself; one that speaks to the model waits for the answer. None when there is no such command."""
        found = self.find(call.name)
        if found is None or not _may(found.spec, call):
            return None
        if found.execute is not None:
            return await found.execute(call)
        assert found.expand is not None
        said = await found.expand(call)
        text = await call.session.run(said.prompt, display=said.display, raw=said.display)
        return CommandResult(message=text, data={"submitted": True})

    def __iter__(self) -> Iterator[Command]:
        """Yield every command that its name selects."""
        seen: set[str] = set()
        for source in self._sources:
            for command in source.commands():
                if command.spec.name not in seen:
                    seen.add(command.spec.name)
                    yield command


def _may(spec: CommandSpec, call: AnyCall) -> bool:
    return spec.model_invocable if call.by == "model" else spec.user_invocable
