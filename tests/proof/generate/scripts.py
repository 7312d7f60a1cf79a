"""Scripts of sed, awk and jq, near the forms that only pass text through."""

import random

from tests.proof.generate.quoting import quoted, single
from tests.proof.generate.words import a_file, a_hit


def sed(rng: random.Random) -> str:
    """Write a sed command."""
    script = "".join(
        _sed_command(rng) + rng.choice((";", "; ", "\n", "", "")) for _ in range(rng.choice((1, 1, 1, 2, 3)))
    )
    if rng.random() < 0.15:
        script = f"{rng.choice(('', '1', '/x/', '1,3'))}{{{script}{rng.choice(('}', ' }', ';}', chr(10) + '}', ''))}"
    flags = rng.choice(
        (
            "",
            "-n ",
            "-n ",
            "-E ",
            "-e ",
            "-ne ",
            "-i ",
            "-i.bak ",
            "-s ",
            "-z ",
            "-r ",
            "-f ",
            "-nE ",
            "--posix ",
            "-l 5 ",
            "-ni ",
            "-in ",
            "--expression=",
            "-i -e ",
            "-E -i ",
        )
    )
    word = quoted(rng, script) if rng.random() < 0.4 else single(script)
    more = f" -e {single(_sed_command(rng))}" if rng.random() < 0.08 else ""
    return f"sed {flags}{word}{more} {a_file(rng)}{rng.choice(('', '', ' ' + a_file(rng), ' list.txt', ' *.txt'))}"


def _address(rng: random.Random) -> str:
    one = (
        "", "", "1", "$", "2", "/x/", "/TODO/", "1~2", "0~3", "/a\\/b/", "\\,x,", "/[/]/", "/[]/]/", "/x/I", "/x/e", "1!", "1,3", "1,+2", "/a/,/b/", "1,$", "$!", "2,~4", "0,/x/", "/x/w made", "/[^]]/", "1 ,3", "/\\n/", "/x\\",
        "\\e1e", "\\aba", "1;", "#n\n", "//", "/]/", "/[[:alpha:]/]/", "/\\[/",
    )  # fmt: skip
    return rng.choice(one)


def _sed_command(rng: random.Random) -> str:
    hit = a_hit(rng)
    mark = rng.choice("//////|#,@%!:ea;1 w\n")
    left = rng.choice(
        (
            "x",
            "a",
            "TODO",
            "[a-z]*",
            "a\\" + mark + "b",
            "[" + mark + "]",
            "[]" + mark + "]",
            "\\[",
            "(x)",
            "",
            "\\n",
            "x$",
            "[^" + mark + "]",
            "a\nb",
            "[[.a.]" + mark,
            "\\" + mark,
        )
    )
    right = rng.choice(
        ("y", "", "\\1", "&", hit, "\\" + mark, "a\\\nb", "\\n", "$(" + hit + ")", "a\nb", f"{mark}e", "\\x2fe")
    )
    flags = rng.choice(
        (
            "",
            "",
            "g",
            "g",
            "p",
            "gp",
            "i",
            "I",
            "2",
            "e",
            "w made",
            "gw made",
            "pe",
            "ge",
            "M",
            "m",
            "2g",
            "pw /dev/stdout",
            "g;e",
            "gI",
            " g",
            "g }",
            "w\nmade",
            "1234567e",
        )
    )
    body = rng.choice(
        (
            f"s{mark}{left}{mark}{right}{mark}{flags}", f"s{mark}{left}{mark}{right}{mark}{flags}", f"s{mark}{left}{mark}{right}{mark}{flags}", f"s{mark}{left}{mark}{right}{mark}{flags}", "p", "p", "d", "q", "Q", "=", f"q{rng.randrange(9)}", f"e {hit}", "e", f"w {rng.choice(('made', '/dev/stdout', '../outside/o.txt'))}",
            "W made", "r README.md", "r .env", "R list.txt", "n", "N;P;D", "h;H;x;G", "l", "l 5", "y/abc/xyz/", "y/a\\/b/xyz/", "b", "t x", "z", "F", "v", "p;p", "$!d", "1q", "p # x",
            _joined(rng, hit), _joined(rng, hit), _joined(rng, hit),
        )
    )  # fmt: skip
    return f"{_address(rng)}{rng.choice(('', '', '', ' ', '!'))}{body}"


def _joined(rng: random.Random, hit: str) -> str:
    """Write two commands with something between them that may end the first, or not."""
    first = rng.choice("aicbtTr:#wqQpdl}{sy=") + rng.choice(("", "", " ", " x", "x", " text", "/x/y/", " 5"))
    between = "".join(
        rng.choice((";", "\n", "\n", "\\", "\\", " ", "}", "#", "\t")) for _ in range(rng.choice((1, 1, 2, 2, 3)))
    )
    second = rng.choice((f"e {hit}", f"e {hit}", f"e{hit}", "w made", f"s/x/{hit}/e", "w i", f"1e {hit}", "p", "d"))
    return first + between + second


