"""What is never remembered."""

import pytest

from backstay.memory.private_data import refusal

CARDS = ("4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "6011111111111117", "2223003122003222")
IDS = (
    "078-05-1120",  # a social security number
    "900101-1234567",  # South Korea
    "11010519491231002X",  # China
    "AB 12 34 56 C",  # United Kingdom
    "529.982.247-25",  # Brazil
    "12345678Z",  # Spain
    "X1234567L",
    "1 84 12 76 451 089 46",  # France
    "86 095 742 719",  # Germany
)


@pytest.mark.contract("RB-87")
@pytest.mark.parametrize("number", CARDS)
def test_the_number_of_a_card_is_refused(number: str) -> None:
    assert refusal(f"The company card is {number}, use it for the demo") == "it holds the number of a card"


@pytest.mark.parametrize(
    "number", ["4111 1111 1111 1112", "1234 5678 9012 3456", "0000000000000000", "1767225600000000"]
)
def test_a_long_number_that_is_no_card_passes(number: str) -> None:
    assert refusal(f"The build number was {number} then") == ""


@pytest.mark.contract("RB-87")
@pytest.mark.parametrize("number", IDS)
def test_a_number_that_a_state_gives_to_a_person_is_refused(number: str) -> None:
    assert refusal(f"Ada's number: {number}.").startswith("it holds a ")


@pytest.mark.contract("RB-87")
@pytest.mark.parametrize(
    "text",
    [
        "Use sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789 for tests",
        "AKIAIOSFODNN7EXAMPLE is the key",
        "postgres://app:hunter22@db.example.org/app",
        "The password is hunter2",
        "the password for the staging server is swordfish",
        "my passphrase is correct horse battery staple",
        "db_password = tr0ub4dor",
        "PIN: 4929",
        "the api key is abc123def",
        "token: 'notveryrandom'",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0\n-----END RSA PRIVATE KEY-----",
        "his passport number is C01X00T47 8",
        "pay to GB82 WEST 1234 5698 7654 32",
    ],
)
def test_a_secret_is_refused(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Run make check before a commit.",
        "The password is stored in the team's vault.",
        "The API key is read from $ANTHROPIC_API_KEY.",
        "Passwords are hashed with argon2.",
        "The token is refreshed every hour.",
        "token: 3600 seconds is the limit",
        "The api key is required.",
        "Release 2026-11-16 is build 20261116 on port 8443.",
        "Commit 3f786850e387550fdab836ed7e6dc881de23001b broke the tests.",
        "Call the office at 555-0199.",
        "timestamps are like 1703120000000",
    ],
)
def test_an_ordinary_fact_passes(text: str) -> None:
    assert refusal(text) == ""


def test_the_reason_never_repeats_what_was_found() -> None:
    for secret in (*CARDS, *IDS, "hunter2"):
        assert secret not in refusal(f"The password is {secret}")
