"""git that runs nothing of the repository's choosing: no hook, monitor, filter, driver, pager, helper or alias that its files name.

Variables beat every file of configuration, so what has a fixed name is turned off by them. Filters and drivers have names of the
repository's own invention: those are asked for first, which starts nothing, and each is turned off by its name.
"""

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from backstay.system.folders import project_root
from backstay.system.programs import run_program
from backstay.vocab.env_keys import without_keys, without_loading
from backstay.vocab.errors import UserError

DEADLINE_S: Final = 20.0
"""Seconds that one git command of ours may take."""
MOST_BYTES: Final = 8_388_608
_MOST_ANSWERED: Final = 2_097_152
"""Bytes of its output that are kept."""


class GitOutput(Struct, frozen=True):
    """The output of a git command."""

    code: int
    out: bytes
    err: str
    cut: bool = False
    """Whether the output was longer than what is kept."""

    @property
    def text(self) -> str:
        """The output as text."""
        return self.out.decode("utf-8", "replace")


def git_environment(
    folder: str | os.PathLike[str] | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables that keep git from running programs which a repository's configuration names.

    With `folder`, drivers and aliases that the repository there invents are turned off by name as well; that starts git once to ask.
    What `environment`, to which they are added, sets of git's configuration stays in front of them.
    """
    settings = dict(_SETTINGS)
    if folder is not None and shutil.which("git"):
        settings |= _disarm_settings(os.fspath(folder))
    return {**_VARIABLES, **_as_variables(settings, environment or {})}


def careful_git(environment: Mapping[str, str], *, asked: bool, bare: bool) -> dict[str, str]:
    """Return the variables for git in a workspace that is trusted, to be added to `environment`.

    git takes no repository that lies around a folder without a `.git`, unless the session was opened in such a one (`bare`).
    Where nobody was asked for trust (`asked`), it stays out of submodules and starts no monitor.
    """
    keys = (*(() if bare else (_EXPLICIT,)), *(() if asked else _CAREFUL))
    return _as_variables({key: _SETTINGS[key] for key in keys}, environment)


async def run_git(args: Sequence[str], cwd: str | os.PathLike[str], *, deadline_s: float = DEADLINE_S) -> GitOutput:
    """Run a git command for Backstay itself, hardened. Raise `UserError` when there is no git, no repository, or no answer in time."""
    folder, program = os.fspath(cwd), _program()
    root = _repository(folder)
    environment = await anyio.to_thread.run_sync(git_environment, str(root))
    place = (f"--git-dir={root / '.git'}", f"--work-tree={root}")
    command = [program, "--no-pager", "--no-replace-objects", *place, *_with_flags(args)]
    env = _own(os.environ) | environment
    try:
        ran = await run_program(command, cwd=folder, env=env, most=MOST_BYTES, deadline_s=deadline_s)
    except TimeoutError:
        raise UserError(f"git {args[0] if args else ''!s} took longer than {deadline_s:g} s in {folder!r}.") from None
    except OSError as exc:
        raise UserError(f"git cannot be started in {folder!r}: {exc}.") from exc
    return GitOutput(ran.code, ran.out, ran.err.decode("utf-8", "replace"), cut=ran.cut)


# --- what has a fixed name -------------------------------------------------------------------------------------------------------

_VARIABLES: Final[Mapping[str, str]] = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # not ext::, which is a command
    "GIT_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_PROXY_COMMAND": "",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_SSH_COMMAND": "ssh",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS": "true",
}
_SETTINGS: Final[Mapping[str, str]] = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "commit.gpgSign": "false",
    "credential.helper": "",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "fetch.recurseSubmodules": "false",
    "gpg.openpgp.program": "gpg",
    "gpg.program": "gpg",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.x509.program": "gpgsm",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}
_EXPLICIT: Final = "safe.bareRepository"
_CAREFUL: Final = "core.fsmonitor diff.ignoreSubmodules diff.submodule log.showSignature status.submoduleSummary submodule.recurse".split()
_COMPARE: Final = 'f() { diff -u -- "$2" "$5"; true; }; f'
_NOT_HERE: Final = "!echo 'This alias comes from a workspace that is not trusted; it was not run.' >&2; false #"
_INVENTED: Final = (
    (r"alias\..*", _NOT_HERE),
    (r"core\.alternaterefscommand|interactive\.difffilter|gpg\.ssh\.defaultkeycommand", "cat"),
    (r"credential\..*\.helper", ""),
    (r"diff\.external|diff\..*\.command", _COMPARE),
    (r"diff\..*\.textconv", "cat"),
    (r"filter\..*\.(clean|smudge|process)", ""),
    (r"filter\..*\.required", "false"),
    (r"hook\..*\.command", "true"),
    (r"merge\..*\.driver", "git merge-file %A %O %B"),
    (r"submodule\..*\.update", "checkout"),
    (r"tar\..*\.command", "cat"),
    (r"trailer\..*\.(command|cmd)", "true"),
    (r"(browser|difftool|guitool|man|mergetool)\..*\.(cmd|path)", "false"),
    (r"sendemail\.(.*\.)?(smtpserver|sendmailcmd|tocmd|cccmd|headercmd)", "false"),
)
"""Settings that name a program, and a harmless value for each. Names as git prints them: lower case but for the middle."""
_PATTERNS: Final = tuple((re.compile(f"(?s:{pattern})"), value) for pattern, value in _INVENTED)
_REMOTE: Final = re.compile(r"(?s:remote\.(.*)\.(uploadpack|receivepack))")
_SUBMODULE: Final = re.compile(r"(?s:submodule\.(.*)\.[^.]+)")
_TOO_MANY: Final = 2_000
_DIGITS: Final = 7
"""Of a count of settings that git could have taken."""


def _disarm_settings(folder: str) -> dict[str, str]:
    """Return a harmless value for each setting of the repository at `folder` that names a program."""
    _check_files(Path(folder))
    names = [*_list_settings(folder), *_list_settings(folder, "--file", os.path.join(folder, ".gitmodules"))]
    found: dict[str, str] = {}
    for name in names:
        for pattern, value in _PATTERNS:
            if pattern.fullmatch(name):
                found[name] = value
        if remote := _REMOTE.fullmatch(name):
            found[f"remote.{remote[1]}.vcs"] = (
                "untrusted"  # git takes the first of these, so the remote as a whole is closed
            )
        if submodule := _SUBMODULE.fullmatch(name):
            found[f"submodule.{submodule[1]}.ignore"] = (
                "all"  # git looks into it with a configuration that no variable beats
            )
        if len(found) > _TOO_MANY:
            raise UserError(
                f"The git configuration in {folder!r} names more programs than can be turned off one by one."
            )
    return found


def _check_files(folder: Path) -> None:
    """Refuse a repository with a pipe or a device among the files that git reads first: git would wait for it."""
    git = project_root(folder.absolute()) / ".git"
    for path in (git, *(git / name for name in ("HEAD", "config", "config.worktree", "commondir"))):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{str(path)!r} is a pipe or a device, and git would wait for it. Move it away.")


def _list_settings(folder: str, *where: str) -> Iterator[str]:
    """Yield the names of the settings that the repository itself makes, as git sees them with everything that it includes."""
    if where and not os.path.isfile(where[-1]):
        return
    command = [_program(), "config", *where, "--list", "--null", "--name-only", "--show-scope"]
    try:
        environment = {**_own(os.environ), **_VARIABLES, **_as_variables(_SETTINGS, {})}
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=DEADLINE_S,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise UserError(f"git cannot tell its configuration in {folder!r}: {exc}.") from exc
    words = ran.stdout.decode("utf-8", "surrogateescape").split("\0")
    for scope, name in zip(words[::2], words[1::2], strict=False):
        if where or scope in ("local", "worktree"):
            yield name


def _as_variables(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables with `settings`, after those that `environment` has in this form: git takes the last one of a name."""
    given = environment.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isascii() and given.isdigit() and len(given) < _DIGITS else 0
    found = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings.items(), first):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


