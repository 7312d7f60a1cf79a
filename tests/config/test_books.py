"""The small files that are kept for a person are all read and written in one way."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backstay.config.trust.trust_store import GrantStore, TrustStore
from backstay.mcp.config.start import PinStore
from backstay.plugins.ids import PluginId
from backstay.plugins.installed import InstalledPlugins
from backstay.plugins.known_marketplaces import KnownMarketplaces
from backstay.vocab.errors import UserError

READERS: dict[str, Callable[[Path], object]] = {
    "grants.json": lambda data: GrantStore(data).here("/work"),
    "pins.json": lambda data: PinStore(data).drift("server", ()),
    "trust.json": lambda data: TrustStore(data).revoke("/work"),
    "plugins/known_marketplaces.json": lambda data: KnownMarketplaces(data).read_known(),
    "plugins/installed_plugins.json": lambda data: InstalledPlugins(data).read(),
}
WRITERS: dict[str, str] = {
    "grants.json": "from backstay.config.trust.trust_store import GrantStore as B; B(data).add('/work', ['Bash(make)'])",
    "plugins/known_marketplaces.json": "from backstay.plugins.known_marketplaces import KnownMarketplaces as B; B(data).remove('x')",
    "plugins/installed_plugins.json": (
        "from backstay.plugins.installed import InstalledPlugins as B; "
        "from backstay.plugins.ids import PluginId as P; B(data).remove(P('a', 'b'), 'person', '')"
    ),
}


@pytest.mark.parametrize("place", READERS)
@pytest.mark.parametrize("content", ["{", "[]", "5", '{"x": %s}' % ("[" * 100_000), '{"version": 1, "x": "\\ud800"}'])
def test_a_damaged_book_is_named_with_what_to_do(tmp_path: Path, place: str, content: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)

    with pytest.raises(UserError, match=rf"{path.name}' is damaged \(.*\)\. Remove it, and .* again\."):
        READERS[place](tmp_path)


@pytest.mark.parametrize("place", READERS)
def test_a_book_that_is_not_there_says_nothing_and_is_not_made_by_reading(tmp_path: Path, place: str) -> None:
    READERS[place](tmp_path)

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", WRITERS)
@pytest.mark.parametrize("session", [True, False])
def test_only_a_person_changes_what_a_person_decides(tmp_path: Path, place: str, session: bool) -> None:
    program = f"from pathlib import Path; import sys; data = Path(sys.argv[1]); {WRITERS[place]}"
    environment = {**os.environ, **({"BACKSTAY_CALL": "c"} if session else {})}

    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False, env=environment
    )

    path = tmp_path / place
    assert path.exists() is (ran.returncode == 0) is not session
    assert ("Only a person may" in ran.stderr) is session
    assert session or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_removed_from_a_book_leaves_no_empty_entry(tmp_path: Path) -> None:
    grants = GrantStore(tmp_path)
    grants.add("/work", ["Bash(make)"])
    grants.remove("Bash(make)", ["/work"])

    assert (tmp_path / "grants.json").read_text(encoding="utf-8").split() == ["{}"]
    assert InstalledPlugins(tmp_path).remove(PluginId("a", "b"), "person", "") == ()
