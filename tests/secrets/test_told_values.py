"""A value that a text tells to be secret is erased wherever it stands in the session, and ordinary words are not."""

from collections.abc import Mapping

import pytest

from backstay.logic.secrets.erase import Eraser

TOLD: Mapping[str, str] = {
    "api_key: zebraStripe99": "zebraStripe99",
    "My password: zebraStripe99. Keep it.": "zebraStripe99",
    "API_KEY=zebraStripe99": "zebraStripe99",
    "https://h/?api_key=zebraStripe99&x=1": "zebraStripe99",
    "**api_key: zebraStripe99**": "zebraStripe99",
    "api_key: zebra-Stripe-99xkq": "zebra-Stripe-99xkq",
    "DB_PASS=swordfish77": "swordfish77",
    'secret: "two words here"': "two words here",
    '{"password": "zebra\\"Stripe99"}': 'zebra"Stripe99',
    "api_key=zebra%2FStripe99": "zebra/Stripe99",
    "token = correcthorsebattery": "correcthorsebattery",
    'password: "correcthorsebattery"': "correcthorsebattery",
    "postgres://ada:zebraStripe99@h/db": "zebraStripe99",
    "Cookie: a=1; sid=zebraStripe99": "zebraStripe99",
    "password: 48291736": "48291736",
    "My API key: zebraStripe99": "zebraStripe99",
    "the api key is zebraStripe99.": "zebraStripe99",
    "db:\n  password:\n    zebra-99-stripe\n": "zebra-99-stripe",
    "password: |\n  zebra-99-stripe\nuser: ada": "zebra-99-stripe",
    "API key:\r\nzebraStripe99\r\n": "zebraStripe99",
}
ORDINARY: Mapping[str, str] = {
    "DB_PASS=swordfish": "swordfish",
    "SECRET_KEY=development": "development",
    "API_KEY=your-api-key-here": "your-api-key-here",
    "API_KEY=changeme": "changeme",
    "DB_PASSWORD=dbPassword": "dbPassword",
    "API_KEY=bypassPermissions": "bypassPermissions",
    "API_KEY=workspace-write": "workspace-write",
    'API_KEY = os.environ["X"]': "os.environ[",
    "Set-Cookie: sid=zebraStripe99; Domain=.example.com; Path=/; Secure; HttpOnly": ".example.com",
    "PASSWORD=20261119": "20261119",
    "token = refreshtokenoftheuser": "refreshtokenoftheuser",
    "API_KEY=abc12": "abc12",
    "password:\n  development1:\n    x": "development1",
    "token:\n- development1\n": "development1",
    "Enter your password:\nLogin1 failed": "Login1",
    "max_tokens:\n  development1\n": "development1",
}
AGAIN = ("again {} done", '{{"say": "<{}>"}}', "{}", "x={}.")


@pytest.mark.parametrize("told", TOLD)
def test_a_told_value_is_found_wherever_it_stands(told: str) -> None:
    eraser = Eraser(b"k")
    assert eraser.learn(told)
    for words in AGAIN:
        text = words.format(TOLD[told])
        assert TOLD[told] not in eraser.text(text)
        assert [one.why for one in eraser.find(text)] != ["a known value"]


@pytest.mark.parametrize("told", ORDINARY)
def test_an_ordinary_word_stays_where_nothing_tells_that_it_is_secret(told: str) -> None:
    eraser = Eraser(b"k")
    eraser.learn(told)
    for words in AGAIN:
        text = words.format(ORDINARY[told])
        assert eraser.text(text) == text


@pytest.mark.parametrize("word", ["session", "default", "approved"])
def test_a_plain_word_that_a_value_begins_with_is_no_part_of_it(word: str) -> None:
    eraser = Eraser(b"k")
    eraser.learn(f"api_key: {word}-q7Zk3Vt9QwLr7XyB2NmHc8Pd")
    assert eraser.text(word) == word
    assert eraser.text(f"{word}-q7Zk3V") != f"{word}-q7Zk3V"
