"""Secrets that are kept in the keyring of the operating system."""

import re
import sys
from collections.abc import Iterator

import pytest

from backstay.config.model_finder import Finder
from backstay.config.secret import HIDDEN, Secret, mask
from backstay.config.settings import Profile, Settings
from backstay.system.installation import hint_extra
from backstay.system.machine import SystemClock
from backstay.vocab.errors import UserError

keyring = pytest.importorskip("keyring")
backend = pytest.importorskip("keyring.backend")
errors = pytest.importorskip("keyring.errors")


class Ring(backend.KeyringBackend):  # type: ignore[misc,name-defined]  # the package may not be there
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        if self.locked:
            raise errors.KeyringLocked("it is locked")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def ring() -> Iterator[Ring]:
    before = keyring.get_keyring()
    made = Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_a_key_comes_from_the_keyring_and_its_place_is_all_that_is_shown(ring: Ring) -> None:
    keyring.set_password("llm", "me/work", " k-1234\n")
    secret = Secret("$KEYRING:llm/me/work", name="it")

    assert secret.reveal({}) == "k-1234"
    assert (repr(secret), secret.is_plain, secret.is_in_keyring) == ("Secret($KEYRING:llm/me/work)", False, True)


def test_the_keyring_is_asked_once_for_a_model(ring: Ring) -> None:
    keyring.set_password("llm", "me", "k-1234")
    profile = Profile(type="openai-chat", base_url="https://a.example", api_key=Secret("$KEYRING:llm/me", name="it"))
    model = Finder(Settings(providers={"p": profile}), SystemClock(), environment={}).find("p:m")

    assert [model._key() for _ in range(3)] == ["k-1234"] * 3  # type: ignore[attr-defined]  # of the HTTP model
    assert ring.asked == 1


def test_a_key_that_the_keyring_does_not_have_says_how_to_put_it_there(ring: Ring) -> None:
    with pytest.raises(
        UserError, match=r"it is not in the keyring under 'llm', 'me'. Put it there: keyring set llm me"
    ):
        Secret("$KEYRING:llm/me", name="it").reveal({})
    ring.locked = True
    with pytest.raises(UserError, match=r"it cannot be read from the keyring .*: it is locked"):
        Secret("$KEYRING:llm/me", name="it").reveal({})


def test_without_the_package_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(UserError, match=re.escape(hint_extra("keyring"))):
        Secret("$KEYRING:llm/me", name="it").reveal({})


def test_what_is_shown_of_settings_has_no_secret() -> None:
    plain = "a1-b2-c3-d4"
    profile = {
        "type": "google",
        "apiKey": plain,
        "headers": {"X": plain, "Y": "$ENV:Y"},
        "options": {"headers": [plain]},
    }

    assert mask(("providers", "p"), profile) == {
        "type": "google",
        "apiKey": HIDDEN,
        "headers": {"X": HIDDEN, "Y": "$ENV:Y"},
        "options": {"headers": [HIDDEN]},
    }
    assert mask(("env",), {"A": plain, "PIN": 1234}) == {"A": HIDDEN, "PIN": HIDDEN}
    server = {"command": "serve", "args": ["--port"], "env": {"KEY": plain}, "headers": {"Z": "$KEYRING:a/b"}}
    shown = {**server, "env": {"KEY": HIDDEN}}
    assert mask(("mcpServers",), {"s": server}) == {"s": shown}
    assert plain not in str(mask((), {"provider": {"api_key": plain}, "mcpServers": {"t": {"env": {"A": plain}}}}))


def test_what_a_program_is_started_with_and_what_nobody_knows_is_shown_without_secrets_too() -> None:
    started = {"command": "serve", "args": ["--port", "80", "--api-key", "plain", "-v"], "url": "https://x"}
    hook = [{"hooks": [{"type": "http", "url": "https://x", "headers": {"X-Team": "plain"}}]}]

    assert mask(("mcpServers", "s"), started) == {**started, "args": ["--port", "80", "--api-key", HIDDEN, "-v"]}
    assert mask(("hooks", "PreToolUse"), hook) == [
        {"hooks": [{"type": "http", "url": "https://x", "headers": {"X-Team": HIDDEN}}]}
    ]
    assert mask(("providers", "p", "options"), {"user": "plain"}) == {"user": HIDDEN}
    assert mask(("nobodys",), {"apiKey": "plain", "deep": [{"password": "plain"}], "size": 3}) == {
        "apiKey": HIDDEN,
        "deep": [{"password": HIDDEN}],
        "size": 3,
    }
    assert mask(("nobodys", "t", "token"), "plain") == HIDDEN
