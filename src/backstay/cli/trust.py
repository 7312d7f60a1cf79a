"""`backstay trust`: look at what a workspace would run, and say that it may."""

import functools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from backstay.cli import output
from backstay.cli.location import StoreLocation

if TYPE_CHECKING:
    from backstay.config.layers import Layered
    from backstay.config.trust.trust_store import TrustStore, WorkspaceTrust

F = TypeVar("F", bound=Callable[..., Any])  # Any: click decorates functions of every shape

HALTED: Final = 3
"""How to end when somebody would have to be asked and nobody is there."""
_LONGEST: Final = 2_000
_PADDING: Final = re.compile(r"\s{8,}")
_HEADINGS: Final = {
    "hook": "Hooks that would run by themselves",
    "server": "MCP servers that would be started",
    "env": "Environment of everything that runs",
    "mode": "Permission mode",
    "allow": "Calls that would run without asking",
    "folder": "Folders besides this one",
    "setting": "Other settings",
    "extension": "Agents, skills, commands and plugins",
    "git": "What git would run here",
    "own": "Programs of your own that would run files of this workspace",
}


def here(command: F) -> F:
    """Give a command `--cwd`, and hand it the folder that is meant, also when it stood before the command."""

    @click.option("--cwd", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="The working folder.")
    @click.pass_context
    @functools.wraps(command)
    def with_folder(ctx: click.Context, /, **given: Any) -> Any:  # Any: as the command has it
        before = ctx.find_object(StoreLocation) or StoreLocation()
        return command(cwd=Path(given.pop("cwd") or before.cwd or "."), **given)

    return with_folder  # type: ignore[return-value]  # click adds and removes parameters


@click.group("trust", invoke_without_command=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@here
@click.pass_context
def command(ctx: click.Context, /, cwd: Path, yes: bool, as_json: bool) -> int:
    """Show what this workspace would run or loosen, ask, and trust it from now on.

    Until a workspace is trusted, its hooks, allowances, environment, providers and servers do nothing; what it denies holds. When
    anything of it changes, it has to be trusted again.
    """
    ctx.obj = StoreLocation(cwd=str(cwd))
    if ctx.invoked_subcommand is not None:
        return 0
    found = _look(cwd)
    if not as_json:
        _describe(found)
    if found.trust.trusted:
        return _told(found.trust, as_json=as_json)
    from backstay.config.person import require_person

    require_person("trust a workspace")
    if not yes and not sys.stdin.isatty():
        output.warn("Nobody can be asked here. To trust this workspace as it is: backstay trust --yes")
        return HALTED
    if not yes and not click.confirm("Trust this workspace?", err=True):
        output.say("Nothing was changed.")
        return output.COULD_NOT
    from backstay.system.machine import SystemClock

    trusted = _book().record(found.trust.survey, SystemClock().now())
    return _told(trusted, as_json=as_json)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@here
def show(cwd: Path, as_json: bool) -> int:
    """Show what this workspace would run or loosen, and whether it is trusted."""
    found = _look(cwd)
    if not as_json:
        _describe(found)
    return _told(found.trust, as_json=as_json)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@here
def revoke(cwd: Path, as_json: bool) -> int:
    """Trust this workspace no longer."""
    import os

    from backstay.sandbox.folders import project_root

    root = os.path.realpath(project_root(cwd.absolute()))
    was = _book().revoke(root)
    if as_json:
        output.say_json({"root": root, "revoked": was})
        return 0
    needs = bool(_look(cwd).trust.survey.claims)
    if was:
        words = f"{root} is no longer trusted." if needs else f"{root} is no longer trusted. Nothing in it needs trust."
    else:
        words = f"{root} was not trusted{'' if needs else ', and nothing in it needs trust'}; nothing was changed."
    output.say(output.escape_terminal(words))
    return 0


def trust_object(trust: "WorkspaceTrust") -> dict[str, object]:
    """What is known of a workspace's trust, for programs."""
    from backstay.config.trust.trust_store import changed_names
    from backstay.vocab.messages import iso

    return {
        "root": legible(trust.root),
        "state": trust.state,
        "since": iso(trust.since) if trust.since else None,
        "digest": trust.survey.digest,
        "changed": changed_names(trust),
        "problem": trust.survey.problem,
        "claims": [
            {"kind": claim.kind, "text": shown(claim.text), "file": claim.file, "note": shown(claim.note)}
            for claim in trust.survey.claims
        ],
    }


def shown(text: str) -> str:
    """A workspace's own words, fit to be looked at: like `legible`, and without secrets."""
    from backstay.logic.secrets.redact import Redactor

    return legible(Redactor().text(text))


def legible(text: str) -> str:
    """`text` with nothing that a terminal obeys and no padding that hides its end."""
    plain = _PADDING.sub(lambda found: f" [{len(found[0])} blanks] ", text.encode("utf-8", "replace").decode())
    more = f" [{len(plain) - _LONGEST:,} more characters]" if len(plain) > _LONGEST else ""
    return output.escape_terminal(plain[:_LONGEST] + more)


def _look(cwd: Path) -> "Layered":
    from backstay.config.layers import read_layers

    return read_layers(cwd)


def _book() -> "TrustStore":
    from backstay.config.trust.trust_store import TrustStore
    from backstay.sandbox.folders import data_dir

    return TrustStore(data_dir())


def _describe(found: "Layered") -> None:
    for line in _lines(found.trust):
        output.say(line)
    for words in found.warnings:
        output.warn(output.escape_terminal(words))


def _lines(trust: "WorkspaceTrust") -> Iterator[str]:
    from backstay.config.trust.trust_store import changed_names

    yield f"Workspace: {legible(trust.root)}"
    if trust.changed:
        yield f"Changed since it was trusted: {legible(', '.join(changed_names(trust)))}"
    for kind, heading in _HEADINGS.items():
        claims = [claim for claim in trust.survey.claims if claim.kind == kind]
        if claims:
            yield f"\n{heading}:"
            for claim in claims:
                where = "" if claim.text == claim.file else f"   ({legible(claim.file)})"
                yield f"  {shown(claim.text)}{where}"
                if claim.note:
                    yield f"    runs what cannot be followed ({shown(claim.note)}): it asks for --trust at each run"
    if not trust.survey.claims:
        yield "Nothing in it would run or loosen anything."
    yield ""


def _told(trust: "WorkspaceTrust", *, as_json: bool) -> int:
    if as_json:
        output.say_json(trust_object(trust))
        return 0
    words = {
        "trusted": "This workspace is trusted." if trust.survey.claims else "There is nothing to trust here.",
        "untrusted": "This workspace is not trusted: none of that counts. What it denies holds. To trust it: backstay trust",
        "changed": "This workspace was trusted before it changed: none of that counts now. To trust it again: backstay trust",
    }
    output.say(words[trust.state])
    if trust.survey.problem:
        output.warn(output.escape_terminal(f"It cannot be trusted as it is: {trust.survey.problem}."))
    return 0
