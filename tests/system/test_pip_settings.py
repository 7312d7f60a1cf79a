"""The package index is the one that pip would ask."""

from pathlib import Path

import pytest

from backstay.system.pip_settings import PUBLIC, PipSettings, pip_certificates, pip_settings
from backstay.vocab.errors import UserError


def test_without_a_word_it_is_the_public_index() -> None:
    assert pip_settings({"PIP_CONFIG_FILE": "/dev/null"}) == PipSettings(indexes=(PUBLIC,))


def test_a_variable_beats_a_file(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://files.example/simple/\nextra-index-url =\n    https://one.example/simple\n"
        "    file:///opt/simple\n    https://two.example/simple\ncert = /etc/ca.pem\n",
        encoding="utf-8",
    )
    said = {"PIP_CONFIG_FILE": str(config), "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    extra = ("https://one.example/simple", "https://two.example/simple")

    assert pip_settings(said) == PipSettings(indexes=("https://files.example/simple", *extra), cert="/etc/ca.pem")
    assert pip_settings(said | {"PIP_INDEX_URL": "http://near.example/simple"}).indexes == (
        "http://near.example/simple",
        *extra,
    )


def test_no_index_means_none(tmp_path: Path) -> None:
    assert pip_settings({"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}).indexes == ()


def test_a_broken_file_is_passed_over(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("index-url without a section", encoding="utf-8")

    said = pip_settings({"PIP_CONFIG_FILE": str(config), "HOME": str(tmp_path), "PIP_INDEX_URL": "https://a.example/s"})

    assert said.indexes[0] == "https://a.example/s"


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pip's certificates at '/nowhere.pem' cannot be used"):
        pip_certificates("/nowhere.pem")
