"""Words that generated commands are made of: names of the workspace, values, texts, and what would be seen if it ran."""

import random
from typing import Final

FILES: Final = (
    "README.md", "src/a.py", "src/b.py", "src/deep/c.py", "src/main.c", "tests/test_a.py", "data.json", "package.json", "list.txt", "data.csv",
    "sub/x.txt", ".hidden/y.txt", "build/out.o", "link.txt", "link-dir/a.py", "./src/a.py", "src/../README.md", "src//a.py", "Makefile", "odd/plain.txt",
)  # fmt: skip
ODD_FILES: Final = (
    ".env", "link-env", "link-home", "sub/.env.local", "keys/server.pem", "~/.ssh/id_rsa", "~/notes.txt", "$HOME/.netrc", "../outside/o.txt",
    "link-out/o.txt", "denied/d.txt", "odd/-rf", "./-n", "missing.txt", "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/dev/null", "/dev/zero",
    "'a b.txt'", "odd/a\\ b.txt", "odd/é.txt", "'odd/$(hit).txt'", "script.sed", "script.awk", "hit.sh", "hit", "-", "/dev/stdin", "made", "src/made", "",
    "~", "~root", "~+", "~-", "a=~/x", "/dev/tcp/127.0.0.1/9", ".git/config", ".git/hooks/pre-commit",
)  # fmt: skip
FOLDERS: Final = (".", "src", "tests", "src/deep", "sub", "odd", "build", "./src", "link-dir")
ODD_FOLDERS: Final = (
    "denied",
    "keys",
    "link-out",
    "..",
    "~",
    "/",
    "/etc",
    "../outside",
    ".git",
    "$HOME",
    "home",
    "missing",
)
GLOBS: Final = (
    "*.py", "src/*.py", "*.txt", "src/*", "s*/*.py", "*", "odd/*", "-*", "[a-z]*.md", "?ata.json", "src/[ab].py", ".e*", "*/*", "sub/.*", "odd/-*", "./*",
    "{a,b}", "src/{a,b}.py", "[!a]*", "*.[ch]", "src/**/*.py", "den*/*", "li*", "build/*.o", "*.env", "~/*", "$HOME/*", "../*", "[[:alpha:]]*",
)  # fmt: skip
TEXTS: Final = (
    "TODO", "main", "def", "x", "a b", "name", "hit", "1", "id", "import os", "foo|bar", "^def", "a.*b", "value: ", "--", "%s", "hello", "key=value", "#x",
    "$x", "`x`", "*", "?", "~", "!", "a;b", "a&b", "a|b", "(a)", "{a}", "[a]", "<a>", "a\\b", "é", "'", '"', "\\", "\\n", "\t", "",
)  # fmt: skip
VALUES: Final = (
    "1", "2", "3", "10", "0", "5", "80", "a", "b", ",", ":", "=", "name", "never", "always", "auto", "json", "full", "short", "iso", "%s", "%H", "%an", "src", "README.md", "x",
    "hit", "./hit", "made", "src/made", "list.txt", "1,2", "2,4", "1-3", "HEAD", "HEAD~1", "main", "*.py", "TODO", "d", "f", "b", "utf-8", "none", "all", "raw", "word", "c", "'a b'", "-1", "+1",
    "1K", "1M", "md5", "sha256", "size", "time", "type", "+%Y", "yesterday", "2020-01-01", "1d", "1s", ".env", "../outside/o.txt", "link-home", "script.sed", "data.json", "-", "", "=", "%G?", "%(signature)", "a,b", "$(hit)",
)  # fmt: skip
HITS: Final = ("hit", "hit2", "touch made", "cat .env", "./hit", "cp README.md made", "rm README.md")
"""What a hidden command does: each is seen under the tracer."""
NAMES: Final = ("a", "b", "n", "x", "i", "arr", "RANDOM", "SECONDS", "IFS", "PATH", "HISTCMD", "LINENO", "BASH_ENV", "ENV", "OPTIND", "SRANDOM", "EPOCHSECONDS", "REPLY", "PS4", "PROMPT_COMMAND", "CDPATH", "LANG", "TZ", "NODE_ENV", "histchars", "GLOBIGNORE", "SHELLOPTS", "HOME", "PWD", "f", "name", "DIRSTACK", "FUNCNAME", "GROUPS", "COLUMNS", "MAIL", "UID", "TMPDIR", "LD_PRELOAD", "GIT_PAGER", "PAGER", "EDITOR", "POSIXLY_CORRECT", "LS_COLORS", "GREP_OPTIONS", "LESSOPEN")  # fmt: skip


def a_file(rng: random.Random) -> str:
    """Give a file; one in eight is none that may be read freely."""
    return rng.choice(ODD_FILES if rng.random() < 0.12 else FILES)


def a_folder(rng: random.Random) -> str:
    """Give a folder."""
    return rng.choice(ODD_FOLDERS if rng.random() < 0.12 else FOLDERS)


def a_place(rng: random.Random) -> str:
    """Give a file, a folder or a pattern."""
    return rng.choice((a_file, a_file, a_folder, lambda rng: rng.choice(GLOBS)))(rng)


def a_text(rng: random.Random) -> str:
    """Give a text that is not quoted yet."""
    return rng.choice(TEXTS)


def a_value(rng: random.Random) -> str:
    """Give what may be the value of a flag."""
    return rng.choice(VALUES)


def a_hit(rng: random.Random) -> str:
    """Give a command that must not run."""
    return "hit" if rng.random() < 0.6 else rng.choice(HITS)
