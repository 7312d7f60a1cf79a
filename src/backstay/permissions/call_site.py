"""The values that the policy judges: the call site, file accesses, commands and scripts.

`permissions/shell/` fills them from the call, `sandbox/resolve_paths.py` from the file system; `permissions/judge.py` decides about them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from backstay.vocab.rules import Rule


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call would happen, and what was seen there."""

    cwd: str
    """The session's working folder; absolute."""
    home: str
    roots: tuple[str, ...] = ()
    """The folders that a call may work in, without links; the working folder when there are none."""
    os: Literal["linux", "darwin", "windows"] = "linux"
    shell: str = "bash"
    trusted: bool = True
    """Whether the person trusts what the workspace brings along, or nothing in it asks for trust."""
    trust_given: bool = True
    """Whether the person said so: without a word, no program is free that may load what the workspace brings along."""
    links: Mapping[str, str] = {}
    """Absolute paths, as written (not normalised), and where each leads with every link followed. One that is missing leads to itself."""
    globs: Mapping[str, tuple[str, ...]] = {}
    """Absolute patterns and the paths that they match, links followed. One that is missing may match anything."""
    running: tuple[str, ...] = ()
    """Files and folders, absolute, that hooks, servers, git or a shell run here although no list has their names."""
    own_programs: frozenset[str] = frozenset()
    """Names of programs that run or load what is written here: a shell finds them here, or variables lead them here."""
    described: bool = False
    """Whether there are no files but those of a description: nobody had to look for others."""


AccessKind = Literal["read", "write", "remove", "list"]
Rewrites = Literal["", "file", "tree"]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that a call would touch."""

    kind: AccessKind
    path: str
    """Absolute, not normalised: `~`, `$HOME` and the folder that it is relative to are filled in. Empty when it is not known."""
    written: str = ""
    """As the call has it."""
    glob: bool = False
    """Whether `path` has wildcards that the shell expands."""
    redirect: bool = False
    """Whether the shell opens it, not the program."""
    deep: bool = False
    """Whether it reaches everything below the folder (`grep -r`), hidden files too."""
    perhaps: bool = False
    """Whether it may be another file: the name stands elsewhere in the text, and a command reads one that is not known."""
    split: bool = False
    """Whether a name with blanks would be taken for several: `xargs` without `-0` gives it to the program."""
    rewrites: Rewrites = ""
    """Whether what is read may be put back changed or not at all: a file that is named (a formatter), or a whole folder (`git restore`)."""

    @property
    def known(self) -> bool:
        """Whether the path can be told before the call runs."""
        return bool(self.path)


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A program with its arguments: the one that runs, or one that runs it."""

    words: tuple[str | None, ...]
    """What the program would see, quotes removed, variables that the script set filled in; None for a word that is not known before it
    runs. A word with wildcards stays as it is written."""
    text: str
    """As written, with single blanks between the words."""
    transparent: bool = False
    """Whether it changes nothing about the program that it runs (`time`, `nohup`): a rule that allows the inner one is enough."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command of a script, found wherever it hides: in a pipe, a substitution, a loop, behind `env` or in `sh -c`."""

    layers: tuple[Layer, ...]
    """Outermost first. The last is the program that does the work. Empty for assignments and redirects alone."""
    does: Literal["reads", "edits", "runs"] = "runs"
    """What the program does; redirects are in `accesses` alone. `reads`: known to change nothing with these very arguments. `edits`: all it
    does is in `accesses` (`mkdir`, `cp`, `rm`, `sed -i`). `runs`: anything else."""
    why: str = ""
    """For `runs`: why it is not harmless, in a few words."""
    accesses: tuple[Access, ...] = ()
    """Files that it names, as far as its program is known, and those of its redirects."""
    steers: tuple[str, ...] = ()
    """Variables set for it, here or earlier in the script, that are not known to be harmless: an allow rule does not look past them."""
    opaque: bool = False
    """Which program runs is not known: `$cmd`, `eval "$x"`, `... | sh`. Whatever is denied may hide in it."""
    exact: bool = False
    """Only a rule for the whole command may allow it, none with a wildcard (`find -exec`, `git -c`)."""
    given: bool = False
    """Whether a shell is given a text of its own by it."""
    network: bool = False
    """Whether it talks to other machines."""
    after_adding: bool = False
    """Whether git tracks more files when it runs than it does now: a command before it adds some."""
    proved: bool = False
    """Whether `does` and `accesses` are all that it does, by the tables of `permissions/unasked/`; only then is it allowed unasked."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A shell command, read."""

    commands: tuple[Command, ...] = ()
    outside: str = ""
    """Why the text is not in the small grammar of `permissions/unasked/`; then no mode and no rule with a pattern allows it."""
    handed: tuple[Command, ...] = ()
    """What may stand in texts that a program may hand to a shell (`PAGER='...' git log`); what denies is looked for there, nothing else."""
    problem: str = ""
    """Why it cannot be read with certainty; then `commands` is what was found all the same, and it is never allowed by itself."""
    is_cut: bool = False
    """Whether some of it was not looked through, because a limit was met: it may hold a critical removal."""


def fingerprint(name: str, args: str) -> str:
    """Return what binds a grant to exactly this call: the tool's name and a digest of its arguments."""
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(args), order="deterministic")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        canonical = args.encode("utf-8", "surrogatepass")
    return f"{name}#{hashlib.sha256(canonical).hexdigest()[:32]}"


def rules_digest(rules: Sequence[Rule]) -> str:
    """Return a short name for a set of rules."""
    return hashlib.sha256(msgspec.json.encode(tuple(rules))).hexdigest()[:12] if rules else ""
