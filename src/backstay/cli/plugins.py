"""`backstay plugins`: install, update and switch plugins, and the marketplaces that they are found in."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from backstay.cli import output
from backstay.cli.output import escape_untrusted, redact_untrusted
from backstay.cli.shared_options import as_json, with_folder, yes
from backstay.config.person import require_person
from backstay.plugins.ids import compare
from backstay.plugins.install.install import Staged, list_contents
from backstay.plugins.install.sources import source_of
from backstay.plugins.installed import Installed, Scope
from backstay.plugins.known_marketplaces import KnownMarketplace
from backstay.plugins.manage import PluginRow, Plugins, marketplaces_held_back
from backstay.plugins.marketplace import Marketplace
from backstay.plugins.marketplace import search as find
from backstay.plugins.plugin import read_plugin
from backstay.system.machine import SystemClock
from backstay.vocab.errors import UserError

scoped = click.option(
    "--scope",
    type=click.Choice(("person", "project")),
    default="person",
    show_default=True,
    help="For you in every project, or for this project: then its .backstay/settings.json says so.",
)
_HEADINGS: Final = (
    ("hooks", "Hooks that would run by themselves"),
    ("servers", "MCP servers that would be started"),
    ("commands", "Commands"),
    ("skills", "Skills"),
    ("agents", "Agents"),
    ("rules", "Calls that it denies or asks about"),
    ("problems", "Left out"),
)


@click.group("plugins")
def command() -> None:
    """Install plugins, switch them on and off, and find more.

    \b
    backstay plugins search review
    backstay plugins install NAME@MARKETPLACE
    backstay plugins install ./folder        or an archive, OWNER/REPO, an address
    backstay plugins marketplace add OWNER/REPO

    Nothing of a plugin runs before you have seen it and agreed, and it runs only as long as its files are what you saw.
    """


@command.command("list")
@as_json
@with_folder
def list_plugins(cwd: Path, as_json: bool) -> int:
    """List the plugins that are installed or switched on here, and the state of each.

    Example: backstay plugins list --json
    """
    plugins = Plugins(cwd, SystemClock())
    rows = plugins.rows()
    if as_json:
        output.print_json([_row(row) for row in rows])
        return 0
    output.print_table(
        ("plugin", "version", "for", "", "about"),
        [(row.id, row.version, row.scope, row.state, redact_untrusted(row.description)[:60]) for row in rows],
    )
    for row in rows:
        if row.problem:
            output.warn(escape_untrusted(f"{row.id}: {row.problem}"))
    for words in plugins.config.enabling.problems:
        output.warn(escape_untrusted(words))
    return 0


@command.command()
@click.argument("name")
@as_json
@with_folder
def show(cwd: Path, name: str, as_json: bool) -> int:
    """Show an installed plugin: where it comes from, its hash, and everything that it brings.

    Example: backstay plugins show reviewer
    """
    plugins = Plugins(cwd, SystemClock())
    found = plugins.find(name)
    record = plugins.record(found)
    row = next(each for each in plugins.rows() if each.id == str(found))
    folder = plugins.installed.folder_of(found, record.version)
    plugin = read_plugin(folder, name=found.name, marketplace=found.marketplace, version=record.version)
    brings = list_contents(plugin)
    if as_json:
        about = {
            "author": escape_untrusted(plugin.manifest.author),
            "keywords": [escape_untrusted(each) for each in plugin.manifest.keywords],
            "folder": str(folder),
        }
        output.print_json({**_row(row), **about, "brings": _brings_object(brings)})
        return 0
    output.print_line(f"{row.id} {row.version}, {row.state}, for this {row.scope}")
    output.print_line(f"From {escape_untrusted(row.source)}{f' at {row.commit}' if row.commit else ''}")
    output.print_line(f"SHA-256 over its files: {row.sha256}")
    for line in _lines(brings):
        output.print_line(line)
    if row.problem:
        output.warn(escape_untrusted(row.problem))
    return 0


@command.command()
@click.argument("words", nargs=-1)
@click.option("--keyword", default="", metavar="WORD", help="Only plugins with this keyword or tag.")
@click.option("--category", default="", metavar="WORD", help="Only plugins of this category.")
@as_json
@with_folder
def search(cwd: Path, words: tuple[str, ...], keyword: str, category: str, as_json: bool) -> int:
    """Find plugins in the marketplaces that were fetched, by name, description, keyword or category.

    Example: backstay plugins search review --category security
    """
    plugins = Plugins(cwd, SystemClock())
    listed, problems = plugins.marketplaces.read_all()
    found = find(listed, " ".join(words), keyword=keyword, category=category)
    rows = [
        {
            "id": f"{each.name}@{each.marketplace}",
            "version": escape_untrusted(each.version),
            "category": escape_untrusted(each.category),
            "keywords": [escape_untrusted(word) for word in each.keywords],
            "description": escape_untrusted(each.description),
        }
        for each in found
    ]
    if as_json:
        output.print_json(rows)
    else:
        about = [
            (str(row["id"]), str(row["version"]), str(row["category"]), str(row["description"])[:80]) for row in rows
        ]
        output.print_table(("plugin", "version", "category", "about"), about)
    for each in problems:
        output.warn(escape_untrusted(each))
    if not listed:
        output.warn("No marketplace was fetched yet. Fetch those that are known: backstay plugins marketplace update")
    return 0


@command.command()
@click.argument("what")
@scoped
@yes
@as_json
@with_folder
async def install(cwd: Path, what: str, scope: Scope, yes: bool, as_json: bool) -> int:
    """Fetch a plugin, show what it would bring, ask, and install it.

    \b
    backstay plugins install reviewer@acme         of a marketplace
    backstay plugins install ./my-plugin           a folder
    backstay plugins install acme/reviewer#v1.2    a git repository
    backstay plugins install ./acme-1.0.whl        an archive: .zip, .tar.gz, .tgz, .whl
    """

    plugins = Plugins(cwd, SystemClock())
    async with plugins.staging(what) as staged:
        return _decide(plugins, staged, scope, yes=yes, as_json=as_json)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scope", type=click.Choice(("person", "project")), help="Only those that are installed so.")
@yes
@as_json
@with_folder
async def update(cwd: Path, names: tuple[str, ...], scope: str | None, yes: bool, as_json: bool) -> int:
    """Look for newer versions of installed plugins, show what they would bring, ask, and install them. JSON is a line for each.

    What is switched off stays off. Example: backstay plugins update reviewer
    """
    plugins, code = Plugins(cwd, SystemClock()), 0
    for name in names:
        plugins.find(name)
    for plugin, record in plugins.here():
        if (names and not {plugin.name, str(plugin)} & set(names)) or scope not in (None, record.scope):
            continue
        try:
            async with plugins.staging_again(plugin) as staged:
                code = max(code, _update(plugins, staged, record, yes=yes, as_json=as_json))
        except UserError as exc:
            output.warn(escape_untrusted(f"{plugin}: {exc}"))
            code = max(code, output.COULD_NOT)
    return code


@command.command()
@click.argument("name")
@scoped
@as_json
@with_folder
def uninstall(cwd: Path, name: str, scope: Scope, as_json: bool) -> int:
    """Remove a plugin, its files, and its entry in the settings.

    Example: backstay plugins uninstall reviewer
    """
    gone = Plugins(cwd, SystemClock()).uninstall(name, scope)
    return output.print_outcome({"id": str(gone), "uninstalled": True}, f"{gone} is uninstalled.", as_json=as_json)


@command.command()
@click.argument("name")
@scoped
@as_json
@with_folder
def enable(cwd: Path, name: str, scope: Scope, as_json: bool) -> int:
    """Switch an installed plugin on. Sessions that begin from now on have it.

    Example: backstay plugins enable reviewer --scope project
    """
    return _switch(cwd, name, True, scope, as_json=as_json)


@command.command()
@click.argument("name")
@scoped
@as_json
@with_folder
def disable(cwd: Path, name: str, scope: Scope, as_json: bool) -> int:
    """Switch a plugin off: nothing of it is loaded any more. It stays installed.

    Example: backstay plugins disable reviewer
    """
    return _switch(cwd, name, False, scope, as_json=as_json)


def _decide(plugins: Plugins, staged: Staged, scope: Scope, *, yes: bool, as_json: bool, switch_on: bool = True) -> int:
    """Show a staged plugin, ask, and install it."""
    require_person("install plugins")
    about = {
        "id": str(staged.id),
        "version": staged.version,
        "source": escape_untrusted(str(staged.source)),
        "commit": staged.commit,
        "sha256": staged.sha256,
        "scope": scope,
        "brings": _brings_object(staged.brings),
    }
    if not as_json:
        output.print_line(f"{staged.id} {staged.version} from {escape_untrusted(str(staged.source))}")
        for line in _lines(staged.brings):
            output.print_line(line)
    if not yes and not sys.stdin.isatty():
        if as_json:
            output.print_json({**about, "installed": False})
        output.warn("Nobody can be asked here. To install it as it is shown, add --yes.")
        return output.HALTED
    if not yes and not click.confirm("Install it?", err=True):
        output.warn("Nothing was changed.")
        return output.COULD_NOT
    plugins.install(staged, scope, switch_on=switch_on)
    row = next(each for each in plugins.rows() if each.id == str(staged.id))
    words = f"{row.id} {row.version} is installed for this {scope}: {row.state}."
    return output.print_outcome(
        {**about, "installed": True, "state": row.state}, f"{words} {_hint(row.state)}".strip(), as_json=as_json
    )


def _update(plugins: Plugins, staged: Staged, before: Installed, *, yes: bool, as_json: bool) -> int:
    order = compare(staged.version, before.version)
    same = order == "same" and staged.sha256 == before.sha256
    if same or order == "older":
        words = (
            f"{staged.id} {before.version} is the newest."
            if same
            else f"{staged.id} {before.version} stays: what is offered now is {staged.version}, which is older."
        )
        about = {"id": str(staged.id), "version": before.version, "offered": staged.version, "updated": False}
        return output.print_outcome(about, words, as_json=as_json)
    if order == "same":
        output.warn(f"{staged.id} still calls itself {staged.version}, but its files are others than before.")
    return _decide(plugins, staged, before.scope, yes=yes, as_json=as_json, switch_on=False)


def _switch(cwd: Path, name: str, on: bool, scope: Scope, *, as_json: bool) -> int:
    plugins = Plugins(cwd, SystemClock())
    plugin = str(plugins.find(name))
    file = plugins.switch(plugin, on, scope)
    row = next(each for each in plugins.rows() if each.id == plugin)
    words = f"{plugin}: {row.state}, as {escape_untrusted(str(file))} says now. {_hint(row.state)}".strip()
    if on != (row.state == "on") and row.state != "held back":
        words += f" {row.problem}" if row.problem else " Another settings file says otherwise: backstay config show"
    return output.print_outcome(
        {"id": plugin, "state": row.state, "file": str(file), "problem": row.problem}, words, as_json=as_json
    )


def _row(row: PluginRow) -> dict[str, object]:
    """Return a row for programs, without control characters."""
    return {name: escape_untrusted(getattr(row, name)) for name in row.__struct_fields__}


def _hint(state: str) -> str:
    return "This workspace is not trusted, so it waits: backstay trust" if state == "held back" else ""


def _lines(brings: Any) -> Iterator[str]:  # Any: a struct whose fields are named by _HEADINGS
    empty = True
    for key, heading in _HEADINGS:
        rows: tuple[str, ...] = getattr(brings, key)
        if rows:
            empty = empty and key == "problems"
            yield f"\n{heading}:"
            yield from (f"  {redact_untrusted(each)}" for each in rows)
    if brings.instructions:
        yield f"\nWhat it would tell the model:\n  {redact_untrusted(brings.instructions)}"
    elif empty:
        yield "It brings nothing that is known here."
    yield ""


def _brings_object(brings: Any) -> dict[str, object]:  # Any: as above
    lists: dict[str, object] = {key: [redact_untrusted(each) for each in getattr(brings, key)] for key, _ in _HEADINGS}
    return {**lists, "instructions": redact_untrusted(brings.instructions)}


# --- marketplaces ---------------------------------------------------------------------------------------------------------------


@command.group()
def marketplace() -> None:
    """Add, remove, list and update the marketplaces that plugins are found in.

    Example: backstay plugins marketplace add acme/plugins
    """


@marketplace.command("list")
@as_json
@with_folder
def list_marketplaces(cwd: Path, as_json: bool) -> int:
    """List the marketplaces that are known, and what was fetched of each.

    Example: backstay plugins marketplace list --json
    """
    plugins = Plugins(cwd, SystemClock())
    listed, problems = plugins.marketplaces.read_all()
    sizes = {each.name: len(each.entries) for each in listed}
    default = plugins.marketplaces.default
    rows = [_marketplace(name, known, sizes, default) for name, known in sorted(plugins.list_marketplaces().items())]
    rows += [
        {"name": name, "source": str(source), "state": "held back", "plugins": 0, "default": False, "commit": ""}
        for name, source in marketplaces_held_back(plugins.config)
    ]
    if as_json:
        output.print_json(rows)
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
        output.print_table(("marketplace", "plugins", "", "from"), table)
    for words in problems:
        output.warn(escape_untrusted(words))
    return 0


@marketplace.command("add")
@click.argument("source")
@click.option("--name", default="", help="The name to use here; its own when left out.")
@click.option("--default", "default", is_flag=True, help="Use it when no marketplace is named.")
@as_json
@with_folder
async def add_marketplace(cwd: Path, source: str, name: str, default: bool, as_json: bool) -> int:
    """Fetch a marketplace, and list its plugins from now on.

    SOURCE is OWNER/REPO, the address of a git repository or of a marketplace.json, an archive, or a folder. Nothing of it is installed.

    Example: backstay plugins marketplace add ./my-marketplace
    """
    wanted = source_of(source, cwd.absolute())  # noqa: ASYNC240 - only puts a path together
    plugins = Plugins(cwd, SystemClock())
    found = await plugins.marketplaces.add(wanted, SystemClock().now(), name=name, default=default)
    return _print_fetched(found, as_json=as_json)


@marketplace.command("update")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@as_json
@with_folder
async def update_marketplaces(cwd: Path, names: tuple[str, ...], as_json: bool) -> int:
    """Fetch marketplaces again: those that are named, or all.

    Example: backstay plugins marketplace update acme
    """
    plugins = Plugins(cwd, SystemClock())
    code, found = 0, []
    for name in names or tuple(plugins.marketplaces.read_known()):
        try:
            found.append(await plugins.marketplaces.update(name, SystemClock().now()))
        except UserError as exc:
            output.warn(escape_untrusted(f"{name}: {exc}"))
            code = output.COULD_NOT
    if as_json:
        output.print_json([_about(each) for each in found])
        return code
    for each in found:
        _print_fetched(each, as_json=False)
    return code


@marketplace.command("remove")
@click.argument("name")
@as_json
@with_folder
def remove_marketplace(cwd: Path, name: str, as_json: bool) -> int:
    """Remove a marketplace. Its plugins stay installed, and are not loaded any more.

    Example: backstay plugins marketplace remove acme
    """
    plugins = Plugins(cwd, SystemClock())
    left = sorted(str(each) for each in plugins.installed.read() if each.marketplace == name)
    if not plugins.marketplaces.remove(name):
        output.warn(escape_untrusted(f"There is no marketplace {name!r}. Nothing was changed."))
        return output.COULD_NOT
    words = f"{name} is forgotten."
    if left:
        words += f" Not loaded any more: {', '.join(left)}."
    return output.print_outcome({"name": name, "removed": True, "not_loaded": left}, words, as_json=as_json)


def _marketplace(name: str, known: KnownMarketplace, sizes: dict[str, int], default: str) -> dict[str, object]:
    state = "fetched" if name in sizes else "broken" if known.fetched else "not fetched"
    return {
        "name": name,
        "source": escape_untrusted(str(known.source)),
        "state": state,
        "plugins": sizes.get(name, 0),
        "default": name == default,
        "commit": known.commit,
    }


def _print_fetched(found: Marketplace, *, as_json: bool) -> int:
    for each in found.problems:
        output.warn(escape_untrusted(each))
    words = f"{found.name}: {len(found.entries)} plugins, by {escape_untrusted(found.owner) or 'nobody named'}."
    return output.print_outcome(_about(found), words, as_json=as_json)


def _about(found: Marketplace) -> dict[str, object]:
    return {
        "name": found.name,
        "owner": escape_untrusted(found.owner),
        "plugins": len(found.entries),
        "problems": [escape_untrusted(each) for each in found.problems],
    }
