"""`backstay plugins`: what is installed, what could be, and where it comes from."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from backstay.cli import output
from backstay.cli.plugin_marketplaces import as_json, opened, run, told
from backstay.cli.plugin_marketplaces import command as marketplaces
from backstay.cli.trust import HALTED, here, legible, shown

if TYPE_CHECKING:
    from backstay.plugins.install.install import Staged
    from backstay.plugins.installed import Installed, Scope
    from backstay.plugins.manage import PluginRow, Plugins

yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
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

    Nothing of a plugin runs before it was shown and somebody said yes, and it runs only as long as its files are what was shown.
    """


command.add_command(marketplaces)


@command.command("list")
@as_json
@here
def list_plugins(cwd: Path, as_json: bool) -> int:
    """List the plugins that are installed or switched on here, and what becomes of each.

    Example: backstay plugins list --json
    """
    plugins = opened(cwd)
    rows = plugins.rows()
    if as_json:
        output.say_json([_row(row) for row in rows])
        return 0
    output.say_table(
        ("plugin", "version", "for", "", "about"),
        [(row.id, row.version, row.scope, row.state, shown(row.description)[:60]) for row in rows],
    )
    for row in rows:
        if row.problem:
            output.warn(legible(f"{row.id}: {row.problem}"))
    for words in plugins.place.enabling.problems:
        output.warn(legible(words))
    return 0


@command.command()
@click.argument("name")
@as_json
@here
def show(cwd: Path, name: str, as_json: bool) -> int:
    """Show an installed plugin: where it comes from, its hash, and everything that it brings.

    Example: backstay plugins show reviewer
    """
    from backstay.plugins.install.install import what_it_brings
    from backstay.plugins.plugin import read_plugin

    plugins = opened(cwd)
    found = plugins.find(name)
    record = plugins.record(found)
    row = next(each for each in plugins.rows() if each.id == str(found))
    folder = plugins.installed.place(found, record.version)
    plugin = read_plugin(folder, name=found.name, marketplace=found.marketplace, version=record.version)
    brings = what_it_brings(plugin)
    if as_json:
        about = {
            "author": legible(plugin.manifest.author),
            "keywords": [legible(each) for each in plugin.manifest.keywords],
            "folder": str(folder),
        }
        output.say_json({**_row(row), **about, "brings": _masked(brings)})
        return 0
    output.say(f"{row.id} {row.version}, {row.state}, for this {row.scope}")
    output.say(f"From {legible(row.source)}{f' at {row.commit}' if row.commit else ''}")
    output.say(f"SHA-256 over its files: {row.sha256}")
    for line in _lines(brings):
        output.say(line)
    if row.problem:
        output.warn(legible(row.problem))
    return 0


@command.command()
@click.argument("words", nargs=-1)
@click.option("--keyword", default="", metavar="WORD", help="Only plugins with this keyword or tag.")
@click.option("--category", default="", metavar="WORD", help="Only plugins of this category.")
@as_json
@here
def search(cwd: Path, words: tuple[str, ...], keyword: str, category: str, as_json: bool) -> int:
    """Find plugins in the marketplaces that were fetched, by name, description, keyword or category.

    Example: backstay plugins search review --category security
    """
    from backstay.plugins.marketplace import search as find

    plugins = opened(cwd)
    listed, problems = plugins.marketplaces.read_all()
    found = find(listed, " ".join(words), keyword=keyword, category=category)
    rows = [
        {
            "id": f"{each.name}@{each.marketplace}",
            "version": legible(each.version),
            "category": legible(each.category),
            "keywords": [legible(word) for word in each.keywords],
            "description": legible(each.description),
        }
        for each in found
    ]
    if as_json:
        output.say_json(rows)
    else:
        about = [
            (str(row["id"]), str(row["version"]), str(row["category"]), str(row["description"])[:80]) for row in rows
        ]
        output.say_table(("plugin", "version", "category", "about"), about)
    for each in problems:
        output.warn(legible(each))
    if not listed:
        output.warn("No marketplace was fetched yet. Fetch those that are known: backstay plugins marketplace update")
    return 0


@command.command()
@click.argument("what")
@scoped
@yes
@as_json
@here
def install(cwd: Path, what: str, scope: "Scope", yes: bool, as_json: bool) -> int:
    """Fetch a plugin, show what it would bring, ask, and install it.

    \b
    backstay plugins install reviewer@acme         of a marketplace
    backstay plugins install ./my-plugin           a folder
    backstay plugins install acme/reviewer#v1.2    a git repository
    backstay plugins install ./acme-1.0.whl        an archive: .zip, .tar.gz, .tgz, .whl
    """

    async def work() -> int:
        plugins = opened(cwd)
        async with plugins.staging(what) as staged:
            return _decide(plugins, staged, scope, yes=yes, as_json=as_json)

    return run(work)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scope", type=click.Choice(("person", "project")), help="Only those that are installed so.")
@yes
@as_json
@here
def update(cwd: Path, names: tuple[str, ...], scope: str | None, yes: bool, as_json: bool) -> int:
    """Look for newer versions of installed plugins, show what they would bring, ask, and install them. JSON is a line for each.

    What is switched off stays off. Example: backstay plugins update reviewer
    """
    from backstay.vocab.errors import UserError

    async def work() -> int:
        plugins = opened(cwd)
        code = 0
        for plugin, record in plugins.here():
            if (names and not {plugin.name, str(plugin)} & set(names)) or scope not in (None, record.scope):
                continue
            try:
                async with plugins.staging_again(plugin) as staged:
                    code = max(code, _renew(plugins, staged, record, yes=yes, as_json=as_json))
            except UserError as exc:
                output.warn(legible(f"{plugin}: {exc}"))
                code = max(code, output.COULD_NOT)
        return code

    for name in names:
        opened(cwd).find(name)
    return run(work)


