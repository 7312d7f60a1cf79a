"""Shapes of shell text: lists, pipes, here-documents, expansions, data that shells evaluate, forms of find, xargs, test, git, cp."""

import random

from tests.proof.generate import flags
from tests.proof.generate.quoting import double, oddly, quoted
from tests.proof.generate.scripts import awk, sed
from tests.proof.generate.texts import pick, texts
from tests.proof.generate.words import GLOBS, NAMES, a_folder, a_hit, a_place, a_text, a_value

_OPERATORS = texts("operators")
_ODD_OPERATORS = texts("odd-operators")
_FILTERS = texts("filters")
_REDIRECTS = texts("redirects")

_FED = (
    "cat",
    "cat -n",
    "wc -l",
    "sort",
    "grep x",
    "head -3",
    "tr a b",
    "rev",
    "nl",
    "cut -c1-3",
    "tee made",
    "sed -n p",
    "uniq",
    "awk 1",
)


def simple(rng: random.Random) -> str:
    """Write one command, mostly a harmless one."""
    roll = rng.random()
    if roll < 0.55:
        return flags.command(rng, safely=rng.random() < 0.7)
    if roll < 0.7:
        return f"echo {quoted(rng, a_text(rng))}"
    if roll < 0.8:
        return f"{rng.choice(('cat', 'head -5', 'wc -l', 'ls', 'grep -n x', 'git log --', 'git diff', 'sort'))} {a_place(rng)}"
    return rng.choice((sed, awk, find, test, git, listing))(rng)


