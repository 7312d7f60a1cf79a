"""Shapes of shell text: lists and pipes, here-documents, expansions, data that shells evaluate, and the forms of find, xargs, test, git, cp."""

import random

from tests.proof.generate import flags
from tests.proof.generate.quoting import double, in_cat, oddly, quoted, single
from tests.proof.generate.scripts import awk, sed
from tests.proof.generate.words import GLOBS, NAMES, a_file, a_folder, a_hit, a_place, a_text, a_value

_OPERATORS = (
    " && ",
    " && ",
    " || ",
    "; ",
    "; ",
    " | ",
    " | ",
    " | ",
    "\n",
    " &&\n",
    " |\n  ",
    ";\n",
    " ; ",
    "&&",
    "||",
    "|",
    ";",
    " \\\n && ",
    " \\\n| ",
)
_ODD_OPERATORS = (
    " & ",
    " |& ",
    " ;; ",
    " &\n",
    "&&&",
    "|||",
    "; ;",
    " ; & ",
    "\\\n;",
    " & hit ; ",
    " |\n#c\n ",
    " && # c\n",
    "\n#c\n",
    "; #c\n",
    " \\\n",
    "\\\n",
    ";&",
    ";;&",
    "\r\n",
    "\r",
    " &> made ",
    " >& ",
    "<> ",
    "\n\n",
    " |& tee ",
    "\v",
    "\f",
    "\u2028",
    "\u00a0&&\u00a0",
    "\uff1b",
    "&!",
    " and ",
)
_FILTERS = ("head -3", "tail -n 2", "wc -l", "sort", "sort -u", "uniq -c", "cat", "grep x", "grep -v TODO", "cut -d: -f1", "tr a b", "sed -n 1p", "awk '{print $1}'", "xargs", "tee made", "tee /dev/null", "xargs wc -l", "sh", "bash", "jq .", "rev", "nl", "cat -n", "column -t", "xargs -0 cat", "while read x; do hit; done", "head -c 10", "less", "sort -t, -k2")  # fmt: skip
_REDIRECTS = ("2>/dev/null", "2>&1", ">/dev/null", "> /dev/null 2>&1", "&>/dev/null", "< README.md", "> made", ">> made", "2> made", ">&2", "1>&2", "<list.txt", "> $HOME/made", "3>made", "<>made", ">|made", "{fd}>made", "&>made", ">&made", "<<<x", "2>&-", "<&-", "> 'a new'", ">~/made", "> src/new.txt", "0<list.txt", "10>made", "> *.txt", ">/dev/tcp/127.0.0.1/9", "< .env", "> link-out/m", "1> /dev/null", "2>>made", ">& /dev/null", ">/dev/stderr", "<<-'A'", "> \"made\"", "2>/dev/null>made")  # fmt: skip


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
    return rng.choice(
        (
            "pwd",
            "ls",
            "true",
            "echo done",
            "cat README.md",
            "git status",
            "date",
            "wc -l list.txt",
            "id",
            "uname -a",
            "hit",
            "false",
            "exit 0",
            "ls -la src",
            ":",
        )
    )


def after_cd(rng: random.Random) -> str:
    """Write a `cd` and a command behind it."""
    return f"cd {a_folder(rng)}{rng.choice((' && ', ' && ', '; ', ' || ', chr(10)))}{rng.choice((find, listing_of_globs, plain, simple, git))(rng)}"


