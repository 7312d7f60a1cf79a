"""The marketplaces that a person knows are fetched, kept and updated."""

import os
from pathlib import Path

import pytest

from backstay.plugins.install.sources import (
    ArchiveSource,
    FolderSource,
    GitSource,
    Source,
)
from backstay.plugins.known_marketplaces import DEFAULT, KnownMarketplaces
from backstay.vocab.errors import UserError
from tests.plugins.shop import ENTRY, full, marketplace, repository, tarred, write


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
