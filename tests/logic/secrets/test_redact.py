"""Secrets are found by their name, by how they look and by their value, whole or in pieces; ordinary text is left alone.

The tokens are put together here, letter by letter, from a seed: none was ever issued, and no scanner finds one in this file.
"""

import json
import random
import string
import sysconfig
from pathlib import Path

import pytest

from backstay.logic.secrets.redact import REDACTED, Redactor, StreamRedactor, is_secret_key, looks_secret, redact

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
_chance = random.Random(20)


def some(count: int, letters: str = LETTERS) -> str:
    """Letters by chance, with at least a few digits among them."""
    made = [_chance.choice(letters) for _ in range(count)]
    for place in range(2, count, 5):
        made[place] = _chance.choice(string.digits)
    return "".join(made)


CAPITALS = string.ascii_uppercase + string.digits
PASSWORD = "Tr0ub" + "4dor&3x"
VENDORS = {
    "anthropic": "sk-" + "ant-api03-" + some(90) + "AA",
    "openai project": "sk-" + "proj-" + some(60),
    "openai classic": "sk-" + some(48),
    "openrouter": "sk-" + "or-v1-" + some(64, HEX),
    "google": "AI" + "za" + some(35),
    "google oauth": "ya" + "29." + some(60),
    "github classic": "gh" + "p_" + some(36),
    "github app": "gh" + "s_" + some(36),
    "github fine-grained": "github" + "_pat_" + some(22) + "_" + some(59),
    "gitlab": "gl" + "pat-" + some(20),
    "slack bot": "xo" + "xb-" + some(12, string.digits) + "-" + some(24),
    "slack app": "xa" + "pp-1-" + some(30),
    "stripe": "sk" + "_live_" + some(24),
    "stripe restricted": "rk" + "_test_" + some(24),
    "npm": "np" + "m_" + some(36),
    "pypi": "py" + "pi-AgEIcHlwaS5vcmc" + some(70),
    "hugging face": "h" + "f_" + some(34),
    "aws": "AK" + "IA" + some(16, CAPITALS),
    "sendgrid": "S" + "G." + some(22) + "." + some(43),
    "groq": "gs" + "k_" + some(52),
    "vault": "hv" + "s." + some(30),
    "json web token": "ey" + "J" + some(20) + ".ey" + "J" + some(40) + "." + some(43),
}
HEXES = some(40, HEX)
WORDS = some(40)
BLOCK = some(64) + "\n" + some(64) + "\n" + some(20)
BASIC = some(24)
COOKIE = some(32)
IN_TEXT: dict[str, tuple[str, str, str]] = {
    "url password": ("clone https://bob:", PASSWORD, "@example.com/x.git now"),
    "url token": ("clone https://", some(40), "@example.com/x.git now"),
    "database url": ("postgresql://app:", "p@ss/w0rd#1", "@db.example.com:5432/prod"),
    "database url with a driver": ("mysql+pymysql://root:", "hunter2", "@127.0.0.1/x"),
    "private key": (
        "cat key\n",
        f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{BLOCK}\n-----END RSA {'PRIVATE'} KEY-----",
        "\nend",
    ),
    "private key in JSON": ("", f"-----BEGIN {'PRIVATE'} KEY-----\\n{BLOCK}\\n-----END {'PRIVATE'} KEY-----", "\\n"),
    "private key without end": ("", f"-----BEGIN EC {'PRIVATE'} KEY-----\n{BLOCK}", ""),
    "azure account key": ("AccountName=a;AccountKey=", some(86) + "==", ";EndpointSuffix=core"),
    "azure signature": ("https://x.example.net/c?sv=2020&sig=", some(43) + "%3D", " "),
    "basic header": ('curl -H "Authorization: Basic ', BASIC + "==", '" x'),
    "bearer header": ("> Authorization: Bearer ", some(40), "\n> Accept: */*"),
    "bearer alone": ("use bearer ", some(40), " please"),
    "cookie header": ("Cookie: ", f"session={COOKIE}; theme=dark", "\nHost: x"),
    "environment": ("DB_PASSWORD=", PASSWORD, "\nDEBUG=1"),
    "yaml": ("password: ", PASSWORD, "\nuser: bob"),
    "yaml block": ("password: |\n  ", PASSWORD, "\nuser: bob"),
    "folded yaml block": ("a:\n  password: >-\n    ", PASSWORD, "\n  user: bob"),
    "passphrase": ("passphrase: ", "correct horse battery staple", "\nuser: bob"),
    "pass": ("[db]\npass=", PASSWORD, "\nuser=bob"),
    "putty": (
        "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 2\n",
        f"{some(64)}\n{some(40)}=",
        "\nPrivate-MAC: 00\n",
    ),
    "bitwarden": ('export BW_SESSION="', some(86) + "==", '"'),
    "glued to a name": ("Tool", "ghp_" + some(30) + "a1b2c3", " does not exist"),
    "aws secret": ("aws_secret_access_key = ", WORDS, "\n"),
    "quoted hex": ('API_TOKEN="', HEXES, '"'),
    "camel case": ('clientSecret: "', some(30), '",'),
    "code": ("const apiKey = '", some(32), "';"),
    "json": ('x {"password": "', "hunter2", '"} y'),
    "json in json": ('{\\"apiKey\\": \\"', some(32, HEX), '\\"}'),
}


