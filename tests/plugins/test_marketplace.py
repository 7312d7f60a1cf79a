"""Marketplaces: read with what is wrong beside them, added from every kind of source, searched, updated and removed."""

import os
from pathlib import Path
from typing import Any

import pytest

from backstay.plugins.install.sources import (
    ArchiveSource,
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    Source,
    UrlSource,
    entry_source,
    source_of,
)
from backstay.plugins.install.sources import EntrySource as Said
from backstay.plugins.marketplace import DEFAULT, KnownMarketplaces, read_marketplace, search
from backstay.vocab.errors import UserError
from tests.plugins.shop import marketplace, plugin, repository, tarred, write

ENTRY = {"name": "reviewer", "source": "./plugins/reviewer", "category": "quality", "tags": ["review"]}
SHA = "0123456789" * 4


def full(folder: Path) -> Path:
    plugin(folder / "plugins/reviewer")
    write(folder / "plugins/bare", {"skills/one/SKILL.md": "x"})
    return marketplace(
        folder,
        ENTRY,
        {"name": "bare", "source": "./plugins/bare", "version": "2.0", "description": "Says why", "keywords": ["Why"]},
        {"name": "far", "source": {"source": "github", "repo": "acme/far", "ref": "v1"}},
    )


def test_a_marketplace_of_the_public_shape_is_read(tmp_path: Path) -> None:
    found = read_marketplace(full(tmp_path))

    assert (found.name, found.owner, found.problems) == ("acme", "Acme", ())
    assert [(each.name, each.source, each.version, each.category, each.keywords) for each in found.entries] == [
        ("reviewer", FolderSource(path=str(tmp_path / "plugins/reviewer")), "", "quality", ("review",)),
        ("bare", FolderSource(path=str(tmp_path / "plugins/bare")), "2.0", "", ("Why",)),
        ("far", GitSource(url="https://github.com/acme/far.git", ref="v1"), "", "", ()),
    ]