# --- the repository that git itself finds ----------------------------------------------------------------------------------------


class FoundRepository(Struct, frozen=True):
    """The repository that git takes for a folder, in its own words."""

    folders: tuple[Path, ...]
    """Its git folder, then the one with the configuration that linked work trees share."""
    tree: Path | None
    """The root of its work tree; None when the folder lies in none."""
    settings: tuple[tuple[Path, str, str], ...]
    """What its configuration sets, with everything that is included: file, key, value."""
    files: tuple[Path, ...]
    """All files of settings that count there, the person's own too."""
    bare: bool
    """Whether git takes it for the files that lie around the folder, without any `.git`: what `safe.bareRepository` forbids."""


def find_repository(folder: Path, environment: Mapping[str, str]) -> FoundRepository | None:
    """Ask git which repository it takes for `folder`, absolute and without links; None when it takes none.

    Raise `ValueError` with a few words when the answer is not understood.
    """
    parts = (each / name for each in (folder, *folder.parents) for name in (".git", "HEAD"))
    if "GIT_DIR" not in environment and not any(map(os.path.lexists, parts)):
        return None  # git looks for these names first
    try:
        program = _program()
    except UserError:
        return None
    known = without_loading(without_keys(environment))
    own = {name: value for name, value in known.items() if name != "GIT_CONFIG" and not name.startswith("GIT_TRACE")}
    settings = dict(_SETTINGS)
    asked = _ask((program, *_WHERE), folder, own | _as_variables(settings, own))
    if bare := _IS_BARE in asked.stderr:
        del settings[_EXPLICIT]
        asked = _ask((program, *_WHERE), folder, own | _as_variables(settings, own))
    *lines, rest = os.fsdecode(asked.stdout).split("\n")
    if asked.returncode and not lines and any(each in asked.stderr for each in _NONE):
        return None
    if rest or len(lines) not in (2, 3) or (asked.returncode and (len(lines), _NO_TREE in asked.stderr) != (2, True)):
        raise ValueError(_say(asked))
    tree = Path(lines[2]) if len(lines) > 2 else None
    listed = _ask((program, *_WHAT), folder, own | _as_variables(settings, own))
    words = os.fsdecode(listed.stdout).split("\0")
    if listed.returncode or len(words) % 3 != 1:
        raise ValueError(_say(listed))
    files = [(tree or folder) / origin.removeprefix("file:") for origin in words[1::3]]
    read = dict.fromkeys(file for scope, file in zip(words[::3], files, strict=False) if scope != "command")
    found = list[tuple[Path, str, str]]()
    for scope, file, line in zip(words[::3], files, words[2::3], strict=False):
        key, equals, value = line.partition("\n")
        if scope in ("local", "worktree"):
            found.append((file, key, value if equals else "true"))
    return FoundRepository((Path(lines[0]), folder / lines[1]), tree, tuple(found), tuple(read), bare)