def corpus() -> list[tuple[str, str]]:
    """Texts and the secret in each."""
    told = [(f"the key is {token}, use it", token) for token in VENDORS.values()]
    return [*told, *(("".join(pieces), pieces[1]) for pieces in IN_TEXT.values())]


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("name", VENDORS)
def test_the_key_of_a_vendor_is_found_wherever_it_stands(name: str) -> None:
    token = VENDORS[name]
    redactor = Redactor()

    for text in (
        token,
        f"key={token}",
        f'"{token}"',
        f"a {token} b",
        f"({token})",
        f"https://x.example/?k={token}&y=1",
    ):
        assert redactor.text(text) == text.replace(token, REDACTED), text


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("name", IN_TEXT)
def test_a_secret_is_told_by_where_it_stands(name: str) -> None:
    before, secret, after = IN_TEXT[name]

    told = Redactor().text(before + secret + after)

    assert secret not in told
    assert REDACTED in told
    assert told.startswith(before.rpartition("://")[0])
    assert told.endswith(after.rpartition(";")[2])


@pytest.mark.contract("RV-B15", "RV-33")
def test_values_that_the_runtime_injected_are_masked_exactly() -> None:
    value = 'plain words "quoted" / slashed'
    redactor = Redactor(exact=[value, "short", ""])

    assert redactor.text(f"it is {value}!") == f"it is {REDACTED}!"
    assert redactor.value({"body": f"x {value}"}) == {"body": f"x {REDACTED}"}
    assert redactor.text('{"a": "plain words \\"quoted\\" / slashed"}') == f'{{"a": "{REDACTED}"}}'
    assert redactor.text("plain%20words%20%22quoted%22%20%2F%20slashed") == REDACTED
    assert redactor.text("a short word") == "a short word"


@pytest.mark.parametrize(
    "written",
    [
        "k/2b+9&f<w'q",
        "k\\/2b+9&f<w'q",
        "k/2b+9\\u0026f\\u003cw'q",
        "k/2b\\u002b9\\u0026f\\u003cw\\u0027q",
        "k/2b\\u002B9\\u0026f\\u003Cw\\u0027q",
        "k%2F2b%2B9%26f%3Cw%27q",
        "k%2f2b%2b9%26f%3cw%27q",
    ],
)
def test_a_known_value_is_found_as_any_program_writes_json_and_addresses(written: str) -> None:
    assert Redactor(exact=["k/2b+9&f<w'q"]).mask_known(f'<"{written}">') == f'<"{REDACTED}">'


def test_a_known_value_that_is_no_text_is_found_as_it_is() -> None:
    assert Redactor(exact=["latin-\udcff-1"]).mask_known("a latin-\udcff-1 b") == f"a {REDACTED} b"


