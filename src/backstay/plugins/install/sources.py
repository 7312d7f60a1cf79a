"""Sources of plugins and marketplaces, as a person types them and as a marketplace's file names them."""

import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import msgspec

from backstay.vocab.errors import UserError


class FolderSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="folder"):
    """A folder of this machine."""

    path: str

    def __str__(self) -> str:
        return self.path


class GitSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="git"):
    """A git repository."""

    url: str
    ref: str = ""
    """A branch or a tag; else what the repository's HEAD is."""
    sha: str = ""
    """The commit that it must be."""
    path: str = ""
    """The folder in it that counts."""

    def __str__(self) -> str:
        return f"{self.url}{f'#{self.sha or self.ref}' if self.sha or self.ref else ''}"


class ArchiveSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="archive"):
    """A zip or tar.gz file, of this machine or under an address."""

    url: str
    """An address, or an absolute path."""
    sha256: str = ""

    def __str__(self) -> str:
        return self.url


class UrlSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="url"):
    """The address of a marketplace's file."""

    url: str

    def __str__(self) -> str:
        return self.url


class PythonSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="pypi"):
    """A package of the Python index. It is not fetched; its wheel can be installed as an archive."""

    package: str
    version: str = ""

    def __str__(self) -> str:
        return f"pypi:{self.package}{f'=={self.version}' if self.version else ''}"


class NpmSource(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="npm"):
    """A package of the npm registry. It is not fetched; its tarball can be installed as an archive."""

    package: str
    version: str = ""

    def __str__(self) -> str:
        return f"npm:{self.package}{f'@{self.version}' if self.version else ''}"


Source = FolderSource | GitSource | ArchiveSource | UrlSource | PythonSource | NpmSource

_REPO: Final = r"[A-Za-z0-9_][\w.-]{0,99}/[A-Za-z0-9_][\w.-]{0,99}"
_GITHUB: Final = re.compile(rf"(?:github:)?({_REPO}?)(?:\.git)?(?:[#@]([\w./-]+))?")
_SCP: Final = re.compile(r"[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][\w.-]*:(?!/?-)[\w./~-]+")
_REF: Final = re.compile(r"[A-Za-z0-9_](?:[\w./+@-]*[\w+])?")
_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PACKAGE: Final = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]{0,99}/)?[A-Za-z0-9][A-Za-z0-9._~-]{0,99}")
_EXACT: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._+!-]{0,62}[A-Za-z0-9])?)?")
ARCHIVES: Final = (".zip", ".tar.gz", ".tgz", ".whl")
"""Suffixes of archives."""
_FORGES: Final = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")


def source_of(text: str, cwd: Path) -> Source:
    """Return the source that a person means; a folder is written with `./`, `/` or `~` in front. Raise `UserError` when there is none."""
    kind, sign, rest = text.partition(":")
    if kind in ("pypi", "npm") and sign:
        package, _, version = rest.partition("==") if kind == "pypi" else rest.rpartition("@")
        unversioned = kind == "npm" and not package
        return _package_source(kind, rest if unversioned else package, "" if unversioned else version)
    path = _expand_home(text) if "\0" not in text and not sign else None
    if path is not None and (text.startswith((".", "/", "~")) or text.endswith(ARCHIVES)):
        return _on_disk(text, (cwd / path).absolute())
    if "://" in text or text.startswith("git+"):
        return _at_address(text)
    if _SCP.fullmatch(text.partition("#")[0]):
        url, _, ref = text.partition("#")
        return git_source(url, ref)
    if found := _GITHUB.fullmatch(text):
        return git_source(f"https://github.com/{found[1]}.git", found[2] or "")
    raise UserError(f"{text!r} is no source. Use a folder, an archive, OWNER/REPO or the address of a git repository.")


def git_source(url: str, ref: str = "", sha: str = "", path: str = "", *, local: bool = True) -> GitSource:
    """Return a repository whose parts are safe for git. With `local` it may be one of this machine. Raise `UserError`."""
    if not _SCP.fullmatch(url):
        check_url(url, ("https", "http", "ssh", *(("file",) if local else ())))
    if ref and _SHA.fullmatch(ref) and not sha:
        ref, sha = "", ref
    if ref and (not _REF.fullmatch(ref) or ".." in ref or "@{" in ref or "//" in ref):
        raise UserError(f"{ref!r} is not a branch or a tag that can be fetched from {url!r}.")
    if sha and not _SHA.fullmatch(sha):
        raise UserError(f"{sha!r} is not a whole commit id. Give all 40 digits.")
    return GitSource(url=url, ref=ref, sha=sha, path=path)