def awk(rng: random.Random) -> str:
    """Write an awk command."""
    program = " ".join(_awk_part(rng) for _ in range(rng.choice((1, 1, 1, 2))))
    flags = rng.choice(
        (
            "",
            "",
            "",
            "-F, ",
            "-F: ",
            "-F '\\t' ",
            "-v x=1 ",
            "-v x='$(hit)' ",
            "-f script.awk ",
            "-e ",
            "-v RS=x ",
            "-F'[:,]' ",
            "-i inplace ",
            "-W version ",
            "--source ",
            "-vx=1 ",
            "-E script.awk ",
            "-d ",
            "-o ",
            "-p ",
        )
    )
    word = quoted(rng, program) if rng.random() < 0.3 else single(program)
    name = rng.choice(("awk", "awk", "awk", "mawk", "gawk"))
    return f"{name} {flags}{word} {a_file(rng)}{rng.choice(('', '', '', ' x=1', ' list.txt', ' *.txt'))}"


def _awk_part(rng: random.Random) -> str:
    hit = a_hit(rng)
    pattern = rng.choice(
        (
            "",
            "",
            "",
            "NR==1",
            "/x/",
            "/a\\/b/",
            "$1 ~ /x/",
            '$1 == "x"',
            "BEGIN",
            "END",
            "NR>1",
            "length($0) > 3",
            "!seen[$0]++",
            "NF",
            "/[/]/",
            "1",
            "$2 / 2",
            "NR==1,NR==3",
            "/x/ && /y/",
            "x / y / z",
            "/x/,/y/",
            "/[]/]/",
            "a /b/ c",
            "$1/2/3",
        )
    )
    statement = (
        "print", "print $1", "print $1, $2", "printf \"%s\\n\", $1", "sum += $1", "print sum", "x[$1]++", "for (k in x) print k, x[k]", "if (NR > 1) print", "gsub(/a/, \"b\"); print", f'system("{hit}")', f'print | "{hit}"', f'"{hit}" | getline', f'print > "made"',
        'print >> "made"', "getline", 'getline < ".env"', 'getline x < ".env"', "close(x)", "print substr($0, 1, 3)", "split($0, a, /,/)", "print ENVIRON[\"HOME\"]", "print length", "next", "exit", "print toupper($1)", "print $NF", "while (i < 3) i++", "print (1 > 2)", "print 1 > 2",
        "print x /\"/ y", f'print a / "b" / "{hit}"', f'print 1 /"/ 2; system("{hit}") /"/', f'print "a\\"; system(\\"{hit}\\")"', f'print "a" "b"', f'print /"/; system("{hit}"); print /"/', f"print a[1] /\"/ 1; system(\"{hit}\"); x /\"/ 1", f'print $1 # "\nsystem("{hit}")', f"f=\"sys\"; @f(\"{hit}\")", "srand(); print rand()",
        'printf "%c", 65', "print -v", "delete x", "print index($0, \"a\")", f"print\nsystem(\"{hit}\")", "print $1 \\\n, $2", "print FILENAME", "print $(1)", "print $(system(\"hit\"))", "print match($0, /x/)", 'print "a|b"', 'print "a>b"', "print $1 | \"sort\"", "fflush()", "@load \"x\"", "@include \"x\"", f"ARGV[1]=\".env\"", "print ARGV[0]", "print x++ /a/ 2",
        f"print 1 )/\"/; system(\"{hit}\"); /\"/(", f"print ++/\"/; system(\"{hit}\"); x = \"/\"",
    )  # fmt: skip
    body = "; ".join(rng.choice(statement) for _ in range(rng.choice((1, 1, 2))))
    return f"{pattern} {{ {body} }}" if rng.random() < 0.85 else (pattern or "1")


def jq(rng: random.Random) -> str:
    """Write a jq command."""
    part = (
        ".", ".name", ".items[]", ".items | length", "keys", "map(.id)", ".items[0].id", "select(.id > 1)", ".[]", "to_entries", 'test("x")', "env", "$ENV", "$ENV.HOME", "env.HOME", "input", "inputs", "input_filename", 'import "a" as a; .', 'include "x"; .', "$__loc__", "@sh", "@base64", "tojson",
        '"\\(.name)"', '"\\(env)"', "getpath([\"a\"])", ".a // \"b\"", "if .x then 1 else 2 end", "reduce .[] as $i (0; . + $i)", "def f: env; f", "debug", "stderr", "$x", "halt_error", "limit(1; .[])", "input_line_number", "..", "add", "sort_by(.id)", "group_by(.id)", "has(\"a\")", "splits(\"a\")", "get_search_list", "now", "ltrimstr(\"a\")", "error(\"x\")", "modulemeta", "\"a\" as $x | .", "# comment\nenv", ".[\"a\"]", ".a?", "path(..)", "ascii_downcase", "type",
    )  # fmt: skip
    script = rng.choice((" | ", ", ", " + ")).join(rng.choice(part) for _ in range(rng.choice((1, 1, 2))))
    flags = rng.choice(
        (
            "",
            "",
            "-r ",
            "-c ",
            "-n ",
            "-s ",
            "-f script.jq ",
            "--arg x y ",
            "--slurpfile x .env ",
            "--rawfile x .env ",
            "-L . ",
            "--argjson x 1 ",
            "--from-file script.jq ",
            "-rc ",
            "-e ",
            "--args ",
            "--tab ",
            "--indent 3 ",
            "-rf ",
            "--stream ",
            "--seq ",
            "-nr ",
        )
    )
    return f"jq {flags}{quoted(rng, script) if rng.random() < 0.4 else single(script)} {rng.choice(('data.json', 'data.json', a_file(rng), ''))}"
