"""The programs that settings name for hooks and servers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from backstay.config.trust.followed import NotFollowed, command_table
from backstay.config.trust.run_files import CommandLook, looked_at


class HookCommand(Struct, frozen=True):
    """A program that the settings name for a hook."""

    command: str
    args: tuple[str, ...] | None
    bash: bool
    variables: frozenset[str]
    """Those that are set for it."""
    fetches: bool = False
    """As in `looked_at`."""

    @property
    def text(self) -> str:
        """What tells it from others."""
        return command_text(self.command, self.args)

    def look(self, bases: tuple[Path, ...], home: Path) -> CommandLook:
        """What it runs of the project. Raise `NotFollowed`."""
        if not self.bash:
            raise NotFollowed("it is written for another shell than bash")
        if steered := sorted(filter(command_table().steers, self.variables)):
            raise NotFollowed(f"the settings set {steered[0]} for it")
        return looked_at(self.command, self.args, bases, home, fetches=self.fetches)


def hook_commands(hooks: object, variables: frozenset[str]) -> Iterator[HookCommand]:
    """The programs in a section of hooks, however it is nested. `variables` are set for all of them."""
    waiting = [hooks]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
            command, args, own = each.get("command"), each.get("args"), each.get("env")
            if isinstance(command, str):
                yield HookCommand(
                    command=command,
                    args=tuple(map(str, args)) if isinstance(args, list) else None,
                    bash=each.get("shell", "bash") == "bash",
                    variables=variables.union(map(str, own) if isinstance(own, Mapping) else ()),
                )
        elif isinstance(each, list | tuple):
            waiting += each


def server_commands(servers: object) -> Iterator[HookCommand]:
    """The programs of MCP servers: each is started as it is, without a shell."""
    for each in servers.values() if isinstance(servers, Mapping) else ():
        if isinstance(each, Mapping) and isinstance(command := each.get("command"), str) and command:
            args, own = each.get("args"), each.get("env")
            yield HookCommand(
                command=command,
                args=tuple(map(str, args)) if isinstance(args, list) else (),
                bash=True,
                variables=frozenset(map(str, own) if isinstance(own, Mapping) else ()),
                fetches=True,
            )


def command_text(command: str, args: Sequence[str] | None) -> str:
    """What tells a hook's program from others: the words that it is started with."""
    return " ".join((command, *(args or ())))
