"""`backstay trust`: show what a workspace would run or loosen, and trust it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from backstay.cli import output
from backstay.cli.output import escape_untrusted, redact_untrusted
from backstay.cli.shared_options import StoreLocation, as_json, with_folder, yes
from backstay.config.layers import Layered, read_layers
from backstay.config.person import require_person
from backstay.config.trust.trust_store import TrustStore, WorkspaceTrust, list_changed
from backstay.system.folders import data_dir, project_root
from backstay.system.machine import SystemClock
from backstay.vocab.messages import iso

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


@click.group("trust", invoke_without_command=True)
@yes
@as_json
@with_folder
@click.pass_context
def command(ctx: click.Context, /, cwd: Path, yes: bool, as_json: bool) -> int:
    """Show what this workspace would run or loosen, ask, and trust it from now on.

    Until a workspace is trusted, its hooks, allowances, environment, providers and servers do nothing; what it denies holds. When
    anything of it changes, it has to be trusted again.
    """
    ctx.obj = StoreLocation(cwd=str(cwd))
    if ctx.invoked_subcommand is not None:
        return 0
    found = read_layers(cwd)
    if not as_json:
        _describe(found)
    if found.trust.given or (found.trust.trusted and not yes and not sys.stdin.isatty()):
        return _print_state(found.trust, as_json=as_json)

    require_person("trust a workspace")
    if not yes and not sys.stdin.isatty():
        output.warn("Nobody can be asked here. To trust this workspace as it is: backstay trust --yes")
        return output.HALTED
    if not yes and not click.confirm("Trust this workspace?", err=True):
        output.print_line("Nothing was changed.")
        return output.COULD_NOT

    trusted = TrustStore(data_dir()).record(found.trust.survey, SystemClock().now())
    return _print_state(trusted, as_json=as_json)


@command.command()
@as_json
@with_folder
def show(cwd: Path, as_json: bool) -> int:
    """Show what this workspace would run or loosen, and whether it is trusted."""
    found = read_layers(cwd)
    if not as_json:
        _describe(found)
    return _print_state(found.trust, as_json=as_json)


@command.command()
@as_json
@with_folder
def revoke(cwd: Path, as_json: bool) -> int:
    """Stop trusting this workspace."""
    root = os.path.realpath(project_root(cwd.absolute()))
    was = TrustStore(data_dir()).revoke(root)
    if as_json:
        output.print_json({"root": root, "revoked": was})
        return 0
    needs = bool(read_layers(cwd).trust.survey.claims)
    if was:
        words = f"{root} is no longer trusted." if needs else f"{root} is no longer trusted. Nothing in it needs trust."
    else:
        words = f"{root} was not trusted{'' if needs else ', and nothing in it needs trust'}; nothing was changed."
    output.print_line(output.escape_line(words))
    return 0


def trust_object(trust: WorkspaceTrust) -> dict[str, object]:
    """Return the trust of a workspace for programs."""
    return {
        "root": escape_untrusted(trust.root),
        "state": trust.state,
        "since": iso(trust.since) if trust.since else None,
        "digest": trust.survey.digest,
        "changed": list_changed(trust),
        "problem": trust.survey.problem,
        "claims": [
            {
                "kind": claim.kind,
                "text": redact_untrusted(claim.text),
                "file": claim.file,
                "note": redact_untrusted(claim.note),
            }
            for claim in trust.survey.claims
        ],
    }


def _describe(found: Layered) -> None:
    for line in _lines(found.trust):
        output.print_line(line)
    for words in found.warnings:
        output.warn(output.escape_line(words))


def _lines(trust: WorkspaceTrust) -> Iterator[str]:
    yield f"Workspace: {escape_untrusted(trust.root)}"
    if trust.changed:
        yield f"Changed since it was trusted: {escape_untrusted(', '.join(list_changed(trust)))}"
    for kind, heading in _HEADINGS.items():
        claims = [claim for claim in trust.survey.claims if claim.kind == kind]
        if claims:
            yield f"\n{heading}:"
            for claim in claims:
                where = "" if claim.text == claim.file else f"   ({escape_untrusted(claim.file)})"
                yield f"  {redact_untrusted(claim.text)}{where}"
                if claim.note:
                    yield f"    runs what cannot be followed ({redact_untrusted(claim.note)}): it asks for --trust at each run"
    if not trust.survey.claims:
        yield "Nothing in it would run or loosen anything."
    yield ""


def _print_state(trust: WorkspaceTrust, *, as_json: bool) -> int:
    if as_json:
        output.print_json(trust_object(trust))
        return 0
    words = {
        "trusted": "This workspace is trusted."
        if trust.given
        else "There is nothing to trust here. Programs that may load files of it are asked about until you say: backstay trust",
        "untrusted": "This workspace is not trusted: none of that counts. What it denies holds. To trust it: backstay trust",
        "changed": "This workspace was trusted before it changed: none of that counts now. To trust it again: backstay trust",
    }
    output.print_line(words[trust.state])
    if trust.survey.problem:
        output.warn(output.escape_line(f"It cannot be trusted as it is: {trust.survey.problem}."))
    return 0