def archive_source(url: str, sha256: str = "") -> ArchiveSource:
    """Return an archive under an address. Raise `UserError` when it cannot be one."""
    check_url(url, ("https", "http"))
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise UserError(f"{sha256!r} is not the SHA-256 of {url!r}. Give all 64 digits in lower case.")
    return ArchiveSource(url=url, sha256=sha256)


def check_url(url: str, schemes: tuple[str, ...]) -> str:
    """Return an address that may be asked; raise `UserError` for any other."""
    parts = split_url(url)
    host = parts.hostname or ""
    if any(each.isspace() or not each.isprintable() for each in url) or "\\" in url:
        raise UserError(f"{url!r} is not an address: it has blanks or signs in it that no address has.")
    if parts.scheme not in schemes:
        raise UserError(f"{url!r} begins with {parts.scheme!r}. Use {', '.join(schemes)}.")
    if parts.scheme != "file" and (not host or host.startswith("-")):
        raise UserError(f"{url!r} names no host.")
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise UserError(f"The address of {host!r} has a user's name or a key in it. Leave that out.")
    if parts.username and parts.username.startswith("-"):
        raise UserError(f"{url!r} has no user's name that can be used.")
    return url


def split_url(url: str, base: str = "") -> SplitResult:
    """Split an address, relative to `base`. Raise `UserError` when it is none."""
    try:
        parts = urlsplit(urljoin(base, url) if base else url)
        _ = parts.port, parts.hostname
    except ValueError as exc:
        raise UserError(f"{url!r} is not an address: {exc}.") from None
    return parts


class EntrySource(msgspec.Struct, frozen=True, kw_only=True):
    """The source object of a plugin in a marketplace's file."""

    source: str
    repo: str = ""
    url: str = ""
    ref: str = ""
    sha: str = ""
    path: str = ""
    package: str = ""
    version: str = ""
    sha256: Annotated[str, msgspec.Meta(max_length=64)] = ""


def entry_source(entry: EntrySource, *, local: bool) -> Source:
    """Return the source that a marketplace's file names. `local`: the marketplace is a folder of this machine. Raise `UserError`."""
    match entry.source:
        case "github":
            if not re.fullmatch(_REPO, entry.repo) or ".." in entry.repo:
                raise UserError(f"{entry.repo!r} is not a GitHub repository. Write OWNER/REPO.")
            url = f"https://github.com/{entry.repo.removesuffix('.git')}.git"
            return git_source(url, entry.ref, entry.sha, entry.path, local=False)
        case "url" | "git" | "git-subdir":
            return git_source(entry.url, entry.ref, entry.sha, entry.path, local=local)
        case "npm":
            return _package_source("npm", entry.package, entry.version)
        case "pip" | "pypi":
            return _package_source("pypi", entry.package, entry.version)
        case "archive":
            return archive_source(entry.url, entry.sha256)
        case "command":
            raise UserError("A source that runs a command is refused.")
        case other:
            raise UserError(f"{other!r} is not a source that is known here.")


def _package_source(kind: str, package: str, version: str) -> Source:
    version = "" if version == "latest" else version
    if not _PACKAGE.fullmatch(package) or ".." in package or not _EXACT.fullmatch(version):
        raise UserError(
            f"{kind}: {package!r} with the version {version!r} cannot be a package. Write a name and an exact version."
        )
    return (
        PythonSource(package=package, version=version)
        if kind == "pypi"
        else NpmSource(package=package, version=version)
    )


def _expand_home(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no such user
        raise UserError(f"There is no home folder that {text!r} could mean. Write the whole path.") from None


def _on_disk(text: str, path: Path) -> Source:
    if path.is_dir():
        return FolderSource(path=str(path))
    if path.is_file() and path.name.endswith(ARCHIVES):
        return ArchiveSource(url=str(path))
    if path.name == "marketplace.json" and path.is_file():
        return FolderSource(path=str(path.parent.parent if path.parent.name == ".claude-plugin" else path.parent))
    raise UserError(f"{text!r} is neither a folder nor a zip or tar.gz file.")


def _at_address(text: str) -> Source:
    url, _, tail = text.removeprefix("git+").partition("#")
    parts = split_url(url)
    if parts.scheme in ("ssh", "file") or text.startswith("git+") or parts.path.endswith(".git"):
        return git_source(url, unquote(tail))
    if parts.path.endswith(ARCHIVES):
        return archive_source(url, tail.removeprefix("sha256="))
    if parts.path.endswith(".json"):
        return UrlSource(url=check_url(url, ("https", "http")))
    if parts.hostname in _FORGES and parts.path.strip("/").count("/") == 1:
        return git_source(f"{url.rstrip('/')}.git", unquote(tail))
    raise UserError(
        f"It is not clear what {text!r} is. A git repository ends in .git or begins with git+, an archive ends in .zip or .tar.gz, "
        "a marketplace's file in .json."
    )