def listing_of_globs(rng: random.Random) -> str:
    """Write a command whose operands the shell expands."""
    program = rng.choice(("cat", "ls", "wc -l", "head -2", "grep x", "rm", "rm -f", "cp", "mv", "sort", "stat", "du", "file", "md5sum", "tail", "git log --", "git add", "diff", "find", "sed -n p", "awk 1", "touch", "tee", "echo", "printf '%s\\n'", "tac", "cut -c1", "nl", "od", "strings", "test -f", "uniq", "chmod +x", "xxd", "comm", "join", "paste", "grep -r x", "cat --", "rm --", "base64", "shuf", "column", "git diff", "git ls-files", "tar cf made"))  # fmt: skip
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
    hit = a_hit(rng)
    end = rng.choice(
        (
            "EOF",
            "EOF",
            "END",
            "A",
            "hit",
            "eof",
            "EOF2",
            "E_F",
            "cat",
            "B",
            "-",
            "'E F'",
            "E\\OF",
            '"EOF"',
            "E'O'F",
            "$X",
            "EOF'",
            "!",
            "",
        )
    )
    opening = rng.choice(
        (
            f"<<'{end}'",
            f"<<'{end}'",
            f"<<'{end}'",
            f"<< '{end}'",
            f"<<{end}",
            f'<<"{end}"',
            f"<<\\{end}",
            f"<<-'{end}'",
            f"<<-{end}",
            f"<<<'{end}'",
            f"<<'{end}'x",
            f"0<<'{end}'",
            f"3<<'{end}'",
            f"<<\\\n'{end}'",
            f"<<\t'{end}'",
        )
    )
    program = rng.choice(
        (
            "cat",
            "cat",
            "cat -n",
            "wc -l",
            "sort",
            "grep x",
            "sh",
            "bash",
            "tr a b",
            "sed p",
            "tee made",
            "head -3",
            "python3",
            "cat README.md -",
            "git commit -F -",
            "xargs",
            "read x",
            "jq .",
            "awk 1",
            "patch",
        )
    )
    body = "".join(_line(rng, end, hit) + "\n" for _ in range(rng.choice((0, 1, 1, 2, 3))))
    closing = rng.choice(
        (
            end,
            end,
            end,
            end,
            end,
            f"{end} ",
            f" {end}",
            f"\t{end}",
            f"{end}\r",
            f"{end})",
            f"{end};",
            f"{end}\\",
            f"\\{end}",
            "",
            f"{end}\n{end}",
            f"'{end}'",
        )
    )
    behind = rng.choice(
        (
            "",
            "",
            "\n",
            f"\n{hit}",
            f"\n{hit}\n",
            f"\n{end}\n",
            f"\n{hit}\n{end}\n",
            "\necho done",
            "\necho done\n",
            f"; {hit}",
            "\ncat list.txt",
            "\nls\n",
        )
    )
    also = rng.choice(
        (
            "",
            "",
            "",
            "",
            " | wc -l",
            " && echo x",
            f" && {hit}",
            " > /dev/null",
            " # c",
            f" <<'B'",
            f" <<B",
            " 2>&1",
            f"; {hit}",
            " | cat <<'B'",
            " |",
            " &&",
            " \\",
            " | \\",
            f" $({hit})",
            " 'a\nb'",
            " 'a",
            " > made",
            " <<A <<'B'",
            " | sort | uniq",
        )
    )
    second = (
        f"\n{rng.choice(('B', 'B', hit, 'B' + chr(92)))}\n{rng.choice(('', 'B', hit + chr(10) + 'B'))}"
        if "<<" in also
        else ""
    )
    return f"{program} {opening}{also}\n{body}{closing}{second}{behind}"


def _line(rng: random.Random, end: str, hit: str) -> str:
    return rng.choice(
        (
            "text",
            "text",
            "a b c",
            f"$({hit})",
            f"`{hit}`",
            f"{end} ",
            f" {end}",
            f"{end}x",
            f"{end}\\",
            f"\\",
            "",
            "$HOME",
            "'",
            '"',
            "it's",
            "${x}",
            f"$(({hit}))",
            f"\\$({hit})",
            hit,
            f"\\\\$({hit})",
            f"x\\",
            f"B\\",
            "B",
            "A",
            f"{end}\r",
            f"\t{end}",
            ")",
            f"{end})",
            "#",
            "${x:-`hit`}",
            "é",
            "<<'X'",
            "(",
            "case x in x)",
        )
    )


