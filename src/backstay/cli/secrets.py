"""`backstay secrets`: what stands in stored sessions that should not, and getting rid of it."""

import functools
from typing import Any

import click

from backstay.cli.location import StoreLocation, placed
from backstay.cli.sessions import as_json


@click.group("secrets")
def command() -> None:
    """Count the secrets that stand in stored sessions, and erase them."""


_session = click.option("--session", metavar="ID", help="Only this session, by its id or its name.")


@command.command()
@_session
@as_json
@placed
def scan(place: StoreLocation, **given: Any) -> int:  # Any: each flag has a type of its own
    """Count secrets by session: what they are and where they stand, never what they say. Changes nothing.

    \b
    Found are the shapes of keys, tokens and passwords, the values of variables whose name says that they are secret,
    and the keys that the settings name.
    Without --store, the usual store and the stores beside it are looked through. Exit 1 when there is any secret.
    """
    return _run("scan", place, **given)


@command.command()
@_session
@click.option("--reason", default="", metavar="TEXT", help="Why, for the log.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Without a terminal it is needed.")
@as_json
@placed
def erase(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Replace every secret that `scan` finds by a mark, in events, blobs, traces, the search index and snapshots.

    \b
    A mark holds a hash and the kind: [ERASED 3f9a1c2b40d1: a private key]. The same hash, in one run, is the same secret.
    The log goes on to work, the files hold nothing of the secrets any more, and an event says what was done.
    What a file held is not given a mark: it is kept no longer, and /rewind cannot put it back.
    Without --session the files are written anew in any case, so that nothing is left of deleted sessions.
    It cannot be undone. Copies and backups of a store are not changed; a key that was written down should be replaced.
    """
    return _run("erase", place, **given)


def _run(name: str, place: StoreLocation, /, **given: Any) -> int:  # Any: as above
    import anyio

    from backstay.cli import secret_actions

    code: int = anyio.run(functools.partial(getattr(secret_actions, name), place, **given))
    return code