def _ask(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    env, pipe = {**environment, "LC_ALL": "C"}, subprocess.PIPE
    try:
        with (
            tempfile.TemporaryFile() as complaints,
            subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=complaints
            ) as process,
        ):
            assert process.stdout is not None
            patience = threading.Timer(_PATIENCE_S, process.kill)
            patience.start()
            try:
                answer = process.stdout.read(_MOST_ANSWERED + 1)
                if len(answer) > _MOST_ANSWERED:
                    process.kill()
                    raise ValueError(f"its configuration has more than {_MOST_ANSWERED:,} bytes")
                code = process.wait()
            finally:
                late = patience.finished.is_set()
                patience.cancel()
            if late:
                raise ValueError(f"git does not answer within {_PATIENCE_S:g} s")
            complaints.seek(0)
            return subprocess.CompletedProcess(command, code, answer, complaints.read(_MOST_ANSWERED))
    except OSError as exc:
        raise ValueError(f"git cannot be started: {exc.strerror}") from exc


def _say(answer: subprocess.CompletedProcess[bytes]) -> str:
    words = answer.stderr.decode("utf-8", "replace").strip().splitlines()
    return words[-1] if words else "its answer is not understood"


_WHERE: Final = ("rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
_WHAT: Final = ("--no-pager", "config", "--list", "--null", "--show-scope", "--show-origin")
_IS_BARE: Final = b"fatal: cannot use bare repository"
_NO_TREE: Final = b"fatal: this operation must be run in a work tree"
_NONE: Final = (
    b"fatal: not a git repository",
    _IS_BARE,
    b"fatal: detected dubious ownership",
    b"fatal: unsafe repository",
)
"""How git says that it takes no repository, and reads no configuration of one."""
_PATIENCE_S: Final = 5.0


# --- commands of our own ---------------------------------------------------------------------------------------------------------

_SHOWS: Final = "diff log show whatchanged diff-tree diff-index diff-files format-patch reflog".split()
_LOOKS_INSIDE: Final = "diff status log show diff-tree diff-index diff-files".split()


def _with_flags(args: Sequence[str]) -> Iterable[str]:
    command = args[0] if args else ""
    yield from args[:1]
    if command in _SHOWS:
        yield from ("--no-ext-diff", "--no-textconv")
    if command in _LOOKS_INSIDE:
        yield "--ignore-submodules=all"
    if command in ("log", "show"):
        yield "--no-show-signature"
    yield from args[1:]


def _own(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that point git elsewhere or name programs and libraries for it."""
    known = without_loading(without_keys(environment))
    return {name: value for name, value in known.items() if not name.startswith("GIT_")}


def _repository(folder: str) -> Path:
    root = project_root(Path(folder).absolute())
    if not (root / ".git").exists():
        raise UserError(f"{folder!r} is in no git repository.")
    return root


def _program() -> str:
    """Find git: the system's own first, since a workspace may be on PATH."""
    found = shutil.which("git", path="/usr/bin:/bin:/usr/local/bin") or shutil.which("git")
    if found is None or not os.path.isabs(found):
        raise UserError("There is no git on this machine. Install it, then try again.")
    return found
