"""What programs touch that copy, move, pack and unpack files."""

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from backstay.logic.shell.effects import HERE, Asked, Effect, read_operands
from backstay.logic.shell.fields import Field, Site, join
from backstay.logic.shell.options import take_apart

_REMOTE: Final = re.compile(r"[^/:]+:|rsync://|[a-z]+://")
_OLD_STYLE: Final = re.compile(r"[A-Za-z]+")
_TAKES: Final = "fCTXIbgNKLVHF"
"""Letters of `tar` that take a value."""


def read_copy(asked: Asked, effect: Effect) -> None:
    """Say what `cp` and its kin do: read all but the last operand, write the last; `mv` takes the others away."""
    line, site = asked.line, asked.site
    targets = [value for _, kind, value in line.given if kind == "target"]
    lone = len(line.operands) == 1 and not targets
    sources = line.operands if targets or lone else line.operands[:-1]
    target = targets[-1] if targets else (line.operands[-1] if line.operands and not lone else HERE)
    moves = asked.name in ("mv", "gmv") or any(name.startswith("--remove-s") for name in line.names)
    for source in sources:
        if effect.network and _REMOTE.match(source.value or ""):
            continue
        effect.touch("read", source, site)
        if moves:
            effect.touch("remove", source, site)
    if not (effect.network and _REMOTE.match(target.value or "")):
        effect.touch("write", target, site)
        if any(name.startswith("--del") for name in line.names):
            effect.touch("remove", target, site)
        for source in sources if not line.has("-T", "--no-target-directory") else ():
            _land(target, source, effect, site)
    if asked.goes_deep():
        effect.deepen()
        if _merges(sources) or line.has("-T", "--no-target-directory"):
            effect.touch("read", target, site, rewrites="tree")
            if any(_holds_workspace(path, site) for path in site.paths(target.value or "")):
                effect.touch("write", Field(join(target.value or "", ".??*"), target.text, glob=True), site)


def _merges(sources: Sequence[Field]) -> bool:
    """Whether the content of a folder is put over that of another one."""
    names = [source.value or "/" for source in sources]
    return any(name.endswith("/") or posixpath.basename(name) in (".", "..") for name in names)


def _holds_workspace(folder: str, site: Site) -> bool:
    """Whether a folder is one that has the workspace or the home below it, or is one of them."""
    dear = (site.ground.cwd, site.ground.home, *site.ground.roots)
    return any(f"{each.rstrip('/')}/".startswith(f"{posixpath.normpath(folder).rstrip('/')}/") for each in dear)


def _land(target: Field, source: Field, effect: Effect, site: Site) -> None:
    """Take in what a source becomes when the target is a folder."""
    name = posixpath.basename((source.value or "").rstrip("/"))
    if name == ".":
        return
    known = target.value and not target.glob and name not in ("", "..")
    below = join(target.value or "", name) if known else None
    effect.touch("write", Field(below, target.text, source.glob), site)


def read_patch(asked: Asked, effect: Effect) -> None:
    """Say what `patch` does: without an operand, the patch names the files that it changes."""
    read_operands(asked, effect)
    if not asked.line.operands and not asked.line.has("--dry-run", "-C", "--check", "--version", "--help"):
        for folder in asked.line.values("-d", "--directory") or [HERE]:
            effect.touch("read", folder, asked.site, rewrites="tree")


def read_dd(asked: Asked, effect: Effect) -> None:
    """Say what `dd` does: read `if=`, write `of=`."""
    for field in asked.words:
        name, _, value = (field.value or "of=").partition("=")
        if name in ("if", "of"):
            held = Field(value if field.value is not None else None, field.text)
            effect.touch("read" if name == "if" else "write", held, asked.site)


def read_tar(asked: Asked, effect: Effect) -> None:
    """Say what `tar` does: pack what it names, or unpack into a folder."""
    line = take_apart(_dashed(asked.words), asked.row.options)
    for _, kind, value in line.given:
        if kind == "script":
            effect.exact = True
            effect.scripts.append(value)
    creates = line.has("-c", "-r", "-u", "--create", "--append", "--update")
    for field in line.values("-f", "--file"):
        if field.value != "-":
            effect.touch("write" if creates else "read", field, asked.site)
    for field in line.values("--checkpoint-action"):
        if (field.value or "exec=").startswith("exec="):
            effect.exact = True
            effect.scripts.append(Field((field.value or "")[5:], field.text))
    for _ in line.values("-T", "--files-from") if creates else ():
        effect.touch("read", Field(None, "files that are on a list"), asked.site)
    sites = [asked.site.below(folder) for folder in line.values("-C", "--directory")] or [asked.site]
    for site in sites:
        for field in line.operands:
            effect.touch("read", field, site)
            if line.has("--remove-files"):
                effect.touch("remove", field, site)
        if not creates and not line.has("-t", "--list"):
            effect.touch("write", HERE, site, rewrites="tree")
    effect.deepen()


def _dashed(fields: Sequence[Field]) -> list[Field]:
    """Write the old form `czf archive` with a dash for each letter, its values in order."""
    first = fields[0].value if fields else None
    if first is None or not _OLD_STYLE.fullmatch(first):
        return list(fields)
    rest, done = list(fields[1:]), list[Field]()
    for letter in first:
        done.append(Field("-" + letter, fields[0].text))
        if letter in _TAKES and rest:
            done.append(rest.pop(0))
    return done + rest


def read_unzip(asked: Asked, effect: Effect) -> None:
    """Say what `unzip` does: write into a folder, or only list."""
    for field in asked.line.operands[:1]:
        effect.touch("read", field, asked.site)
    packs = asked.name == "cpio" and asked.line.has("-o", "-p", "--create", "--pass-through")
    if packs:
        effect.touch("read", Field(None, "files that are on a list"), asked.site)
    looks = ("-t", "--list") if asked.name == "cpio" else ("-l", "-v", "-t", "-Z")
    for folder in asked.line.values("-d", "-D", "--directory") or ([] if packs else [HERE]):
        if not asked.line.has(*looks):
            effect.touch("write", folder, asked.site, rewrites="tree")
