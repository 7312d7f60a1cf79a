"""Secrets that only their place tells are taken out of what is exported; code that speaks of them stays."""

import pytest

from backstay.logic.secrets.redact import PLAIN

SECRETS = [
    ("password=hunter2correcthorse", "password=[REDACTED]"),
    ("the password is hunter2, keep it", "the password is [REDACTED], keep it"),
    ("my passwd is: Tr0ub4dor&3", "my passwd is: [REDACTED]"),
    ("Passwort: Geheim123!", "Passwort: [REDACTED]"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[REDACTED]"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "aws_secret_access_key = [REDACTED]"),
    ("DB_PASSWORD=sunshine", "DB_PASSWORD=[REDACTED]"),
    ("PGPASSWORD=sunshine psql -h db", "PGPASSWORD=[REDACTED] psql -h db"),
    ("export API_TOKEN='sunshine'", "export API_TOKEN='[REDACTED]'"),
    ("api_key=0123456789abcdef0123456789abcdef", "api_key=[REDACTED]"),
    ("X-Api-Key: a1b2c3d4e5", "X-Api-Key: [REDACTED]"),
    ("client_secret=abc123def", "client_secret=[REDACTED]"),
    ("Cookie: session=abcdef; theme=dark", "Cookie: [REDACTED]"),
    ("mysql -u root -psunshine shop", "mysql -u root -p[REDACTED] shop"),
    ("curl -s -u bob:sunshine https://example.com/", "curl -s -u bob:[REDACTED] https://example.com/"),
    ("deploy --token sunshine --to prod", "deploy --token [REDACTED] --to prod"),
    ("login --db-password=sunshine", "login --db-password=[REDACTED]"),
    ('{"password": "hunter22"}', '{"password": "[REDACTED]"}'),
    (r"{\"password\": \"hunter22\"}", r"{\"password\": \"[REDACTED]\"}"),
    ("auth: password=hunter2correcthorse is wrong", "auth: password=[REDACTED] is wrong"),
]

HARMLESS = [
    "password = get_password(user1)",
    "def login(name: str, password: str, token: str | None = None) -> str:",
    "self.password = self.settings.password1",
    "token = tokens[0]",
    "password=password, token=token",
    "PWD=/home/ada/work2",
    "PASSWORD=$DB_PASSWORD_2",
    "export TOKEN=${TOKEN1}",
    "max_tokens=4096, page_token: next",
    "the token is expired",
    "the key: 2026-11-16 is a date",
    "PASSWORD=<your password>",
    "--password-file secrets.txt",
    "curl -s https://example.com/a:b",
    "mysql -u root -p shop",
    "password: ********",
    "secret=[REDACTED]",
    "cookie: none",
    "bypass=x1y2z3",
    "first pass: 12345 of 20000",
    "pass=1234 fail=5",
    "passphrase: enter your passphrase here",
    "passphrase: a word, and what follows",
    "description: |\n  A line of 2 words",
    "password: |\n  The password of the user, if any.",
    "password: |\n  {{ password2 }}",
    "password: |\n\nuser2: bob",
    "Private-Lines: many",
    "Private-Lines: 2\nPrivate-MAC: 00",
    "a_long_ghp_name1_of_a_function",
]


@pytest.mark.contract("RV-47")
@pytest.mark.parametrize(("text", "clean"), SECRETS)
def test_what_is_named_as_a_secret_is_taken_out(text: str, clean: str) -> None:
    assert PLAIN.text(text) == clean


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    assert PLAIN.text(text) == text


def test_a_long_text_is_looked_through_in_one_go() -> None:
    long = "password token secret = " * 20_000 + "curl " * 20_000 + "mysql -u " * 20_000

    assert PLAIN.text(long).count("[REDACTED]") == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("API_TOKEN=abcdefgh ", "my_TOKEN=abcdefgh "),
        (f"{'x' * 80} TOKEN=abcdefgh ", f"{'x' * 80}TOKEN=abcdefgh "),
        ("token=abc.def.ghi.jkl.mno.pqr.stu.vwx.yza.bcd, ", "token=abc.def.ghi.jkl.mno.pqr.stu.vwx.yza.bc-1, "),
        ('password="correct horse battery staple and more" ', 'password="correct horse battery staple and more." '),
        (
            "password: |\n  correct horse battery staple and more\n",
            "password: |\n  correct horse battery staple and more.\n",
        ),
        ("Cookie: session=abcdefghijklmnopqrstuvwxyz; a=b\n", "Cookie: session abcdefghijklmnopqrstuvwxyz; a=b\n"),
        ("Authorization: abcdefghijklmnopqrstuvwxyz1a2b3c4\n", "Authorization: abcdefghijklmnopqrstuvwxyzabcdefg\n"),
    ],
)
def test_what_was_judged_once_holds_only_where_the_same_stands_around_it(first: str, second: str) -> None:
    alone = [PLAIN.text(text).removeprefix("; ") for text in (f"; {first}", f"; {second}")]
    mixed = [0, 0, 1, 1, 0, 1]

    assert PLAIN.text("; " + "; ".join((first, second)[one] for one in mixed)) == "; " + "; ".join(
        alone[one] for one in mixed
    )