def listing(rng: random.Random) -> str:
    """Write a list or pipe of commands."""
    text = simple(rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        operator = rng.choice(_ODD_OPERATORS) if rng.random() < 0.07 else rng.choice(_OPERATORS)
        following = (
            rng.choice(_FILTERS)
            if "|" in operator and "||" not in operator
            else rng.choice((simple, simple, after_cd, plain))(rng)
        )
        text += operator + following
    if rng.random() < 0.25:
        text += " " + rng.choice(_REDIRECTS)
    if rng.random() < 0.06:
        text += rng.choice((" # comment", " #hit", "#x", "\n# hit\n", ";", " &", "\n", " ;", "\\", " \\\n"))
    return text


def plain(rng: random.Random) -> str:
    """Write a short command with plain words."""
    return pick(rng, "plain")


def after_cd(rng: random.Random) -> str:
    """Write a `cd` and a command behind it."""
    joined = rng.choice((" && ", " && ", "; ", " || ", "\n"))
    return f"cd {a_folder(rng)}{joined}{rng.choice((find, listing_of_globs, plain, simple, git))(rng)}"


def listing_of_globs(rng: random.Random) -> str:
    """Write a command whose operands the shell expands."""
    program = pick(rng, "listing-of-globs")
    prefix = rng.choice(("", "", "", "odd/", "./", "cd odd && ", "cd odd; "))
    if prefix.startswith("cd"):
        return f"{prefix}{program} {rng.choice(GLOBS)}"
    return f"{program} {prefix}{rng.choice(GLOBS)}{rng.choice(('', '', ' build', ' ' + rng.choice(GLOBS)))}"


def redirect(rng: random.Random) -> str:
    """Write a command with redirects."""
    places = [rng.choice(_REDIRECTS) for _ in range(rng.choice((1, 1, 2)))]
    words = simple(rng).split(" ")
    for place in places:
        words.insert(rng.randrange(len(words) + 1) if rng.random() < 0.4 else len(words), place)
    return " ".join(words)


def heredoc(rng: random.Random) -> str:
    """Write a here-document, or several."""
    if rng.random() < 0.25:
        return several(rng)
    hit = a_hit(rng)
    end = pick(rng, "heredoc")
    opening = pick(rng, "heredoc-2", end=end)
    program = pick(rng, "heredoc-3")
    body = "".join(_line(rng, end, hit) + "\n" for _ in range(rng.choice((0, 1, 1, 2, 3))))
    closing = pick(rng, "heredoc-4", end=end)
    behind = pick(rng, "heredoc-5", end=end, hit=hit)
    also = pick(rng, "heredoc-6", hit=hit)
    second = (
        f"\n{rng.choice(('B', 'B', hit, 'B' + chr(92)))}\n{rng.choice(('', 'B', hit + chr(10) + 'B'))}"
        if "<<" in also
        else ""
    )
    if rng.random() < 0.5:
        end = rng.choice(("EOF", "END", "A"))
        mark = rng.choice(("'", "'", "'", "'", "'", "", '"'))
        return f"{rng.choice(_FED)} <<{mark}{end}{mark}{rng.choice(('', '', also))}\n{body}{end}{rng.choice(('', chr(10), behind))}"
    return f"{program} {opening}{also}\n{body}{closing}{second}{behind}"


def several(rng: random.Random) -> str:
    """Write one to three here-documents, quoted or not, whose lines come near their ends."""
    hit = a_hit(rng)
    ends = [rng.choice(("EOF", "A", "B", "cat", "sort", "END")) for _ in range(rng.choice((1, 2, 2, 3)))]
    marks = [rng.choice(("", "", "'", "\\", '"')) for _ in ends]
    opening = " ".join(
        f"<<{rng.choice(('', '', '-'))}{mark}{end}{mark if mark != chr(92) else ''}"
        for mark, end in zip(marks, ends, strict=True)
    )
    lines = list[str]()
    for end in ends:
        near = (
            "text",
            "a b",
            f"{end}\\",
            f"{end} ",
            f"\t{end}",
            f"{end}x",
            "\\",
            "x\\",
            "",
            hit,
            f"echo {end}",
            f" {end}",
        )
        if rng.random() < 0.3:  # an end that goes on in the next line
            cut = rng.randrange(1, len(end) + 1)
            lines += [f"{end[:cut]}\\", end[cut:], hit]
        lines += [rng.choice(near) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        lines += [end] if rng.random() < 0.85 else []
    lines += [rng.choice(("", hit, hit, ends[-1], "ls", f"{hit} f")) for _ in range(rng.choice((0, 1, 2, 3)))]
    return f"{rng.choice(_FED)} {opening}\n" + "\n".join(lines) + rng.choice(("", "\n"))


def _line(rng: random.Random, end: str, hit: str) -> str:
    return pick(rng, "line", end=end, hit=hit)


def substituted(rng: random.Random) -> str:
    """Write a here-document inside of `$(...)`."""
    hit = a_hit(rng)
    text = pick(rng, "substituted", hit=hit, text=a_text(rng))
    end = rng.choice(("EOF", "END", "MSG", "A"))
    if rng.random() < 0.4:
        text = "\n".join(
            _line(rng, end, hit) + rng.choice(("", "", ")", f') "; {hit}; "')) for _ in range(rng.choice((1, 2, 2, 3)))
        )
    word = f"\"$(cat <<'{end}'\n{text}\n{end}\n)\""
    if rng.random() < 0.35:
        word = rng.choice(
            (
                word[1:-1],
                word.replace("<<'", "<<"),
                word.replace("'\n", "' \n"),
                word.replace("cat <<", "cat<<"),
                word.replace("cat <<", "cat  <<-"),
                word.replace("\n)", ")"),
                word.replace('\n)"', '\n ) "'),
                word + hit,
                word.replace("$(cat", "$( cat"),
                word.replace("$(cat", f"$({hit}; cat"),
                word.replace("' \n", "'\n"),
                word.replace("'\n", f"' | {hit}\n"),
                word.replace("\n)", f"\n{hit})"),
                word.replace("\n)", "\n\n)"),
                word.replace("$(cat", "`cat").replace(')"', '`"'),
                word.replace('"$(', "$("),
                f"x{word}y",
            )
        )
    program = pick(rng, "substituted-2")
    return (
        f"{program} {word}{rng.choice(('', '', '', ' README.md', ' && echo done', ' | cat', '; ls', chr(10) + 'pwd'))}"
    )


def expansion(rng: random.Random) -> str:
    """Write a command with expansions of all kinds."""
    words = pick(rng, "expansion").split(" ")
    for _ in range(rng.choice((1, 1, 2))):
        hit = a_hit(rng)
        name = rng.choice(NAMES)
        words.append(
            pick(rng, "expansion-2", hit=hit, name=name, oddly=oddly(rng, a_text(rng)))
        )  # fmt: skip
    if words[0] in ("[", "[["):
        words.append("]" * len(words[0]))
    return " ".join(words)


def dataflow(rng: random.Random) -> str:
    """Write assignments and builtins whose values a shell may evaluate."""
    name = rng.choice(NAMES)
    hit = a_hit(rng)
    evaluated = pick(rng, "dataflow", hit=hit)
    declare = rng.choice(
        ("declare", "typeset", "local", "readonly", "export", "declare -g", "builtin declare", "command declare")
    )
    kind = pick(rng, "dataflow-2")
    if rng.random() < 0.4:
        known = {"name": name, "declare": declare, "kind": kind, "hit": hit}
        return pick(rng, "evaluated", value=pick(rng, "evaluated-values", **known), **known)
    first = pick(rng, "dataflow-3", declare=declare, evaluated=evaluated, hit=hit, kind=kind, name=name)
    second = pick(rng, "dataflow-4", evaluated=evaluated, name=name, plain=plain(rng))
    text = f"{first}{rng.choice(('; ', '; ', ' && ', chr(10), ' '))}{second}" if second else first
    return rng.choice(
        (
            text,
            text,
            text,
            f"{name}={evaluated} {simple(rng)}",
            f"{rng.choice(('PATH', 'LD_PRELOAD', 'LD_LIBRARY_PATH', 'GIT_DIR'))}={a_place(rng)} {simple(rng)}",
            f"x=src; {simple(rng)}",
            f"{rng.choice(('dir', 'file', 'n', 'f'))}={a_value(rng)}; cat ${rng.choice(('dir', 'file', 'n', 'f'))}/a.py",
            'dir=src; ls $dir; cat "$dir/a.py"',
            "f=README.md && cat $f",
            "f=README.md; cat $f | wc -l",
        )
    )


def find(rng: random.Random) -> str:
    """Write a `find`, perhaps with `xargs`."""
    tests = texts("find")
    start = rng.choice(("", "", "-L ", "-P ", "-H ", "-O3 ", "-D exec "))
    folders = " ".join(a_folder(rng) for _ in range(rng.choice((0, 1, 1, 1, 2))))
    text = f"find {start}{folders} {' '.join(rng.choice(tests) for _ in range(rng.choice((1, 1, 2, 3))))}"
    if rng.random() < 0.4:
        given = pick(rng, "find-2")
        program = pick(rng, "find-3")
        joined = rng.choice(
            (" | ", " | ", "|", " | sort | ", " | head -3 | ", " | cat list.txt | ", "; ", " 2>/dev/null | ")
        )
        text += f"{joined}xargs {given}{program}"
    return text


def test(rng: random.Random) -> str:
    """Write a `test`."""
    words = [pick(rng, "test") for _ in range(rng.choice((1, 2, 2, 3, 3, 3, 4, 5)))]  # fmt: skip
    if rng.random() < 0.4:
        words = [rng.choice(("-f", "-d", "-e", "-s")), a_place(rng)]
    if rng.random() < 0.2:  # these look at a variable, and what stands in brackets is computed
        words = [rng.choice(("-v", "-v", "-R", "-t")), rng.choice(("'a[$(hit)]'", '"a[\\$(hit)]"', "HOME", "a"))]
    if rng.random() < 0.3:
        words = ["x", rng.choice(("-a", "-o")), *words]
    text = " ".join(words)
    text = rng.choice(
        (f"test {text}", f"[ {text} ]", f"[ {text} ]", f"[[ {text} ]]", f"[ {text}", f"[{text}]", f"[ {text} ] ]")
    )
    return text + rng.choice(("", "", " && echo yes", " || echo no", " && cat README.md", "; echo $?", " && hit"))


def git(rng: random.Random) -> str:
    """Write a git command in the forms that people type."""
    front = pick(rng, "git")
    rest = pick(rng, "git-2")
    return f"git {front}{rest}"


def moving(rng: random.Random) -> str:
    """Write `cp`, `mv`, `rm` and the like."""
    program = pick(rng, "moving")
    target = pick(rng, "moving-2")
    return f"{program} {a_place(rng)}{rng.choice(('', '', ' ' + a_place(rng)))} {target}"


def runner(rng: random.Random) -> str:
    """Write a command behind a program that runs it."""
    front = pick(rng, "runner")
    return f"{front} {rng.choice((simple, plain, listing))(rng)}"


def versions(rng: random.Random) -> str:
    """Ask a program for its version."""
    name = pick(rng, "versions")
    return f"{name} {pick(rng, 'versions-2')}"


def in_double(rng: random.Random) -> str:
    """Write double quotes with everything in them that may mean something."""
    pieces = [pick(rng, "in-double") for _ in range(rng.randrange(1, 6))]  # fmt: skip
    program = rng.choice(("echo", "echo", "printf '%s'", "grep -c", "test -n", "git log --grep", "cat", "cd"))
    return f'{program} "{"".join(pieces)}"{rng.choice(("", " README.md", " && pwd", "; hit", double("x")))}'