def substituted(rng: random.Random) -> str:
    """Write a here-document inside of `$(...)`."""
    hit = a_hit(rng)
    text = rng.choice(
        (
            a_text(rng),
            f"Fix it\n\n{a_text(rng)}",
            f"$({hit})",
            "it's",
            f'say "{hit}"',
            f"a\n`{hit}`",
            "(",
            ")",
            f")\n{hit}\n(",
            "'",
            f"EOF)\n{hit}",
            " EOF",
            f"EOF \n{hit}",
            "\\",
            "\t",
            "a\\\nEOF",
            "`",
            f'x)"; {hit}; "',
            "case a in a) x;; esac",
            "#)",
            f'EOF\n)"; {hit} #',
        )
    )
    end = rng.choice(("EOF", "END", "MSG", "A"))
    if rng.random() < 0.4:
        text = "\n".join(_line(rng, end, hit) + rng.choice(("", "", ")", f') "; {hit}; "')) for _ in range(rng.choice((1, 2, 2, 3))))
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
    program = rng.choice(
        (
            "echo",
            "echo",
            "printf '%s\\n'",
            "git log --grep",
            "grep -F",
            "git commit -m",
            "test -n",
            "echo a",
            "basename",
            "cat",
            "expr x :",
            "echo -e",
        )
    )
    return (
        f"{program} {word}{rng.choice(('', '', '', ' README.md', ' && echo done', ' | cat', '; ls', chr(10) + 'pwd'))}"
    )


def expansion(rng: random.Random) -> str:
    """Write a command with expansions of all kinds."""
    words = rng.choice(
        (
            "echo",
            "echo",
            "cat",
            "ls",
            "printf '%s\\n'",
            "grep x",
            "test -n",
            "[ -n",
            "git log",
            "head -1",
            "basename",
            "type",
            "wc -l",
            ": ",
            "cd",
            "[[ -n",
        )
    ).split(" ")
    for _ in range(rng.choice((1, 1, 2))):
        hit = a_hit(rng)
        name = rng.choice(NAMES)
        words.append(
            rng.choice(
                (
                    "$HOME", "${HOME}", '"$HOME"', "$PWD", '"$PWD/src"', "$?", "$#", "$USER", '"$PATH"', "$x", "~", "~/notes.txt", "$HOME/notes.txt", "$OLDPWD", "$@", "$*", '"$@"', "$$", "$!", "$-", "$0", "$1", "$_", "${x}", "${PATH}", "$LANG", f"${name}", f"${{{name}}}", f'"${{{name}}}"', f"${{{name}[0]}}",
                    "$(pwd)", "$(git rev-parse HEAD)", '"$(date +%s)"', "$(echo README.md)", "$(cat list.txt)", "`pwd`", f"$({hit})", f'"$({hit})"', f"`{hit}`", f'"`{hit}`"', "$(ls | head -1)", "$(basename src/a.py)", "$(wc -l < list.txt)", "$(echo $(pwd))", f"$(echo $({hit}))", "$(( 1 + 1 ))", f"$((a[$({hit})]))", f"$(echo '{hit}')", f"$(echo ')'; {hit})", f"$(#\n{hit})", f"$(echo a # )\n{hit})",
                    f"${{{name}:-$({hit})}}", f"${{{name}:={hit}}}", "${HOME:0:1}", "${HOME%/*}", "${HOME##*/}", "${#HOME}", "${!HOME}", "${HOME@Q}", "${HOME^^}", "${HOME/a/b}", f"${{{name}@P}}", f"${{!{name}}}", f"${{HOME:$({hit}):1}}", f"${{HOME/#/`{hit}`}}", "{a,b}", "{1..3}", f"{{a,$({hit})}}", "$'a\\nb'", '$"a"', oddly(rng, a_text(rng)), f"<({hit})", f"$(<README.md)", f"$({hit} <&0)", "$[1+1]", "${", "$(", "$((", "$)", "$", "a$", '"$"', '"a$b"', "$\\HOME", '"\\$HOME"', "$'HOME'", "${HOME }", "$é", "$HOMEé", "${HOME}é", "$HOME$PWD", "$PWD*", '"$PWD"/*.txt', "$HOME/.s*", "$(echo *)", "x=$(hit)", "a=~/x", "--file=~/x", "a:~/x",
                )
            )
        )  # fmt: skip
    if words[0] in ("[", "[["):
        words.append("]" * len(words[0]))
    return " ".join(words)


