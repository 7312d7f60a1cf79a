"""A text in pieces is redacted as the whole text is, wherever it is cut; what is held back is little and for a short time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.secrets.redact import LONGEST_HELD, PLAIN, REDACTED, Redactor, StreamRedactor
from tests.logic.secrets.test_redact import VENDORS, corpus, some
from tests.logic.secrets.test_redact_shapes import SHAPED

PHRASE = "correct horse battery staple"
LINES = [
    ("use password=hunter2secret here", "hunter2secret"),
    ("> Cookie: sid=abcdef0123; theme=dark\nHost: x", "abcdef0123"),
    ("env:\n  DB_PASSWORD: hunter2secret\n  DEBUG: 1", "hunter2secret"),
    (f'password="{PHRASE}" next', PHRASE),
    (f"passphrase: '{PHRASE}'\nuser: ada", PHRASE),
    ("the password is hunter2, keep it", "hunter2"),
    ("curl -s -u bob:sunshine https://example.com/", "sunshine"),
    ("mysql -u root -psunshine shop", "sunshine"),
    ("deploy --token sunshine --to prod", "sunshine"),
    ("machine a.example\n  login ada\n  password sunshine\nmachine b.example", "sunshine"),
    ('{"auths": {"x": {"auth": "YWRhOnN1bnNoaW5l"}}}', "YWRhOnN1bnNoaW5l"),
]


def texts() -> list[tuple[str, str]]:
    return [
        *corpus(),
        *LINES,
        *((text, text[found.start : found.end]) for text in SHAPED[::4] for found in PLAIN.find(text)[:1]),
    ]


def streamed(*pieces: str, redactor: Redactor = PLAIN) -> list[str]:
    stream = StreamRedactor(redactor)
    return [*(clean for piece in pieces for clean in stream.feed(piece)), *stream.flush()]


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize(("text", "secret"), texts())
def test_b7_a_text_cut_in_two_anywhere_is_redacted_as_the_whole(text: str, secret: str) -> None:
    whole = PLAIN.text(text)

    assert secret not in whole
    for cut in range(len(text) + 1):
        told = streamed(text[:cut], text[cut:])
        assert len(told) == 2
        assert "".join(told) == whole, cut


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("size", [1, 2, 4, 7])
@pytest.mark.parametrize(("text", "secret"), texts())
def test_b7_a_text_in_small_pieces_is_redacted_as_the_whole(text: str, secret: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    told = streamed(*pieces)

    assert len(told) == len(pieces)
    assert "".join(told) == PLAIN.text(text)
    assert secret not in "".join(told)


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("between", ["\0", "\ufffd", "\0\0\0"])
def test_a_secret_in_utf_16_is_found_whole_and_in_pieces(between: str, size: int) -> None:
    known, hub = "oaKEYvalue1234567890abcd", VENDORS["github classic"]
    redactor, text = Redactor([known]), f"A={known}\nkey {hub} \nDB_PASSWORD=hunter2x\nplain words\n"
    for wide in ("".join(f"{letter}{between}" for letter in text), "".join(f"{between}{letter}" for letter in text)):
        whole = redactor.text(wide)

        told = streamed(*(wide[at : at + size] for at in range(0, len(wide), size)), redactor=redactor)

        assert whole.count(REDACTED) == 3
        assert "".join(told) == whole
        assert redactor.mask_known(wide).count(REDACTED) == 1
        assert all(each not in whole.replace(between, "") for each in (known, hub, "hunter2x"))
        assert "plain words" in whole.replace(between, "")


SIGNS = ["\x1b[31m", "\x1b[1;38;5;200m", "\\u001b[0m", "\\u001B[1m", "\\x1b[31m", "\\x1B[m", "\\033[1m", "\\e[31m"]


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("sign", ["\\u0000", "\\ufffd", *SIGNS])
@pytest.mark.parametrize("before", ["", "run ", "\0\0", "C:\\"])
@pytest.mark.parametrize("known", ["hunter2hunter2", "Zx9!kkQpw77"])
def test_a_secret_is_found_where_a_piece_ends_within_a_colour_or_an_escape(known: str, before: str, sign: str) -> None:
    redactor = Redactor([known])
    apart = sign in SIGNS
    told = sign.join((known[:5], known[5:9], known[9:])) if apart else "".join(f"{letter}{sign}" for letter in known)
    text = f"{before}{told} there\n"
    whole = redactor.text(text)

    assert whole.startswith(f"{before}{REDACTED}")
    for cut in range(len(text) + 1):
        assert "".join(streamed(text[:cut], text[cut:], redactor=redactor)) == whole, cut
        assert "".join(streamed(text[:cut], *text[cut:], redactor=redactor)) == whole, cut
    assert "".join(streamed(*text, redactor=redactor)) == whole


@pytest.mark.parametrize("cut", range(7))
def test_a_text_that_ends_within_an_escape_hides_no_secret(cut: int) -> None:
    text = "\\u0000".join("hunter2hunter2") + "\\u0000"[:cut]

    assert Redactor(["hunter2hunter2"]).text(text).startswith(REDACTED)


@pytest.mark.parametrize("end", ["\x1b", "\x1b[3", "\\", "\\u00", "\\x1", "\\033["])
def test_a_begun_colour_or_escape_waits_for_the_next_piece_alone(end: str) -> None:
    stream = StreamRedactor()

    assert stream.feed("word ", end) == ["word "]
    assert stream.feed(" more ") == [end, " more "]
    assert (stream.feed(end), stream.flush()) == ([], [end])


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("seed", range(60))
def test_b7_many_secrets_in_one_text_cut_anywhere_are_redacted_as_in_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    filler = (
        "and then",
        "\n",
        "  ",
        "\n\n",
        ", ",
        '"',
        " token ",
        "password",
        "= ",
        "x=1;",
        " the key is ",
        "--- ",
        "\\n",
        "'",
        "é ü ",
        "İ",
    )
    parts = [chance.choice(texts())[0] if chance.random() < 0.5 else chance.choice(filler) for _ in range(12)]
    text = "".join(part + chance.choice(("", " ", "\n")) for part in parts)
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(40)))

    told = streamed(*(text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True)))

    assert "".join(told) == PLAIN.text(text)


PARTS = st.sampled_from(
    (
        *(text for text, _ in texts()),
        *("token", "secret_key", "PASSWORD", "Authorization", "Cookie", "bearer ", " is ", "curl -u ", "--token "),
        *("=", ": ", ":=", " ", "\n", '"', "'", "\\", ", ", "a1b2c3d4", "sunshine", "%3d", "\x1b[31m", "é", "İ"),
    )
)


@pytest.mark.contract("RV-B15")
@given(parts=st.lists(PARTS, max_size=14), sizes=st.lists(st.integers(1, 7), min_size=1, max_size=9))
def test_b7_any_text_in_pieces_of_one_to_seven_characters_is_redacted_as_the_whole(
    parts: list[str], sizes: list[int]
) -> None:
    text, at = "".join(parts), 0
    pieces: list[str] = []
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size

    told = streamed(*pieces)

    assert len(told) == len(pieces)
    assert "".join(told) == PLAIN.text(text)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_key_behind_a_colour_is_held_from_its_first_letter(size: int) -> None:
    text = "\x1b[31msk-ant-api03-kASAOsE1nYEZ9GlGHpYaax7LBejYWo6oScBVX4ANCc9vIFShP88xbjV0fhZ7bDkJUvzFjlQcE30peXmnRZ5QW8W5LUAA"

    assert "".join(streamed(*(text[at : at + size] for at in range(0, len(text), size)))) == PLAIN.text(text)


def test_ordinary_text_comes_back_at_once() -> None:
    stream = StreamRedactor()

    told = [stream.feed(piece) for piece in ("Hello", ", wor", "ld. ", "The en", "d.\n")]

    assert told[:2] == [["Hello"], [", wor"]]
    assert "".join([*(piece for some in told for piece in some), *stream.flush()]) == "Hello, world. The end.\n"


def test_each_piece_comes_back_in_order_with_the_mark_where_the_secret_began() -> None:
    assert streamed("use pass", "word=hun", "", "ter2secr", "et here") == [
        "use pass",
        f"word={REDACTED}",
        "",
        "",
        " here",
    ]


def test_a_secret_too_long_to_hold_is_dropped_to_its_end() -> None:
    token = VENDORS["anthropic"] + some(LONGEST_HELD * 2)

    told = streamed(*(token[at : at + 1000] for at in range(0, len(token), 1000)), " and so on")

    assert "".join(told) == f"{REDACTED} and so on"


@pytest.mark.contract("RV-B15", "RV-33")
def test_a_known_value_of_several_words_is_masked_wherever_it_is_cut() -> None:
    value = 'plain words "quoted" / slashed\nin two lines'
    redactor = Redactor(exact=[value])
    text = f"it is {value}!"

    for cut in range(len(text)):
        assert "".join(streamed(text[:cut], text[cut:], redactor=redactor)) == f"it is {REDACTED}!"


class Counting(Redactor):
    """Counts the characters that are looked through."""

    seen = 0

    def find(self, text: str) -> list:  # type: ignore[type-arg]  # as the class above
        self.seen += len(text)
        return super().find(text)


@pytest.mark.parametrize(
    "text",
    [
        "token=" * 5_000,
        "a" * 30_000,
        "word " * 6_000,
        "key: x\n" * 4_000,
        "-----BEGIN RSA PRIVATE KEY-----\n" + "abcd\n" * 6_000,
    ],
)
def test_l4_the_work_grows_with_the_text_and_not_with_the_number_of_pieces(text: str) -> None:
    redactor = Counting()

    streamed(*text, redactor=redactor)

    assert redactor.seen <= 1200 * len(text), redactor.seen / len(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"value": "hunter2pass", "name": "DB_PASSWORD"}\n',
        '{\n "value": "hunter2pass",\n "name": "DB_PASSWORD"\n}\n',
        "- name: DB_PASSWORD\n  value: hunter2pass\n",
        "value=hunter2pass,key=token",
        "<password>\nhunter2pass\n</password>\n",
        "machine a.example\nlogin ada\npassword\nhunter2pass\n",
        'password: {\n  "value": "hunter2pass"}\n',
    ],
)
def test_b7_a_value_in_another_line_than_its_name_is_masked_however_it_is_cut(text: str) -> None:
    whole = PLAIN.text(text)
    assert "hunter2" not in whole

    for size in (1, 2, 3, 5, 7):
        stream = StreamRedactor()
        pieces = [piece for at in range(0, len(text), size) for piece in stream.feed(text[at : at + size])]
        assert "".join((*pieces, *stream.flush())) == whole
