"""`backstay plugins marketplace`: where plugins are found."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstay.cli import output
from backstay.cli.trust import here, legible

if TYPE_CHECKING:
    from backstay.plugins.manage import Plugins
    from backstay.plugins.marketplace import KnownMarketplace, Marketplace

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("marketplace")
def command() -> None:
    """Add, remove, list and update the marketplaces that plugins are found in.

    Example: backstay plugins marketplace add acme/plugins
    """


@command.command("list")
@as_json
@here
def list_marketplaces(cwd: Path, as_json: bool) -> int:
    """List the marketplaces that are known, and what was fetched of each.

    Example: backstay plugins marketplace list --json
    """
    from backstay.plugins.manage import marketplaces_held_back

    plugins = opened(cwd)
    listed, problems = plugins.marketplaces.read_all()
    sizes = {each.name: len(each.entries) for each in listed}
    default = plugins.marketplaces.default
    rows = [_marketplace(name, known, sizes, default) for name, known in sorted(plugins.list_marketplaces().items())]
    rows += [
        {"name": name, "source": str(source), "state": "held back", "plugins": 0, "default": False, "commit": ""}
        for name, source in marketplaces_held_back(plugins.place)
    ]
    if as_json:
        output.say_json(rows)
    else:
        table = [
            (
                f"{row['name']}{' (default)' if row['default'] else ''}",
                str(row["plugins"]),
                str(row["state"]),
                str(row["source"]),
            )
            for row in rows
        ]
        output.say_table(("marketplace", "plugins", "", "from"), table)
    for words in problems:
        output.warn(legible(words))
    return 0


@command.command("add")
@click.argument("source")
@click.option("--name", default="", help="What to call it here; else what it calls itself.")
@click.option("--default", "default", is_flag=True, help="Mean it when no marketplace is named.")
@as_json
@here
def add_marketplace(cwd: Path, source: str, name: str, default: bool, as_json: bool) -> int:
    """Fetch a marketplace and know it from now on.

    SOURCE is OWNER/REPO, the address of a git repository or of a marketplace.json, an archive, or a folder. Nothing of it is installed.

    Example: backstay plugins marketplace add ./my-marketplace
    """
    from backstay.plugins.install.sources import source_of
    from backstay.system.machine import SystemClock

    meant = source_of(source, cwd.absolute())

    async def work() -> int:
        plugins = opened(cwd)
        found = await plugins.marketplaces.add(meant, SystemClock().now(), name=name, default=default)
        return _fetched(found, as_json=as_json)

    return run(work)


@command.command("update")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@as_json
@here
def update_marketplaces(cwd: Path, names: tuple[str, ...], as_json: bool) -> int:
    """Fetch marketplaces again: those that are named, or all.

    Example: backstay plugins marketplace update acme
    """
    from backstay.system.machine import SystemClock
    from backstay.vocab.errors import UserError

    async def work() -> int:
        plugins = opened(cwd)
        code, found = 0, []
        for name in names or tuple(plugins.marketplaces.read_known()):
            try:
                found.append(await plugins.marketplaces.update(name, SystemClock().now()))
            except UserError as exc:
                output.warn(legible(f"{name}: {exc}"))
                code = output.COULD_NOT
        if as_json:
            output.say_json([_about(each) for each in found])
            return code
        for each in found:
            _fetched(each, as_json=False)
        return code

    return run(work)


@command.command("remove")
@click.argument("name")
@as_json
@here
def remove_marketplace(cwd: Path, name: str, as_json: bool) -> int:
    """Forget a marketplace. Plugins of it stay installed and are not loaded any more.

    Example: backstay plugins marketplace remove acme
    """
    plugins = opened(cwd)
    left = sorted(str(each) for each in plugins.installed.read() if each.marketplace == name)
    if not plugins.marketplaces.remove(name):
        output.warn(legible(f"There is no marketplace {name!r}. Nothing was changed."))
        return output.COULD_NOT
    words = f"{name} is forgotten."
    if left:
        words += f" Not loaded any more: {', '.join(left)}."
    return told({"name": name, "removed": True, "not_loaded": left}, words, as_json=as_json)


def opened(cwd: Path) -> "Plugins":
    """The plugins of a folder."""
    from backstay.plugins.manage import Plugins
    from backstay.system.machine import SystemClock

    return Plugins(cwd, SystemClock())


def run(work: Callable[[], Awaitable[int]]) -> int:
    """Do something that waits."""
    import anyio

    return anyio.run(work)


def told(content: Mapping[str, object], words: str, *, as_json: bool) -> int:
    """Say what came of it, to a program or to a person."""
    if as_json:
        output.say_json(content)
    else:
        output.say(words)
    return 0


def _marketplace(name: str, known: "KnownMarketplace", sizes: dict[str, int], default: str) -> dict[str, object]:
    state = "fetched" if name in sizes else "broken" if known.fetched else "not fetched"
    return {
        "name": name,
        "source": legible(str(known.source)),
        "state": state,
        "plugins": sizes.get(name, 0),
        "default": name == default,
        "commit": known.commit,
    }


def _fetched(found: "Marketplace", *, as_json: bool) -> int:
    for each in found.problems:
        output.warn(legible(each))
    words = f"{found.name}: {len(found.entries)} plugins, by {legible(found.owner) or 'nobody named'}."
    return told(_about(found), words, as_json=as_json)


def _about(found: "Marketplace") -> dict[str, object]:
    return {
        "name": found.name,
        "owner": legible(found.owner),
        "plugins": len(found.entries),
        "problems": [legible(each) for each in found.problems],
    }
