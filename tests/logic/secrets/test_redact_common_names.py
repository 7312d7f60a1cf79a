"""B4: names with a suffix, elements, siblings, encoded signs, hashes and coloured tokens go; what describes one stays."""

import json

import pytest

from backstay.logic.secrets.redact import PLAIN, REDACTED, redact

RANDOM = "dZUsrY8Dk3Vt9QwLr7XyB2Nm"
HEXADECIMAL = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"
GITHUB = f"ghp_{RANDOM}aJe5U1oKiT4x"

SECRETS = [
    (f"<password>{RANDOM}</password>", RANDOM),
    (f"<server>\n  <dbPassword>\n    {RANDOM}\n  </dbPassword>\n</server>", RANDOM),
    ("<password>sunshine</password>", "sunshine"),
    (f"<password><![CDATA[{RANDOM}]]></password>", RANDOM),
    (f'<add key="DbPassword" value="{RANDOM}"/>', RANDOM),
    (f'"githubTokenProd": "{RANDOM}"', RANDOM),
    ("- value: sunshine\n  name: DB_PASSWORD", "sunshine"),
    (f"GITHUB_TOKEN_PROD={RANDOM}", RANDOM),
    ("DB_PASSWORD_STAGING=sunshine", "sunshine"),
    (f"SECRET_KEY_BASE={HEXADECIMAL}", HEXADECIMAL),
    (f"STRIPE_SK={RANDOM}", RANDOM),
    (f"FERNET_KEY={RANDOM}=", RANDOM),
    (f"APP_KEY=base64:{RANDOM}=", RANDOM),
    (f"TOKEN2={RANDOM}", RANDOM),
    (f"SLACK_TOKEN_CUSTOMER={RANDOM}", RANDOM),
    ("- name: DB_PASSWORD\n  value: sunshine", "sunshine"),
    ('{"Key":"DB_PASSWORD","Value":"sunshine"}', "sunshine"),
    (r"{\"name\": \"API_KEY\", \"value\": \"sunshine\"}", "sunshine"),
    ('see {"password":{"value":"sunshine1"}}', "sunshine1"),
    (f"aws configure set aws_secret_access_key {RANDOM}", RANDOM),
    ("docker login -u bob -p sunshine registry.example.com", "sunshine"),
    (f"https://a.example/?next=x%26token%3D{GITHUB}", GITHUB),
    (f"https://a.example/?X-Amz-Signature={HEXADECIMAL}", HEXADECIMAL),
    ("root:$6$abcdefgh$" + "aB3" * 28 + "xy:1", "aB3aB3"),
    ("bob:$apr1$ab12cd34$" + "aB3" * 7 + "x", "aB3aB3"),
    ("az: abc8Q~" + "aB3" * 11 + "x", "aB3aB3"),
    (f"see \x1b[31m{GITHUB[:10]}\x1b[0m\x1b[1m{GITHUB[10:]}\x1b[0m.", GITHUB[12:]),
    (json.dumps(f"see \x1b[31m{GITHUB[:10]}\x1b[0m{GITHUB[10:]}"), GITHUB[12:]),
    (json.dumps(f"see\n{GITHUB}"), GITHUB),
]
HARMLESS = [
    "TOKEN_TYPE=bearer1x",
    "TOKEN_COUNT=4096",
    "PASSWORD_MIN_LENGTH=12a",
    "SECRET_NAME=my-secret-1",
    "PASSWORD_FILE=run/secret1",
    "token_type = 'jwt2'",
    "<password>string</password>",
    "<label>Password</label>",
    "- name: LOG_LEVEL\n  value: debug1",
    '{"Key":"Name","Value":"web-1"}',
    "docker login registry.example.com",
    "git config set user.name ada1",
    "\x1b[31mred1\x1b[0m",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_b4_a_secret_of_a_common_form_is_taken_out(text: str, secret: str) -> None:
    clean = PLAIN.text(text)

    assert secret not in clean, clean
    assert REDACTED in clean


@pytest.mark.parametrize("text", HARMLESS)
def test_b4_what_describes_a_secret_stays(text: str) -> None:
    assert PLAIN.text(text) == text


def test_b4_a_value_whose_sibling_names_it_is_taken_out() -> None:
    assert redact({"Value": "x", "Key": "DB_PASSWORD"}) == {"Value": REDACTED, "Key": "DB_PASSWORD"}
    assert redact({"STRIPE_SK": "x", "TOKEN2": "y", "DB_PASSWORD_PROD": "z"}) == dict.fromkeys(
        ("STRIPE_SK", "TOKEN2", "DB_PASSWORD_PROD"), REDACTED
    )
    assert redact({"name": "LOG_LEVEL", "value": "x", "GSI1SK": "y"}) == {
        "name": "LOG_LEVEL",
        "value": "x",
        "GSI1SK": "y",
    }


@pytest.mark.parametrize("name", ["GITHUB_TOKEN_X", "GITHUB_TOKEN"])
def test_c6_a_value_that_begins_with_a_letter_beyond_ascii_is_taken_out(name: str) -> None:
    for text in (f"export {name}=é{RANDOM} && x", json.dumps({"command": f"export {name}=é{RANDOM} && x"})):
        assert RANDOM not in PLAIN.text(text)
        assert RANDOM not in PLAIN.text(f"see {text}")