def dataflow(rng: random.Random) -> str:
    """Write assignments and builtins whose values a shell may evaluate."""
    name = rng.choice(NAMES)
    hit = a_hit(rng)
    evaluated = rng.choice((f"'a[$({hit})]'", f"'a[$({hit})]=1'", f"'($({hit}))'", f"'[0]=$({hit})'", f"'([$({hit})]=1)'", f"'`{hit}`'", f"\"a[\\$({hit})]\"", f"'a[`{hit}`]'", "1", "x", f"'{hit}'", f"$'a[$({hit})]'", f"'x=$({hit})'", "README.md", "'1+1'", f"'b[a[$({hit})]]'", "", f"\"$(cat <<'EOF'\na[$({hit})]\nEOF\n)\"", f"'(x $({hit}))'", "a", f"a\\[\\$\\({hit}\\)\\]"))  # fmt: skip
    declare = rng.choice(
        ("declare", "typeset", "local", "readonly", "export", "declare -g", "builtin declare", "command declare")
    )
    kind = rng.choice(("-a", "-A", "-i", "-n", "-x", "-ai", "-r", "-p", "-f", "", "-u", "-l", "-t", "-aA"))
    first = rng.choice(
        (
            f"{declare} {kind} {name}={evaluated}", f"{declare} {kind} {name}", f"{name}={evaluated}", f"{name}={evaluated}", f"{name}+={evaluated}", f"{name}=({evaluated})", f"{name}[0]={evaluated}", f"{name}[$({hit})]=1", f"((  {name}={evaluated} ))", f"let {name}={evaluated}", f"read {name} <<< {evaluated}",
            f"printf -v {name} %s {evaluated}", f"printf -v 'a[$({hit})]' x", f"mapfile {name} < list.txt", f"for {name} in {evaluated}; do :; done", f"{name}=1", f"x={evaluated}", f"x={hit}", f"x='$({hit})'", f"set -- {evaluated}", f"eval {evaluated}", f"trap {evaluated} EXIT", f"alias ls={single(hit)}", f"{name}() {{ {hit}; }}", f"shopt -s expand_aliases", f"unset {evaluated}", f"export {name}={evaluated}",
            f"getopts {evaluated} {name}", f"exec {hit}", f": ${{{name}:={evaluated}}}", f"PS4={evaluated}; set -x", f"cd {evaluated}", f"wait -p {evaluated}", f"hash -p ./hit ls", f"enable -f x {hit}", f"source {evaluated}", f". ./hit.sh", f"command {hit}", f"builtin eval {hit}", f"a=(1); {declare} a={evaluated}", f"ulimit {evaluated}", f"test {evaluated} -eq 1", f"[ -v {evaluated} ]", f"[ {evaluated} -gt 0 ]", f"[[ {evaluated} -eq 1 ]]", f"test -v {evaluated}", f"[ -R {evaluated} ]", f"printf %d {evaluated}", f"printf '%q' {evaluated}", f"printf '%*d' {evaluated} 1", f"printf '%(%Y)T' {evaluated}", f"echo {evaluated}", f"type {evaluated}", f"history -s {hit}", f"times {evaluated}", f"exit {evaluated}", f"shift {evaluated}", f"return {evaluated}", f"sleep {evaluated}", f"umask {evaluated}", f"kill -l {evaluated}", f"pwd {evaluated}", f"dirs {evaluated}", f"jobs {evaluated}", f"jobs -x {hit}", f"set -o {evaluated}", f"command -v {evaluated}", f"type -a {evaluated}",
        )
    )  # fmt: skip
    second = rng.choice(("", "", f"echo ${name}", f'echo "${name}"', f"echo $(({name}))", f"echo ${{{name}}}", f"cat ${name}", f"${name}", f"test ${name} -eq 1", f"[ \"${name}\" -gt 0 ]", f'[ -n "${name}" ]', f"{name}={evaluated}", f"declare -i {name}", f"ls ${name}", f"printf '%s' ${name}", f"head -n ${name} README.md", f"(( {name} ))", "ls", plain(rng), f"git log ${name}", f"cd ${name}", f"read {name} < list.txt", f"{name}=2; echo ${name}", f"{name}=a ls", f"{name}=x git log", f"echo ${{{name}[@]}}"))  # fmt: skip
    text = f"{first}{rng.choice(('; ', '; ', ' && ', chr(10), ' '))}{second}" if second else first
    return rng.choice(
        (
            text,
            text,
            text,
            f"{name}={evaluated} {simple(rng)}",
            f"x=src; {simple(rng)}",
            f"{rng.choice(('dir', 'file', 'n', 'f'))}={a_value(rng)}; cat ${rng.choice(('dir', 'file', 'n', 'f'))}/a.py",
            f'dir=src; ls $dir; cat "$dir/a.py"',
            f"f=README.md && cat $f",
            f"f=README.md; cat $f | wc -l",
        )
    )


