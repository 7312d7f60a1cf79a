"""The encoded beginning of a conversation is kept, and dropped where the conversation changed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.providers.http.prefix_cache import Prefix
from backstay.vocab.messages import Message, Role, Text


def message(text: str, role: Role = "user") -> Message:
    return Message(role=role, parts=(Text(text=text),))


class Desk:
    """A prefix that counts what it encodes."""

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.fails_at = ""
        self.prefix = Prefix(self._encode, lambda one, other: one.role == other.role)

    def _encode(self, messages: Sequence[Message]) -> bytes:
        words = "+".join(_text(each) for each in messages)
        if self.fails_at and self.fails_at in words:
            raise ValueError(words)
        self.encoded.append(words)
        return words.encode()

    def chunks(self, *messages: Message) -> list[str]:
        return [chunk.decode() for chunk in self.prefix.chunks(messages)]


def _text(message: Message) -> str:
    part = message.parts[0]
    assert isinstance(part, Text)
    return part.text


def test_neighbours_that_join_are_one_chunk() -> None:
    desk = Desk()

    assert desk.chunks(message("a"), message("b"), message("c", "assistant"), message("d")) == ["a+b", "c", "d"]


def test_only_the_new_end_is_encoded_again() -> None:
    desk = Desk()
    first = [message("a"), message("b", "assistant"), message("c")]
    desk.chunks(*first)
    desk.encoded.clear()

    chunks = desk.chunks(*first, message("d", "assistant"), message("e"))

    assert chunks == ["a", "b", "c", "d", "e"]
    assert desk.encoded == ["c", "d", "e"]


def test_the_newest_group_may_grow() -> None:
    desk = Desk()
    first = [message("a"), message("b", "assistant")]
    desk.chunks(*first)

    assert desk.chunks(*first, message("c", "assistant")) == ["a", "b+c"]


def test_what_comes_after_a_changed_message_is_encoded_again() -> None:
    desk = Desk()
    a, b, c, d = message("a"), message("b", "assistant"), message("c"), message("d", "assistant")
    desk.chunks(a, b, c, d)
    desk.encoded.clear()

    assert desk.chunks(a, b, message("x"), d) == ["a", "b", "x", "d"]
    assert desk.encoded == ["b", "x", "d"]


def test_a_shorter_conversation_keeps_its_beginning() -> None:
    desk = Desk()
    a, b, c = message("a"), message("b", "assistant"), message("c")
    desk.chunks(a, b, c)

    assert desk.chunks(a, b) == ["a", "b"]
    assert desk.chunks(a) == ["a"]
    assert desk.chunks() == []
    assert desk.chunks(a, b, c) == ["a", "b", "c"]


def test_a_message_that_cannot_be_encoded_leaves_nothing_false_behind() -> None:
    desk = Desk()
    a, b, c = message("a"), message("b", "assistant"), message("c")
    desk.chunks(a, b, c)
    desk.fails_at = "bad"

    with pytest.raises(ValueError, match="bad"):
        desk.chunks(a, message("x", "assistant"), message("bad"))

    assert desk.chunks(a, b, c) == ["a", "b", "c"]


def test_the_newest_groups_are_named_with_their_messages() -> None:
    desk = Desk()
    a, b, c, d = message("a"), message("b"), message("c", "assistant"), message("d")
    desk.chunks(a, b, c, d)

    assert desk.prefix.newest(2) == [(1, (c,)), (2, (d,))]
    assert desk.prefix.newest(9) == [(0, (a, b)), (1, (c,)), (2, (d,))]
    assert Desk().prefix.newest(2) == []


ROLES: tuple[Role, ...] = ("user", "assistant")
POOL = [message(f"{role[0]}{number}", role) for number in range(4) for role in ROLES]
HISTORIES = st.lists(st.lists(st.sampled_from(POOL), max_size=8), max_size=6)


@given(HISTORIES)
def test_a_kept_prefix_is_never_different_from_a_fresh_one(histories: list[list[Message]]) -> None:
    kept = Desk()

    for history in histories:
        assert kept.chunks(*history) == Desk().chunks(*history)
