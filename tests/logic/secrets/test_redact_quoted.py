"""Values in quotes are whole, with their blanks; labels, messages and code that speak of secrets stay."""

import pytest

from backstay.logic.secrets.redact import PLAIN

PHRASE = "correct horse battery staple"


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize(
    "text",
    [
        f'password="{PHRASE}"',
        f"password='{PHRASE}'",
        f"password: '{PHRASE}'",
        f'{{"password": "{PHRASE}", "user": "ada"}}',
        f"{{'passphrase': '{PHRASE}'}}",
        f'{{\\"password\\": \\"{PHRASE}\\"}}',
        f'DB_PASSWORD="{PHRASE}"',
        f'export PGPASSWORD="{PHRASE}"; psql',
        f'  passphrase: "{PHRASE}"  # mine',
        f'client_secret = "{PHRASE}"',
        f'password="{PHRASE} it\\"s me"',
        f"password: '{PHRASE} it''s me'",
    ],
)
def test_l8_a_quoted_password_of_several_words_is_taken_out(text: str) -> None:
    clean = PLAIN.text(text)

    assert "[REDACTED]" in clean
    assert not any(word in clean for word in (*PHRASE.split(), "s me"))


@pytest.mark.parametrize(
    "text",
    [
        '"password": "The password of the user"',
        "password: 'Enter your password'",
        'raise Error("password: " + name + " is wrong")',
        'token = "some words of a sentence"',
        '"secret": "is required"',
        'password = "{user} and {host}"',
        "PASSWD = getpass.getpass('Password of Ada: ')",
    ],
)
def test_labels_and_messages_about_passwords_stay(text: str) -> None:
    assert PLAIN.text(text) == text


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("machine api.example login ada password sunshine", "machine api.example login ada password [REDACTED]"),
        (
            "machine a.example\n  login ada\n  password sun5hine\n",
            "machine a.example\n  login ada\n  password [REDACTED]\n",
        ),
        ("login with password authentication", "login with password authentication"),
        ('{"auths": {"https://x": {"auth": "YWRhOnN1bnNoaW5l"}}}', '{"auths": {"https://x": {"auth": "[REDACTED]"}}}'),
        ("//registry.example/:_auth=YWRhOnN1bnNoaW5l", "//registry.example/:_auth=[REDACTED]"),
        ('{"auth": "required"}', '{"auth": "required"}'),
        ("sshpass -p sunshine ssh ada@x", "sshpass -p [REDACTED] ssh ada@x"),
    ],
)
def test_l17_logins_of_netrc_docker_and_npm_are_taken_out(text: str, clean: str) -> None:
    assert PLAIN.text(text) == clean


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("wrapped", [False, True])
def test_l17_the_base64_of_a_private_key_is_taken_out_and_that_of_a_certificate_is_not(*, wrapped: bool) -> None:
    import base64

    def encoded(kind: str) -> str:
        pem = f"-----BEGIN {kind}-----\n{'MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0' * 6}\n-----END {kind}-----\n"
        return (base64.encodebytes if wrapped else base64.b64encode)(pem.encode()).decode()

    assert PLAIN.text(f"key: {encoded('RSA PRIVATE' + ' KEY')}\nnext: 1").startswith("key: [REDACTED]")
    assert len(PLAIN.text(f"key: {encoded('RSA PRIVATE' + ' KEY')}\nnext: 1")) < 40
    assert "[REDACTED]" not in PLAIN.text(f"ca: {encoded('CERTIFICATE')}")