def find(rng: random.Random) -> str:
    """Write a `find`, perhaps with `xargs`."""
    tests = (
        "-name '*.py'", "-name \"*.txt\"", "-name *.py", "-type f", "-type d", "-maxdepth 2", "-mindepth 1", "-size +1k", "-mtime -1", "-newer README.md", "-newer .env", "-path './src/*'", "-not -path '*/.git/*'", "! -name '*.c'", "-o -name '*.md'", "-o", "-a", "\\( -name '*.py' -o -name '*.c' \\)", "-iname 'readme*'", "-print", "-print0", "-ls", "-prune", "-empty", "-regex '.*py'", "-perm -u+x", "-user root", "-quit", "-printf '%p\\n'", "-samefile README.md", "-executable", "-readable", "-L", "-depth", "-links 1", "-name ''",
        "-delete", "-exec hit {} \\;", "-exec cat {} +", "-execdir hit {} +", "-ok hit {} \\;", "-fprint made", "-fls made", "-fprintf made x", "-fprint0 made", "-files0-from list.txt", "-name", "-exec grep -l x {} \\;", "-okdir hit {} \\;", "-name '*' -delete", "-name 'a b*'", "-false", "-true", "-xtype l", "-follow", "-newermt 2020-01-01", "-exe hit \\;", "-D all", "-O3", "-print -o -prune", "-name .git -prune -o -print", "-name .git -prune -o -type f -print", "-name '*.py' -prune -o -name '*' -print", "-name '*[p]y'", "-name '*.p?'", "-name '.*'", "-name '*'", "-wholename '*'", "-lname '*'",
    )  # fmt: skip
    start = rng.choice(("", "", "-L ", "-P ", "-H ", "-O3 ", "-D exec "))
    text = f"find {start}{' '.join(a_folder(rng) for _ in range(rng.choice((0, 1, 1, 1, 2))))} {' '.join(rng.choice(tests) for _ in range(rng.choice((1, 1, 2, 3))))}"
    if rng.random() < 0.4:
        given = rng.choice(
            (
                "",
                "",
                "-0 ",
                "-r ",
                "-n 1 ",
                "-0 -r ",
                "-I {} ",
                "-P 2 ",
                "-L1 ",
                "-a list.txt ",
                "-d , ",
                "-t ",
                "-0r ",
                "-n1 ",
                "-i ",
                "--null ",
                "-E x ",
                "-x ",
                "-p ",
                "-o ",
                "-s 100 ",
                "--arg-file=list.txt ",
                "-I% ",
                "--show-limits ",
            )
        )
        program = rng.choice(
            (
                "wc -l",
                "grep TODO",
                "grep -l x",
                "cat",
                "ls -l",
                "hit",
                "rm",
                "sh -c hit",
                "head -1",
                "sed -n p",
                "grep",
                "grep -n",
                "grep -e x",
                "stat",
                "file",
                "md5sum",
                "du",
                "tail -1",
                "grep -r x",
                "echo",
                "env hit",
                "",
                "sort",
                "sed -i s/a/b/",
                "cat {}",
                "wc -l README.md",
                "grep TODO --",
                "git log --",
                "xargs hit",
                "nice hit",
                "grep -f list.txt",
                "sha256sum",
                "grep -rl x",
                "ls -d",
                "cat .env",
                "diff",
                "rev",
                "awk 1",
            )
        )
        text += f"{rng.choice((' | ', ' | ', '|', ' | sort | ', ' | head -3 | ', ' | cat list.txt | ', '; ', ' 2>/dev/null | '))}xargs {given}{program}"
    return text