@command.command()
@click.argument("name")
@scoped
@as_json
@here
def uninstall(cwd: Path, name: str, scope: "Scope", as_json: bool) -> int:
    """Remove a plugin, its files, and its word in the settings.

    Example: backstay plugins uninstall reviewer
    """
    gone = opened(cwd).uninstall(name, scope)
    return told({"id": str(gone), "uninstalled": True}, f"{gone} is uninstalled.", as_json=as_json)


@command.command()
@click.argument("name")
@scoped
@as_json
@here
def enable(cwd: Path, name: str, scope: "Scope", as_json: bool) -> int:
    """Switch an installed plugin on. Sessions that begin from now on have it.

    Example: backstay plugins enable reviewer --scope project
    """
    return _switch(cwd, name, True, scope, as_json=as_json)


@command.command()
@click.argument("name")
@scoped
@as_json
@here
def disable(cwd: Path, name: str, scope: "Scope", as_json: bool) -> int:
    """Switch a plugin off: nothing of it is loaded any more. It stays installed.

    Example: backstay plugins disable reviewer
    """
    return _switch(cwd, name, False, scope, as_json=as_json)


# --- parts -------------------------------------------------------------------------------------------------------------------------


def _decide(
    plugins: "Plugins", staged: "Staged", scope: "Scope", *, yes: bool, as_json: bool, switch_on: bool = True
) -> int:
    """Show a staged plugin, ask, and install it."""
    from backstay.config.person import require_person

    require_person("install plugins")
    about = {
        "id": str(staged.id),
        "version": staged.version,
        "source": legible(str(staged.source)),
        "commit": staged.commit,
        "sha256": staged.sha256,
        "scope": scope,
        "brings": _masked(staged.brings),
    }
    if not as_json:
        output.say(f"{staged.id} {staged.version} from {legible(str(staged.source))}")
        for line in _lines(staged.brings):
            output.say(line)
    if not yes and not sys.stdin.isatty():
        if as_json:
            output.say_json({**about, "installed": False})
        output.warn("Nobody can be asked here. To install it as it is shown, add --yes.")
        return HALTED
    if not yes and not click.confirm("Install it?", err=True):
        output.warn("Nothing was changed.")
        return output.COULD_NOT
    plugins.install(staged, scope, switch_on=switch_on)
    row = next(each for each in plugins.rows() if each.id == str(staged.id))
    words = f"{row.id} {row.version} is installed for this {scope}: {row.state}."
    return told(
        {**about, "installed": True, "state": row.state}, f"{words} {_hint(row.state)}".strip(), as_json=as_json
    )


def _renew(plugins: "Plugins", staged: "Staged", before: "Installed", *, yes: bool, as_json: bool) -> int:
    from backstay.plugins.ids import compare

    order = compare(staged.version, before.version)
    same = order == "same" and staged.sha256 == before.sha256
    if same or order == "older":
        words = (
            f"{staged.id} {before.version} is the newest."
            if same
            else f"{staged.id} {before.version} stays: what is offered now is {staged.version}, which is older."
        )
        about = {"id": str(staged.id), "version": before.version, "offered": staged.version, "updated": False}
        return told(about, words, as_json=as_json)
    if order == "same":
        output.warn(f"{staged.id} still calls itself {staged.version}, but its files are others than before.")
    return _decide(plugins, staged, before.scope, yes=yes, as_json=as_json, switch_on=False)


def _switch(cwd: Path, name: str, on: bool, scope: "Scope", *, as_json: bool) -> int:
    plugins = opened(cwd)
    plugin = str(plugins.find(name))
    file = plugins.switch(plugin, on, scope)
    row = next(each for each in plugins.rows() if each.id == plugin)
    words = f"{plugin}: {row.state}, as {legible(str(file))} says now. {_hint(row.state)}".strip()
    if on != (row.state == "on") and row.state != "held back":
        words += f" {row.problem}" if row.problem else " Another settings file says otherwise: backstay config show"
    return told({"id": plugin, "state": row.state, "file": str(file), "problem": row.problem}, words, as_json=as_json)


def _row(row: "PluginRow") -> dict[str, object]:
    """A row for programs, with nothing in it that a terminal obeys."""
    return {name: legible(getattr(row, name)) for name in row.__struct_fields__}


def _hint(state: str) -> str:
    return "This workspace is not trusted, so it waits: backstay trust" if state == "held back" else ""


def _lines(brings: Any) -> Iterator[str]:  # Any: a struct whose fields are named by _HEADINGS
    empty = True
    for key, heading in _HEADINGS:
        rows: tuple[str, ...] = getattr(brings, key)
        if rows:
            empty = empty and key == "problems"
            yield f"\n{heading}:"
            yield from (f"  {shown(each)}" for each in rows)
    if brings.instructions:
        yield f"\nWhat it would tell the model:\n  {shown(brings.instructions)}"
    elif empty:
        yield "It brings nothing that is known here."
    yield ""


def _masked(brings: Any) -> dict[str, object]:  # Any: as above
    lists: dict[str, object] = {key: [shown(each) for each in getattr(brings, key)] for key, _ in _HEADINGS}
    return {**lists, "instructions": shown(brings.instructions)}
