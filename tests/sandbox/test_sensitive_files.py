"""What is looked for below a folder before a command goes through it."""

import os
import time
from pathlib import Path

import pytest

from backstay.permissions.searches import NOT_TOLD, Lookup, Which
from backstay.sandbox.resolve_paths import MOST_FOUND, Listings, find_below


def below(folder: Path, which: Which = "all", *, seconds: float = 60) -> tuple[str, ...]:
    return find_below(Lookup(str(folder), which), Listings(time.monotonic() + seconds))


def found(folder: Path) -> list[str]:
    return sorted(Path(path).name for path in below(folder))


@pytest.mark.parametrize(
    ("name", "harmless", "secret"),
    [
        ("a.pem", "-----BEGIN CERTIFICATE-----\ntoken\n", "-----BEGIN RSA PRIVATE KEY-----\n"),
        (".npmrc", "save-exact=true\n", "//registry.test/:_authToken=x\n"),
        (".git/config", "[remote]\nurl = https://host.test/a.git\n", "[remote]\nurl = https://me:x@host.test/a.git\n"),
        (".envrc", "layout python\n", "export DB_PASSWORD=x\n"),
        ("prod.tfvars", 'region = "eu"\n', 'db_password = "x"\n'),
    ],
)
def test_settings_and_certificates_count_where_they_hold_something(
    tmp_path: Path, name: str, harmless: str, secret: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(harmless)
    assert found(tmp_path) == []

    (tmp_path / name).write_text(secret)
    assert found(tmp_path) == [Path(name).name]


def test_a_bundle_of_certificates_is_looked_through_to_its_end(tmp_path: Path) -> None:
    bundle = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" * 4_000
    (tmp_path / "cacert.pem").write_text(bundle)
    assert found(tmp_path) == []

    (tmp_path / "cacert.pem").write_text(f"{bundle}-----BEGIN PRIVATE KEY-----\n")
    assert found(tmp_path) == ["cacert.pem"]


def test_everything_in_a_sensitive_folder_counts_and_templates_do_not(tmp_path: Path) -> None:
    for name in (".aws/config", "sub/.ssh/deep/a", ".env.example", "sub/.env.local", "src/env.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    assert found(tmp_path) == [".env.local", "a", "config"]


def test_where_the_folder_lies_says_nothing_of_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / ".aws/work").mkdir(parents=True)
    (tmp_path / ".aws/work/a.py").write_text("x")

    assert found(tmp_path / ".aws/work") == []


def test_what_is_too_much_is_not_guessed(tmp_path: Path) -> None:
    for number in range(MOST_FOUND + 1):
        (tmp_path / f"{number}.env").write_text("x")
    assert below(tmp_path) == NOT_TOLD

    for number in range(600):
        (tmp_path / f"{number}.py").write_text("x")
    (tmp_path / "src").mkdir()
    assert below(tmp_path, seconds=-1) == NOT_TOLD


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".npmrc")
    os.mkfifo(tmp_path / ".ignore")

    assert below(tmp_path, "shown") == ()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config/master.key", "9f86d081884c7d659a2feaa0c55ad015"),
        ("config/master.key", "9f86d081884c7d659a2feaa0c55ad015\n"),
        ("a.key", "AbCdEfGh0123456789+/AbCdEfGh0123456789+/AbC=\n"),
        (".npmrc", "; a note\n" * 9_000 + "//registry.test/:_authToken=x\n"),
        (".envrc", "export DB_PASS=x\n"),
        (".envrc", "export STRIPE_SK=x\n"),
        (".envrc", "export SENTRY_DSN=x\n"),
    ],
)
def test_c1_short_keys_long_files_and_short_names_count(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)

    assert found(tmp_path) == [Path(name).name]
