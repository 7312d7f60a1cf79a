"""Options that several commands share, and the store and folder a command works on."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from backstay.cli import output
from backstay.vocab.errors import UserError

if TYPE_CHECKING:
    from backstay.ports import EventStore
    from backstay.vocab.event import OnExceed

F = TypeVar("F", bound=Callable[..., Any])  # Any: click decorates functions of every shape

ON_EXCEED: Final[dict[str, "OnExceed"]] = {"warn": "warn", "fail": "fail", "pause": "pause_for_approval"}
"""The choices of `--on-exceed`, and their names in the log."""
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
settings = click.option(
    "--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over the person's own."
)
trust = click.option("--trust", is_flag=True, help="As if this workspace were trusted.")
_store = click.option("--store", metavar="URL", help="Where sessions live.")
_cwd = click.option("--cwd", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="The working folder.")


class StoreLocation(Struct, frozen=True):
    """A store's URL and a folder; None means the default."""

    store: str | None = None
    cwd: str | None = None

    @property
    def url(self) -> str:
        """The URL of the store."""
        from backstay.stores.open import default_store_url

        return self.store or default_store_url()

    @property
    def path(self) -> Path | None:
        """The file of the named store; None when no store is named, or it is no file."""
        kind, _, rest = (self.store or "").partition(":")
        path = rest.partition("?")[0].removeprefix("//")
        return Path(path).absolute() if kind in ("sqlite", "sqlcipher") and path else None

    @property
    def folder(self) -> Path:
        """The working folder."""
        return Path(self.cwd or ".")

    @asynccontextmanager
    async def open(self, *, read_only: bool = False) -> "AsyncIterator[EventStore]":
        """Open the store. Only the default one is created when it is missing."""
        from backstay.config.former_name import explain_former_store, warn_former_store
        from backstay.headless.formats import hinting
        from backstay.stores.open import use_store

        if words := warn_former_store() if self.store is None else "":
            output.warn(words)
        if words := explain_former_store(self.store or ""):
            raise UserError(words)
        create = self.store is None and not read_only
        async with use_store(self.url, read_only=read_only, create=create, warn=output.warn) as store:
            with hinting(store.url):
                yield store


def with_location(command: F) -> F:
    """Give a command `--store` and `--cwd`, and pass it the `location` that they or those before the command name."""

    @_store
    @_cwd
    @click.pass_context
    @functools.wraps(command)
    def run(ctx: click.Context, /, **given: Any) -> Any:  # Any: as the command has it
        before = ctx.find_object(StoreLocation) or StoreLocation()
        location = StoreLocation(store=given.pop("store") or before.store, cwd=given.pop("cwd") or before.cwd)
        return _call(command, location=location, **given)

    return run  # type: ignore[return-value]  # click adds and removes parameters


def with_folder(command: F) -> F:
    """Give a command `--cwd`, and pass it the folder that it or the one before the command names."""

    @_cwd
    @click.pass_context
    @functools.wraps(command)
    def run(ctx: click.Context, /, **given: Any) -> Any:  # Any: as the command has it
        before = ctx.find_object(StoreLocation) or StoreLocation()
        return _call(command, cwd=Path(given.pop("cwd") or before.folder), **given)

    return run  # type: ignore[return-value]  # click adds and removes parameters


def _call(command: Callable[..., Any], **given: Any) -> Any:  # Any: as the command has it
    """Call a command; run a coroutine to its end."""
    if not inspect.iscoroutinefunction(command):
        return command(**given)
    import anyio

    return anyio.run(functools.partial(command, **given))


def accept_location(command: click.Command) -> click.Command:
    """Accept `--store` and `--cwd` behind `command` and each command of it, also where they have no effect: programs add them to all."""
    declared = {name for option in command.params for name in option.opts}
    for name, kind in (("--store", None), ("--cwd", click.Path(exists=True, file_okay=False))):
        if name not in declared:
            command.params.append(click.Option([name], type=kind, hidden=True, expose_value=False, callback=_remember))
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        accept_location(each)
    return command


def _remember(ctx: click.Context, option: click.Parameter, given: str | None) -> None:
    """Keep a flag of a group for its command."""
    if given is not None:
        before = ctx.find_object(StoreLocation) or StoreLocation()
        ctx.obj = replace(before, **{option.name or "": given})
