"""Marketplaces: read with what is wrong beside them, added from every kind of source, searched, updated and removed."""

from pathlib import Path
from typing import Any

import pytest

from backstay.plugins.install.sources import (
    ArchiveSource,
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    UrlSource,
    entry_source,
    source_of,
)
from backstay.plugins.install.sources import EntrySource as Said
from backstay.plugins.marketplace import read_marketplace, search
from backstay.vocab.errors import UserError
from tests.plugins.shop import ENTRY, full, marketplace, plugin, write

SHA = "0123456789" * 4


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
