"""All commands of a session, from all their sources."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from backstay.commands.spec import Command, CommandCall, CommandModule, CommandResult, CommandSource, CommandSpec
from backstay.vocab.errors import UserError


class Fixed(Struct, frozen=True):
    """A source whose commands never change."""

    name: str
    given: Sequence[Command]

    def commands(self) -> Iterable[Command]:
        """The commands."""
        return self.given


class Looked(Struct, frozen=True):
    """A source that is asked each time."""

    name: str
    look: Callable[[], Iterable[Command]]

    def commands(self) -> Iterable[Command]:
        """The commands there are now."""
        return self.look()


class Commands:
    """The registry. Of two commands with one name, that of the source added first is meant."""

    def __init__(self, *sources: CommandSource, offers: frozenset[str] = frozenset()) -> None:
        """`offers` is what the session can do for modules that require something."""
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
            self._sources.append(Fixed(module.name, module.commands))

    def find(self, name: str) -> Command | None:
        """The command called `name`. A plugin's may be named without its plugin where no other has the name."""
        every = list(self)
        exact = next((each for each in every if each.spec.name == name), None)
        if exact is not None or ":" in name:
            return exact
        short = [each for each in every if each.spec.name.rpartition(":")[2] == name]
        return short[0] if len(short) == 1 else None

    def specs(self, *, prefix: str = "", hidden: bool = False) -> tuple[CommandSpec, ...]:
        """What there is, by name; with `hidden`, also what no menu shows."""
        fitting = (
            each.spec for each in self if each.spec.name.startswith(prefix) and (hidden or each.spec.user_invocable)
        )
        return tuple(sorted(fitting, key=lambda spec: spec.name))

    def complete(self, text: str) -> tuple[str, ...]:
        """What `text`, typed after a slash, may become: a name, or a subcommand after a name."""
        name, blank, rest = text.partition(" ")
        if not blank:
            return tuple(spec.name for spec in self.specs(prefix=name))
        found = self.find(name)
        if found is None or " " in rest:
            return ()
        return tuple(f"{name} {each}" for each in found.spec.subcommands if each.startswith(rest))

    async def run(self, call: CommandCall) -> CommandResult | None:
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
        """Every command that is meant by its name."""
        seen: set[str] = set()
        for source in self._sources:
            for command in source.commands():
                if command.spec.name not in seen:
                    seen.add(command.spec.name)
                    yield command


def _may(spec: CommandSpec, call: CommandCall) -> bool:
    return spec.model_invocable if call.by == "model" else spec.user_invocable