@pytest.mark.contract("RB-33")
@pytest.mark.parametrize(
    "key",
    [
        *("api_key", "apiKey", "API-KEY", "apikey", "authorization", "Authorization", "access_token", "accessToken"),
        *(
            "refresh-token",
            "refreshToken",
            "secret",
            "password",
            "PASSWORD",
            "x-api-key",
            "xApiKey",
            "X_API_KEY",
            "token",
        ),
        *("client_secret", "clientSecret", "cookie", "Set-Cookie", "private_key", "privateKey", "connection_string"),
        *(
            "GITHUB_TOKEN",
            "db_password",
            "awsSecretAccessKey",
            "aws_secret_access_key",
            "proxy-authorization",
            "credentials",
        ),
        *("ConnectionString", "DATABASE_URL", "x-goog-api-key", "passphrase", "accountKey"),
    ],
)
def test_what_stands_under_a_secret_key_is_taken_out(key: str) -> None:
    assert redact({"a": [{key: "x", "b": {key: {"deep": ["y"]}}}]}) == {"a": [{key: REDACTED, "b": {key: REDACTED}}]}


@pytest.mark.parametrize(
    "key",
    [
        *(
            "input_tokens",
            "max_tokens",
            "maxTokens",
            "totalTokens",
            "token_count",
            "tokenizer",
            "tokens",
            "next_page_token",
        ),
        *(
            "pageToken",
            "eos_token",
            "key",
            "keys",
            "monkey",
            "public_key",
            "sortKey",
            "secretary",
            "author",
            "authority",
        ),
        *("password_hint_shown", "cookies_enabled", "keyboard", "stop_token", "", "-"),
    ],
)
def test_what_stands_under_another_key_is_left_alone(key: str) -> None:
    assert not is_secret_key(key)
    assert redact({key: "x"}) == {key: "x"}


def test_counts_flags_nothing_and_schemas_are_left_alone() -> None:
    plain = {
        "token": 12,
        "password": "",
        "secret": None,
        "authorization": False,
        "schema": {"properties": {"password": {"type": "string"}}, "required": ["password"]},
        "numbers": (1, 2.5),
    }

    assert redact(plain) == plain | {"numbers": [1, 2.5]}


def test_json_in_a_text_is_read_and_the_rest_of_a_text_is_not_touched() -> None:
    args = '{"url":  "https://x.example",  "headers": {"Authorization": "letmein"}}'
    plain = '{"path":  "key.txt",   "limit": 1.50}'

    assert redact({"args": args}) == {
        "args": '{"url": "https://x.example", "headers": {"Authorization": "[REDACTED]"}}'
    }
    assert redact({"args": plain, "not": '{"token": '}) == {"args": plain, "not": '{"token": '}


HUB = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
KNOWN = "oaKEYvalue1234567890abcd"
DIGITS = "8675309123456"


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("secret", [HUB, KNOWN])
@pytest.mark.parametrize(
    "text",
    [
        '{"auth":1,"a":"SECRET","a":1}',
        '{"auth":1,"a":1,"a":"SECRET"}',
        '{"auth":1,"SECRET":1}',
        '{"auth":1,"SECRET":1,"SECRET":2}',
        '{"auth":1,"a":{"b":[{"SECRET x":1,"SECRET x":1}]}}',
        '{"auth":NaN,"a":1e999,"SECRET":[-0.0]}',
        '[{"auth":"\\ud800","SECRET":1}]',
        ' \n\ufeff{"auth":1,"a":"SECRET","a":1}',
        '\ufeff{"auth":1,"SECRET":1}',
        '{"auth":1,"a":"SECRET","a":1} and more',
        '{"auth":1,/* "SECRET" */"a":1}',
        pytest.param('{"auth":1,"n":' + "9" * 5000 + ',"SECRET":1}', id="a large number"),
        pytest.param('{"auth":' + "[" * 100_000 + '"SECRET"' + "]" * 100_000 + "}", id="a deep list"),
    ],
)
def test_reading_a_text_as_json_hides_no_secret_from_the_search(text: str, secret: str) -> None:
    redactor, told = Redactor(exact=[KNOWN]), text.replace("SECRET", secret)

    for value in (told, {"args": told}, [told], {"auth": 1, told: 1}):
        assert secret not in json.dumps(redactor.value(value)), value
    stream, size = StreamRedactor(redactor), len(told) // 20 + 1
    pieces = [
        *(clean for at in range(0, len(told), size) for clean in stream.feed(told[at : at + size])),
        *stream.flush(),
    ]
    assert secret not in "".join(pieces)