def test(rng: random.Random) -> str:
    """Write a `test`."""
    words = [rng.choice(("-f", "-d", "-e", "-n", "-z", "=", "==", "!=", "-eq", "-gt", "-nt", "!", "-a", "-o", "(", ")", "-v", "-R", "-t", "README.md", "src", "x", "1", "$?", '"$?"', "$HOME", '"$HOME"', "$(pwd)", '"$(pwd)"', '"$(cat list.txt)"', "'a[$(hit)]'", "*", "'a[`hit`]'", ".env", "-s", "-L", "<", "\\<", ">", "\\>", "-lt", "-r", "''", '""', "-ef", "-w", "-G", "-N", "=~", '"$x"', "\\(", "\\)")) for _ in range(rng.choice((1, 2, 2, 3, 3, 3, 4, 5)))]  # fmt: skip
    if rng.random() < 0.4:
        words = [rng.choice(("-f", "-d", "-e", "-s")), a_place(rng)]
    text = " ".join(words)
    text = rng.choice(
        (f"test {text}", f"[ {text} ]", f"[ {text} ]", f"[[ {text} ]]", f"[ {text}", f"[{text}]", f"[ {text} ] ]")
    )
    return text + rng.choice(("", "", " && echo yes", " || echo no", " && cat README.md", "; echo $?", " && hit"))