def test_what_is_wrong_with_one_entry_hides_no_other_and_names_its_line(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins/reviewer")
    (tmp_path / "plugins/out").symlink_to("/etc")
    wrong: list[Any] = [  # Any: some are no objects
        {"source": "./plugins/reviewer"},
        {"name": "../up", "source": "./plugins/reviewer"},
        {"name": "a", "source": "../../elsewhere"},
        {"name": "b", "source": "/etc"},
        {"name": "c", "source": "./plugins/out"},
        {"name": "d", "source": {"source": "command", "command": "curl x | sh"}},
        {"name": "e", "source": {"source": "url", "url": "ext::sh -c id"}},
        {"name": "f", "source": {"source": "github", "repo": "a/b; rm -rf /"}},
        {"name": "g", "source": {"source": "github", "repo": "a/b", "ref": "--upload-pack=id"}},
        {"name": "h", "source": {"source": "github", "repo": "a/b", "sha": "abc"}},
        {"name": "i", "source": 7},
        {"name": "j"},
        "k",
        {"name": "reviewer", "source": "./plugins/reviewer"},
    ]
    folder = marketplace(tmp_path, ENTRY, *wrong)

    found = read_marketplace(folder)

    assert [each.name for each in found.entries] == ["reviewer"]
    assert len(found.problems) == len(wrong)
    lines = (folder / ".claude-plugin/marketplace.json").read_text().splitlines()
    place = next(n for n, line in enumerate(lines, 1) if '"../../elsewhere"' in line)
    assert (
        f"marketplace.json:{place - 2}: plugins[3]: The path '../../elsewhere' leaves the marketplace"
        in found.problems[2]
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", ":1: This is not JSON"), ("{}", "name: It is required"), ('{"name": "a"}', "plugins: It is required")],
)
def test_a_broken_list_is_refused_with_its_line(tmp_path: Path, content: str, words: str) -> None:
    write(tmp_path, {".claude-plugin/marketplace.json": content})
    with pytest.raises(UserError, match=words):
        read_marketplace(tmp_path)


@pytest.mark.contract("RB-112")
def test_plugins_are_found_by_name_keyword_and_category(tmp_path: Path) -> None:
    listed = (read_marketplace(full(tmp_path)),)

    def names(*words: str, **more: str) -> list[str]:
        return [each.name for each in search(listed, *words, **more)]

    assert names() == ["bare", "far", "reviewer"]
    assert names("REV") == ["reviewer"]
    assert names("says") == ["bare"]
    assert names(keyword="why") == ["bare"]
    assert names(keyword="wh") == []
    assert names(category="Quality") == ["reviewer"]
    assert names("far nonsense") == []


@pytest.mark.contract("RB-112")
@pytest.mark.parametrize("kind", ["folder", "git", "archive"])
async def test_a_marketplace_is_added_listed_updated_and_removed(tmp_path: Path, kind: str) -> None:
    folder = full(tmp_path / "m")
    commit = repository(folder) if kind == "git" else ""
    sources: dict[str, Source] = {
        "folder": FolderSource(path=str(folder)),
        "git": GitSource(url=f"file://{folder}"),
        "archive": ArchiveSource(url=str(tarred(folder, tmp_path / "m.tgz", "acme-1.0"))),
    }
    book = KnownMarketplaces(tmp_path / "data")
    assert list(book.read_known()) == [DEFAULT] == [book.default]  # known from the start; nothing of it is fetched
    assert not book.read_known()[DEFAULT].fetched
    assert book.read_all() == ((), ())

    added = await book.add(sources[kind], 5)

    assert added.name == "acme"
    known = book.read_known()["acme"]
    assert (known.source, known.commit, known.added, known.updated) == (sources[kind], commit, 5, 5)
    assert [each.name for each in book.read_all()[0][0].entries] == ["reviewer", "bare", "far"]
    marketplace(folder, ENTRY)
    if kind == "git":
        repository(folder)
    elif kind == "archive":
        tarred(folder, tmp_path / "m.tgz", "acme-1.1")
    assert len((await book.update("acme", 9)).entries) == 1
    assert book.remove("acme")
    assert not book.remove("acme")
    assert "acme" not in book.read_known()
    assert not (tmp_path / "data/plugins/marketplaces/acme").exists()
    assert folder.exists()
    assert os.listdir(tmp_path / "data/plugins/staging") == []


async def test_a_failed_update_keeps_what_was_there_and_a_name_is_not_taken_over(tmp_path: Path) -> None:
    folder = full(tmp_path / "m")
    repository(folder)
    book = KnownMarketplaces(tmp_path / "data")
    await book.add(GitSource(url=f"file://{folder}"), 1)
    write(folder, {".claude-plugin/marketplace.json": "{"})
    repository(folder)

    with pytest.raises(UserError, match="not JSON"):
        await book.update("acme", 2)
    assert len(book.read("acme").entries) == 3
    other = full(tmp_path / "other")
    with pytest.raises(UserError, match="There is a marketplace 'acme' already"):
        await book.add(FolderSource(path=str(other)), 3)
    assert (await book.add(FolderSource(path=str(other)), 3, name="acme2", default=True)).name == "acme2"
    assert book.default == "acme2"
    with pytest.raises(UserError, match=f"There is a marketplace '{DEFAULT}' already"):  # nobody takes a known name
        await book.add(FolderSource(path=str(other)), 3, name=DEFAULT)
    with pytest.raises(UserError, match="cannot be called 'direct'"):
        await book.add(FolderSource(path=str(other)), 3, name="direct")


async def test_links_that_lead_out_of_a_marketplace_are_not_fetched(tmp_path: Path) -> None:
    folder = full(tmp_path / "m")
    (folder / "secrets").symlink_to("/etc")
    (folder / "gone").symlink_to("nowhere")
    repository(folder)

    await KnownMarketplaces(tmp_path / "data").add(GitSource(url=f"file://{folder}"), 1)

    kept = tmp_path / "data/plugins/marketplaces/acme"
    assert (kept / "plugins/reviewer").is_dir()
    assert not os.path.lexists(kept / "secrets")
    assert not os.path.lexists(kept / "gone")
    assert not (kept / ".git").exists()


def test_a_damaged_book_is_refused_and_one_of_others_is_not_believed(tmp_path: Path) -> None:
    book = write(tmp_path, {"plugins/known_marketplaces.json": "{"}) / "plugins/known_marketplaces.json"
    book.chmod(0o600)
    with pytest.raises(UserError, match="is damaged"):
        KnownMarketplaces(tmp_path).read_known()
    book.write_text('{"marketplaces": {"../x": {"source": {"source": "folder", "path": "/"}}}}')
    with pytest.raises(UserError, match="cannot name a marketplace"):
        KnownMarketplaces(tmp_path).read_known()
    book.chmod(0o666)
    with pytest.raises(UserError, match="Other users can write"):
        KnownMarketplaces(tmp_path).read_known()


def test_sources_are_what_a_person_means_by_them(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "a.zip").write_bytes(b"")
    marketplace(tmp_path / "m")
    for text, wanted in {
        "./here": FolderSource(path=str(tmp_path / "here")),
        "a.zip": ArchiveSource(url=str(tmp_path / "a.zip")),
        "./m/.claude-plugin/marketplace.json": FolderSource(path=str(tmp_path / "m")),
        "acme/tools": GitSource(url="https://github.com/acme/tools.git"),
        "github:acme/tools#v1": GitSource(url="https://github.com/acme/tools.git", ref="v1"),
        "https://github.com/acme/tools": GitSource(url="https://github.com/acme/tools.git"),
        f"https://x.example/t.git#{SHA}": GitSource(url="https://x.example/t.git", sha=SHA),
        "git@x.example:acme/t.git": GitSource(url="git@x.example:acme/t.git"),
        "ssh://git@x.example/acme/t": GitSource(url="ssh://git@x.example/acme/t"),
        "https://x.example/p.tar.gz": ArchiveSource(url="https://x.example/p.tar.gz"),
        "https://x.example/m.json": UrlSource(url="https://x.example/m.json"),
        "pypi:acme-tools==1.2": PythonSource(package="acme-tools", version="1.2"),
        "npm:@acme/tools@1.2.3": NpmSource(package="@acme/tools", version="1.2.3"),
        "npm:tools": NpmSource(package="tools"),
    }.items():
        assert source_of(text, tmp_path) == wanted, text


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c id",
        "git+ext::sh",
        "--upload-pack=id",
        "-x/y",
        "a/b/c",
        "https://x.example/page",
        "ftp://x.example/a.zip",
        "https://user:key@x.example/t.git",
        "https:///t.git",
        "https://-x/t.git",
        "https://x.example/t.git#-u",
        "https://x.example/t.git#a..b",
        "https://x.example/a b.git",
        "git@-x:y",
        "pypi:../x",
        "pypi:x==>1",
        "npm:../x",
        "npm:x@^1",
        "./gone",
        "https://[x/t.git",
        "",
    ],
)
def test_rb_w15_what_git_or_a_shell_could_misread_is_no_source(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError):
        source_of(text, tmp_path)


def test_rb_w15_a_strangers_list_names_no_repository_of_this_machine() -> None:
    with pytest.raises(UserError, match="begins with 'file'"):
        entry_source(Said(source="url", url="file:///home/me/secret"), local=False)
    with pytest.raises(UserError, match="begins with ''"):
        entry_source(Said(source="git", url="/home/me/secret"), local=True)