def test_a_secret_whose_letters_json_writes_as_numbers_is_found() -> None:
    written = "".join(f"\\u{ord(letter):04X}" for letter in HUB)

    assert redact(f'{{"{written}": "{written}"}}') == f'{{"{REDACTED}": "{REDACTED}"}}'


def test_a_name_that_stands_twice_hides_no_value_under_another_one() -> None:
    assert redact('{"a":1,"a":2,"password":{"x":["letmein"]},"password":["open"]}') == (
        f'{{"a": 1, "a": 2, "password": "{REDACTED}", "password": "{REDACTED}"}}'
    )
    pair = '{"name": "DB_PASSWORD", "value": "let me in", "value": "x", "name": "a"}'
    assert "let me in" not in str(redact(pair))


def test_objects_keep_every_entry_when_their_names_are_masked() -> None:
    value = {HUB: 1, REDACTED: 2, f"{HUB[:-1]}6": 3, "plain": 4, "properties": {HUB: {"type": "string"}, KNOWN: 5}}

    told = Redactor(exact=[KNOWN]).value(value)

    assert told == {
        REDACTED: 1,
        f"{REDACTED} 2": 2,
        f"{REDACTED} 3": 3,
        "plain": 4,
        "properties": {REDACTED: {"type": "string"}, f"{REDACTED} 2": 5},
    }


def test_a_known_value_of_digits_is_masked_as_a_number_too() -> None:
    redactor, number = Redactor(exact=[DIGITS, "123456.70"]), int(DIGITS)

    assert redactor.value({"a": number, "b": [float(number)], number: 1, "c": number + 1, "d": True}) == {
        "a": REDACTED,
        "b": [REDACTED],
        REDACTED: 1,
        "c": number + 1,
        "d": True,
    }
    told = redactor.value(f'{{"token": {DIGITS}, "b": 123456.70, "password": "letmein", "c": 1.50}}')
    assert told == f'{{"token": "{REDACTED}", "b": "{REDACTED}", "password": "{REDACTED}", "c": 1.5}}'
    assert DIGITS not in str(redactor.value(f'{{"x": {DIGITS}}}'))


@pytest.mark.contract("RV-47")
def test_a_signature_of_a_provider_is_taken_out_and_one_of_a_function_is_not() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": some(120)}

    assert redact(block) == block | {"signature": REDACTED}
    assert redact({"signature": "def f(x: int) -> str"}) == {"signature": "def f(x: int) -> str"}


@pytest.mark.contract("RV-B21", "RV-30")
def test_a_value_that_looks_like_a_secret_is_named_with_the_reason() -> None:
    assert "GitHub" in looks_secret(VENDORS["github classic"])
    assert "password" in looks_secret("letmein", "db_password")
    assert "database URL" in looks_secret("".join(IN_TEXT["database url"])) or "URL" in looks_secret(
        "".join(IN_TEXT["database url"])
    )
    for harmless in ("", "main", "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678", "https://example.com/x", "Ada Lovelace"):
        assert looks_secret(harmless, "branch") == ""


@pytest.mark.contract("RV-B15")
def test_ordinary_source_raises_hardly_a_false_alarm() -> None:
    folder = Path(sysconfig.get_paths()["stdlib"])
    redactor = Redactor()
    lines = [line for path in sorted(folder.glob("*.py")) for line in path.read_text("utf-8", "replace").splitlines()]

    flagged = [line for line in lines if redactor.find(line)]

    assert len(lines) > 50_000
    assert len(flagged) <= 5, flagged
