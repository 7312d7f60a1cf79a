"""Where a command looks: the store and the folder, given before the command or after it."""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from backstay.cli import output
from backstay.vocab.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from backstay.ports import EventStore

F = TypeVar("F", bound=Callable[..., Any])  # Any: click decorates functions of every shape


class StoreLocation(Struct, frozen=True):
    """A store's URL and a folder; None where the usual one is meant."""

    store: str | None = None
    cwd: str | None = None

    @property
    def url(self) -> str:
        """The URL of the store."""
        from backstay.session.options import default_store_url

        return self.store or default_store_url()

    @property
    def path(self) -> "Path | None":
        """The file of the store that was named; None when none was, or it is no file."""
        from pathlib import Path

        kind, _, rest = (self.store or "").partition(":")
        path = rest.partition("?")[0].removeprefix("//")
        return Path(path).absolute() if kind in ("sqlite", "sqlcipher") and path else None

    @asynccontextmanager
    async def opened(self, *, read_only: bool = False) -> "AsyncIterator[EventStore]":
        """The store, open. Only the usual one is made when it is missing."""
        from backstay.catalog.open_store import opened
        from backstay.config.former_name import explain_former_store, warn_former_store
        from backstay.headless.formats import hinting

        if words := warn_former_store() if self.store is None else "":
            output.warn(words)
        if words := explain_former_store(self.store or ""):
            raise UserError(words)
        create = self.store is None and not read_only
        async with opened(self.url, read_only=read_only, create=create) as store:
            with hinting(store.url):
                yield store


def is_unicode(text: str) -> bool:
    """Whether `text` is more than bytes that nobody could read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def accept(command: click.Command) -> click.Command:
    """Let `--store` and `--cwd` stand behind `command` and each command of it, also where they say nothing: a program adds them to all."""
    declared = {name for option in command.params for name in option.opts}
    for name, kind in (("--store", None), ("--cwd", click.Path(exists=True, file_okay=False))):
        if name not in declared:
            command.params.append(click.Option([name], type=kind, hidden=True, expose_value=False, callback=_remember))
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        accept(each)
    return command


def _remember(ctx: click.Context, option: click.Parameter, given: str | None) -> None:
    """Hand a flag that stood here to whoever asks for the place."""
    if given is not None:
        before = ctx.find_object(StoreLocation) or StoreLocation()
        ctx.obj = replace(before, **{option.name or "": given})


def placed(command: F) -> F:
    """Give a command `--store` and `--cwd`, and hand it the `Place` that they mean, also when they stood before it."""

    @click.option("--store", metavar="URL", help="Where sessions live.")
    @click.option("--cwd", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="The working folder.")
    @click.pass_context
    @functools.wraps(command)
    def with_place(ctx: click.Context, /, **given: Any) -> Any:  # Any: as the command has it
        before = ctx.find_object(StoreLocation) or StoreLocation()
        place = StoreLocation(store=given.pop("store") or before.store, cwd=given.pop("cwd") or before.cwd)
        return command(place=place, **given)

    return with_place  # type: ignore[return-value]  # click adds and removes parameters