def git(rng: random.Random) -> str:
    """Write a git command in the forms that people type."""
    front = rng.choice(("", "", "", "", "", "--no-pager ", "-C . ", "-C src ", "-c a.b=c ", "-c core.pager=hit ", "-c alias.x=!hit ", "--git-dir=.git ", "--work-tree=.. ", "-p ", "-P ", "--exec-path=. ", "--config-env=a=b ", "--no-optional-locks ", "-C ../outside ", "--paginate ", "-ccore.fsmonitor=./hit "))  # fmt: skip
    rest = rng.choice(
        (
            "log --oneline -5", "log -p -- src/a.py", "log --format=%H", "log --pretty='%h %s' -3", "log --grep=x --author person", "log --output=made", "log --ext-diff -p", "log --format=%G?", "log --show-signature", "log HEAD~1..HEAD", "log --all --graph", "log -S TODO", "log -L1,3:src/a.py", "log -L :main:src/a.py", "log -3 --stat", "log --since=yesterday",
            "diff", "diff --stat", "diff HEAD~1", "diff --cached", "diff -- src/b.py", "diff --no-index README.md .env", "diff --no-index /dev/null list.txt", "diff README.md ../outside/o.txt", "diff ../outside/o.txt README.md", "diff --output made", "diff --ext-diff", "diff --textconv", "diff -O order", "diff HEAD -- *.py", "diff --color=always | cat", "diff main topic",
            "show HEAD", "show HEAD:src/a.py", "show HEAD:.env", "show v1.0 --stat", "show --textconv HEAD:src/a.py", "status", "status -s", "status --porcelain=v2", "branch", "branch -a", "branch new", "branch -d topic", "branch --list 't*'", "branch -m x", "tag", "tag -l", "tag new", "tag -d v1.0", "tag -l 'v*'", "remote -v", "remote add x y", "remote get-url origin", "remote show origin", "stash list", "stash", "stash show", "stash drop", "config user.name", "config --get user.email", "config --list", "config user.name x", "config --global user.name x", "config -e", "config core.pager hit", "config --get-all a.b", "config --file x a.b",
            "blame src/a.py", "blame -L 1,3 src/a.py", "blame --contents .env src/a.py", "grep TODO", "grep -n TODO -- src", "grep --no-index x", "grep --untracked KEY", "grep -O x", "grep --open-files-in-pager=hit x", "grep -f .env", "grep -Ohit x", "ls-files", "ls-files --others", "ls-files -X .env", "ls-tree HEAD", "ls-tree -r HEAD --name-only", "cat-file -p HEAD", "cat-file -t HEAD", "cat-file --textconv HEAD:src/a.py", "cat-file --filters HEAD:src/a.py", "rev-parse HEAD", "rev-parse --git-path x", "rev-parse --show-toplevel", "rev-list --count HEAD", "describe --tags", "describe --dirty", "reflog", "reflog expire --all", "shortlog -sn HEAD", "worktree list", "worktree add x", "archive HEAD", "archive -o made HEAD", "bisect run hit", "submodule foreach hit", "rebase -x hit HEAD~1", "checkout README.md", "checkout -- .", "clean -fd", "add .", "commit -m x", "fetch", "push", "pull", "clone . x", "clone -c a.b=c . x", "init x", "gc", "fsck", "help", "help log", "--version", "version", "--exec-path", "--html-path", "hit", "log --help", "diff --help", "difftool", "mergetool", "apply x", "am x", "format-patch HEAD~1", "format-patch --stdout HEAD~1", "range-diff HEAD~1 HEAD main", "whatchanged -1", "check-ignore -v .env", "check-attr -a src/a.py", "count-objects -v", "for-each-ref --format='%(refname)'", "for-each-ref --shell", "name-rev HEAD", "merge-base main topic", "show-branch", "show-ref", "cherry main topic", "var GIT_EDITOR", "verify-tag v1.0", "log --format='%(trailers)'", "hash-object -w README.md", "update-ref refs/heads/x HEAD", "rev-list --all --objects", "log --mailmap", "log --dirstat=files", "diff --relative=src", "diff-index HEAD", "diff-files", "diff-tree -r HEAD", "ls-remote .", "upload-pack .", "credential fill", "instaweb", "web--browse x",
        )
    )  # fmt: skip
    return f"git {front}{rest}"


