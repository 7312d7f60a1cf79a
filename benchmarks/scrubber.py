"""The scrubber on texts made to slow it down: how its time grows with the text, and what it costs beside a plain search for words."""

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from backstay.logic.secrets.redact import PLAIN, StreamRedactor
from benchmarks.frame import Aim, Bench, Figure, Row

KB: Final = 1024
SIZES: Final = (64 * KB, 128 * KB, 256 * KB, 512 * KB, 1024 * KB)
FAMILIES: Final[Mapping[str, str]] = {
    "token=": "token=",
    "apikey=key=": "apikey=key=",
    "password=": "password=",
    "a:b@": "a:b@",
    "://u:": "://u:",
    "postgres://u:": "postgres://u:",
    "-----BEGIN": "-----BEGIN ",
    "private key lines": "-----BEGIN RSA PRIVATE KEY-----\n",
    "quotes": "\"'`",
    "password and quotes": "password=\"token='",
    "base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ0K1b2/",
    "eyJ.": "eyJ.",
    "-eyJ": "-eyJ",
    "backslashes": "\\",
    "nested JSON": '{"a":[',
    "hexadecimal": "0123456789abcdef",
    "headers": "Authorization: ",
    "cookies": "Cookie: ",
    "sk-": "sk-",
    "glued tokens": "xghp_a1",
    "blocks of YAML": "password: |\n ",
    "keys of PuTTY": "Private-Lines: 9\n",
    "lines of PuTTY": "Private-Lines: 9999\n" + "QWxhZGRpbjpvcGVuIHNl\n" * 50,
    "pass": "pass=",
    "passphrases": "passphrase: a b c ",
    "curl": "curl -u ",
    "--token": "--token ",
    "blanks": "token ",
    "token=1(": "token=1(",
    "elements": "<password>",
    "elements with values": "<password>x1y2",
    "siblings": "name: value: ",
    "siblings that end in key": "key: API_KEY, value=",
    "colours": "\x1b[31mred ",
    "letters of UTF-16": "t\0o\0k\0e\0n\0=\0a\x001\0 \0",
    "letters of UTF-16 in JSON": "\\u0000t\\u0000o\\u0000k\\u0000e\\u0000n\\u0000=",
    "nothing but NULs": "\0",
    "suffixes": "TOKEN_A_B_C_",
    "logins": "docker login -p ",
    "settings": "aws configure set a_token ",
    "hashes": "$6$",
    "letters": "x",
    "letters beyond ASCII": "é",
    "names without a sign": "tokensecretpassword",
    "beginnings of keys": "_SK",
    "keys that are too short": "_SK" + "a" * 31,
    "escaped quotes": 'token="' + '\\"' * 100,
    "doubled quotes": "token='" + "''" * 100,
    "quotes with backslashes": 'token=\\"',
    "signs of URLs": "token%3d",
    "names of netrc": "password ",
    "logins of netrc": "machine a login b password c ",
    "options without a command": " -p x",
    "real URLs": "https://u:p@h ",
    "real tokens": "token=a1b2c3 ",
    "real passwords": "PASSWORD=ab1 ",
    "calls": "TOKEN=a1(",
    "quoted phrases": 'password="a b" ',
    "logins in base64": '"auth":"',
    "brackets without an end": "token=[1",
    "signs of URLs one behind the other": "%3a%3dtoken",
    "names and values in quotes": "\"password\": 'token': ",
    "quotes and names": "'\"token=\"'password='",
    "quotes without an end": "token='1",
    "quoted values that are none": 'token="a b1" ',
    "suffixes with a sign": "token_a_b_c=",
    "suffixes that name a variable": "TOKEN_PROD=",
    "names of variables": "A_PASS=abc ",
    "values of variables": "SECRET_KEY=$SECRET\n",
    "short passphrases": "passphrase: aa bb cc\n",
    "tabs": "token\t=\t",
    "many signs": "token====================",
    "logins that are real": "'auth':'dXNlcjpwYXNz'",
    "siblings that are real": "value=abc,key=token,",
    "elements that are real": "<secret>abc</",
    "colours in values": "token=\x1b[0m",
    "long quoted values": 'password="' + "a" * 4095,
    "long values": "token=" + "QWxhZGRpbjpvcGVu" * 300,
    "cookies of one letter": "Cookie: a=b1c\n",
    "beginnings of tokens": "sk-ant-ghp_glpat-xoxb-AKIAnpm_hf_eyJ.SG.AIza ",
    "every letter and sign": "".join(map(chr, range(32, 127))) + "x" * 400,
    "ordinary prose": "The quick brown fox jumps over the lazy dog, and the key of the house is lost.\n",
}
COUNTED: Final[Mapping[str, str]] = {
    "counted tokens": "token=a%db1c2\n",
    "counted passwords": "PASSWORD=w%d\n",
    "counted words": "token: word%dless\n",
    "counted names": "A%d_TOKEN=a1b2c3d4\n",
    "counted suffixes": "token_a%d=1\n",
    "counted brackets": "token=[1%d",
    "counted calls": "password=a%d(",
    "counted phrases": 'token="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa %d b"\n',
    "counted colours": "\x1b[1mtoken=\x1b[0ma%d ",
    "counted quotes": '"apiKey": "a%db1c2d3e4f5",\n',
    "counted source": "    token = self.take%d(name)\n",
    "counted settings": '{"name":"A%d_TOKEN","value":"a1b2c3d4"},',
    "counted URLs": "https://ada:pw%d@host/ ",
}
"""Texts that never say the same again: what is known of one value helps with no other."""
MADE: Final[Mapping[str, Callable[[int], str]]] = {
    "the same behind many others": lambda size: _counted("token=a%db1c2\n", 12 * KB) + "token='1" * (size // 8),
    "all letters, then beginnings of tokens": lambda size: "".join(map(chr, range(32, 127))) + "sk-" * (size // 3),
    "beginnings of tokens in one word": lambda size: (
        "sk-ant-sk-proj-AIza-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AK-" * (size // 58 + 1)
    ),
    "database URLs in one word": lambda size: (
        "postgres://mysql://redis://amqp://oracle://mssql://+srv://" * (size // 58 + 1)
    ),
    "fewer and fewer backslashes": lambda size: (
        "".join("token=" + "\\" * n + '"' for n in range(85, 0, -1)) * (size // 4250 + 1)
    ),
    "letters that JSON writes": lambda size: "\\u0041token=\\u0042" * (size // 18 + 1),
    "dashes before values": lambda size: ("key" + "-" * 147 + "value=abcd") * (size // 160 + 1),
}
"""Texts that are more than one piece again and again."""
WORDS: Final = re.compile(r"\w+")


def measure(bench: Bench) -> Iterator[Row]:
    """Each family at five sizes: the most that doubling a text costs, and the time of the largest beside a search for words."""
    sizes = bench.pick(SIZES, SIZES[:2])
    for name in (*FAMILIES, *COUNTED, *MADE):
        texts = [text_of(name, size) for size in sizes]
        taken = [_median(lambda text=text: PLAIN.find(text)) for text in texts]  # type: ignore[misc]  # called before the next is bound
        words = _median(lambda text=texts[-1]: WORDS.findall(text))  # type: ignore[misc]  # likewise
        doubling = max(after / before for before, after in pairwise(taken))
        beside = {"scrubber": Figure((taken[-1],), "ms"), r"\w+": Figure((words,), "ms")}
        yield Row(what=f"{name}: doubling", figure=Figure((doubling,), "times"), aim=Aim(most=2.2))
        yield Row(what=f"{name}: 1 MB", figure=Figure((taken[-1] / words,), "times"), aim=Aim(most=6), beside=beside)
    yield from _streamed(bench.pick(256 * KB, 16 * KB))


def text_of(family: str, size: int) -> str:
    """A text of a family."""
    if family in COUNTED:
        return _counted(COUNTED[family], size)
    if family in MADE:
        return MADE[family](size)[:size]
    unit = FAMILIES[family]
    return (unit * (size // len(unit) + 1))[:size]


def _counted(unit: str, size: int) -> str:
    return "".join(unit % number for number in range(100_000, 100_000 + size // len(unit)))[:size]


def _streamed(size: int) -> Iterator[Row]:
    """A stream in pieces of four characters, beside the same text twice as long."""
    for name in ("token=", "private key lines", "letters", "ordinary prose"):
        half, whole = text_of(name, size // 2), text_of(name, size)
        doubling = _median(lambda text=whole: _feed(text)) / _median(lambda text=half: _feed(text))  # type: ignore[misc]  # as above
        yield Row(what=f"{name} in pieces of 4: doubling", figure=Figure((doubling,), "times"), aim=Aim(most=2.2))


def _feed(text: str) -> None:
    stream = StreamRedactor()
    for at in range(0, len(text), 4):
        stream.feed(text[at : at + 4])
    stream.flush()


def _median(work: Callable[[], object]) -> float:
    """Milliseconds of CPU: the median of five runs after a first one."""
    work()
    taken = []
    for _ in range(5):
        start = time.process_time()
        work()
        taken.append((time.process_time() - start) * 1000)
    return statistics.median(taken)
