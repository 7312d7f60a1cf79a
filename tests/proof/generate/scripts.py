"""Scripts of sed, awk and jq, near the forms that only pass text through."""

import random

from tests.proof.generate.quoting import quoted, single
from tests.proof.generate.texts import pick, texts
from tests.proof.generate.words import a_file, a_hit


def sed(rng: random.Random) -> str:
    """Write a sed command."""
    if rng.random() < 0.45:
        return f"sed {rng.choice(('', '-n ', '-E ', '-i ', '-e '))}{single(_plain_sed(rng))} {a_file(rng)}"
    script = "".join(
        _sed_command(rng) + rng.choice((";", "; ", "\n", "", "")) for _ in range(rng.choice((1, 1, 1, 2, 3)))
    )
    if rng.random() < 0.15:
        script = f"{rng.choice(('', '1', '/x/', '1,3'))}{{{script}{rng.choice(('}', ' }', ';}', chr(10) + '}', ''))}"
    flags = pick(rng, "sed")
    word = quoted(rng, script) if rng.random() < 0.4 else single(script)
    more = f" -e {single(_sed_command(rng))}" if rng.random() < 0.08 else ""
    return f"sed {flags}{word}{more} {a_file(rng)}{rng.choice(('', '', ' ' + a_file(rng), ' list.txt', ' *.txt'))}"


def _address(rng: random.Random) -> str:
    one = texts("address")
    return rng.choice(one)


def _sed_command(rng: random.Random) -> str:
    hit = a_hit(rng)
    mark = rng.choice("//////|#,@%!:ea;1 w\n")
    left = pick(rng, "sed-command", mark=mark)
    right = pick(rng, "sed-command-2", hit=hit, mark=mark)
    flags = pick(rng, "sed-command-3")
    body = pick(rng, "sed-command-4", flags=flags, hit=hit, joined=_joined(rng, hit), left=left, mark=mark, right=right)
    return f"{_address(rng)}{rng.choice(('', '', '', ' ', '!'))}{body}"


def _plain_sed(rng: random.Random) -> str:
    """Write a script of one or two usual commands."""
    hit = a_hit(rng)
    address = rng.choice(("", "", "1", "$", "1,2", "/./", "/x/", "1!", "2,$"))
    change = f"s/{rng.choice(('x', 'a', '.*', '^', '[a-z]*', '$', '#'))}/{rng.choice(('y', '', '&', hit))}/{pick(rng, 'sed-command-3')}"
    usual = rng.choice(
        (
            change,
            change,
            change,
            "p",
            "d",
            "q",
            "=",
            f"e {hit}",
            "w made",
            "r .env",
            _joined(rng, hit),
            _joined(rng, hit),
        )
    )
    return f"{address}{usual}{rng.choice(('', '', '', ';p', f';{change}'))}"


def _joined(rng: random.Random, hit: str) -> str:
    """Write two commands with something between them that may end the first, or not."""
    letters = "btT" if rng.random() < 0.4 else "aicbtTr:#wqQpdl}{sy="
    first = rng.choice(letters) + rng.choice(("", "", " ", " x", "x", " text", "/x/y/", " 5"))
    between = "".join(
        rng.choice((";", "\n", "\n", "\\", "\\", " ", "}", "#", "\t")) for _ in range(rng.choice((1, 1, 2, 2, 3)))
    )
    second = rng.choice((f"e {hit}", f"e {hit}", f"e{hit}", "w made", f"s/x/{hit}/e", "w i", f"1e {hit}", "p", "d"))
    return first + between + second


def awk(rng: random.Random) -> str:
    """Write an awk command."""
    program = " ".join(_awk_part(rng) for _ in range(rng.choice((1, 1, 1, 2))))
    flags = pick(rng, "awk")
    word = quoted(rng, program) if rng.random() < 0.3 else single(program)
    name = rng.choice(("awk", "awk", "awk", "mawk", "gawk"))
    return f"{name} {flags}{word} {a_file(rng)}{rng.choice(('', '', '', ' x=1', ' list.txt', ' *.txt'))}"


def _awk_part(rng: random.Random) -> str:
    hit = a_hit(rng)
    pattern = pick(rng, "awk-part-2")
    body = "; ".join(pick(rng, "awk-part", hit=hit) for _ in range(rng.choice((1, 1, 2))))
    return f"{pattern} {{ {body} }}" if rng.random() < 0.85 else (pattern or "1")


def jq(rng: random.Random) -> str:
    """Write a jq command."""
    part = texts("jq")
    script = rng.choice((" | ", ", ", " + ")).join(rng.choice(part) for _ in range(rng.choice((1, 1, 2))))
    flags = pick(rng, "jq-2")
    word = quoted(rng, script) if rng.random() < 0.4 else single(script)
    return f"jq {flags}{word} {rng.choice(('data.json', 'data.json', a_file(rng), ''))}"