def moving(rng: random.Random) -> str:
    """Write `cp`, `mv`, `rm` and the like."""
    program = rng.choice(
        (
            "cp",
            "cp -r",
            "mv",
            "rm",
            "rm -rf",
            "mkdir -p",
            "touch",
            "tee",
            "cp -a",
            "mv -n",
            "rmdir",
            "ln -s",
            "cp -t",
            "mv -t",
            "cp -S x",
            "rm -f",
            "mkdir -m 777",
            "tee -a",
            "cp --backup",
            "cp -b",
            "cp -l",
            "cp -s",
            "mv -b",
            "touch -r README.md",
            "cp --parents",
            "cp -T",
            "install",
            "cp -R",
            "cp -rL",
            "rm -r",
        )
    )
    target = rng.choice(
        (
            "made",
            "build",
            "src",
            "build/",
            "new/x",
            ".",
            "..",
            "README.md",
            "odd",
            "../outside",
            "~/made",
            ".git/hooks",
            ".git/config",
            "link-out",
            "link-dir",
            "link.txt",
            "link-env",
            "build/out.o",
            "made/",
            "",
            "'a new'",
            "*",
            "$HOME",
            "made {a,b}",
            "/",
            "src/*",
            ".env",
            "sub",
            "build/*.o",
            "tests",
        )
    )
    return f"{program} {a_place(rng)}{rng.choice(('', '', ' ' + a_place(rng)))} {target}"


def runner(rng: random.Random) -> str:
    """Write a command behind a program that runs it."""
    front = rng.choice(("timeout 5", "timeout -k 1 2", "timeout -s KILL 1", "timeout --foreground 3s", "nice", "nice -n 5", "nice -5", "time", "time -p", "env", "env -i", "env X=1", "nohup", "stdbuf -oL", "setsid", "xargs", "command", "exec", "builtin", "sudo", "ionice", "timeout", "timeout -5 ls", "timeout 5 nice", "time -o made", "time -f x", "timeout --kill-after=1 2", "timeout -v 1", "chroot .", "unshare", "busybox", "then", "!", "! !", "{", "(", "if", "while", "timeout $x", "timeout '1' ", "timeout -s hit", "nice -n", "nice --adjustment=5", "time -v", "timeout 1d", "coproc", "script -c", "watch", "strace", "ltrace", "flock made", "parallel", "sh -c", "bash -c", "dash -c", "python3 -c", "perl -e", "eval", "env -S", "find . -exec", "time time", "time !", "! time"))  # fmt: skip
    return f"{front} {rng.choice((simple, plain, listing))(rng)}"


def versions(rng: random.Random) -> str:
    """Ask a program for its version."""
    name = rng.choice(("bash", "sh", "dash", "vim", "curl", "tar", "zip", "unzip", "gzip", "bzip2", "xz", "zstd", "openssl", "sqlite3", "sed", "awk", "grep", "find", "sort", "gcc", "g++", "cc", "make", "cmake", "git", "svn", "perl", "java", "javac", "rsync", "lua", "python3", "ruby", "php", "node", "npm", "npx", "pip", "pip3", "pytest", "mypy", "hg", "cargo", "rustc", "go", "docker", "uv", "ruff", "tsc", "apt", "dpkg", "tmux", "wget", "jq", "gawk", "ssh", "c++", "nodejs", "./hit", "hit"))  # fmt: skip
    return f"{name} {rng.choice(('--version', '--version', '--version', '-v', '-V', '-version', 'version', '--help', '--version x', '-VV', '--vers', '-h', '--version --verbose', '-c x --version', '--version; hit'))}"


def in_double(rng: random.Random) -> str:
    """Write double quotes with everything in them that may mean something."""
    pieces = [rng.choice(("a", " ", "\\", "\\\\", "$", "`", "'", "$HOME", "${HOME}", "$(pwd)", "$(hit)", "\\$(hit)", "!", "#", "\n", "*", "~", "\\\"", "\\`hit\\`", "$'x'", "$\"", "{a,b}", "$?", "\\n", "é", "(", ")", "$(echo \")\")", "$(echo ')')", "$(echo \"$(hit)\")", "${x:-}", "$x", "\\\n", "$(", "<(hit)", "&", "|", ";", "\t")) for _ in range(rng.randrange(1, 6))]  # fmt: skip
    program = rng.choice(("echo", "echo", "printf '%s'", "grep -c", "test -n", "git log --grep", "cat", "cd"))
    return f'{program} "{"".join(pieces)}"{rng.choice(("", " README.md", " && pwd", "; hit", double("x")))}'
