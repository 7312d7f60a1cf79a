"""Tiny grammars for texts in other languages: the few forms of sed, awk and jq that only pass text through."""

import re
from typing import Final

_LONGEST: Final = 2_000

# sed: commands between semicolons, each with up to two addresses. A delimiter inside of brackets ends a regular expression for GNU sed and does
# not for others, so brackets may hold neither delimiter nor backslash. No newlines: `a`, `i`, `c`, labels and `w` end there.
_SED_TEXT: Final = r"(?:[^{d}\\\n\[]|\\[^\n]|\[\^?\]?[^\]{d}\\\n\[]*\])*"
_SED_REGEX: Final = f"/{_SED_TEXT.format(d='/')}/I?"
_SED_ADDRESS: Final = rf"(?:[0-9]+(?:~[0-9]+)?|\$|{_SED_REGEX})"
_SED_REPLACEMENT: Final = r"(?:[^{d}\\\n]|\\[^\n])*"
_SED_SUBSTITUTION: Final = "|".join(
    f"s{d}{_SED_TEXT.format(d=d)}{d}{_SED_REPLACEMENT.format(d=d)}{d}(?:[gpIi]|[0-9]{{1,4}}){{0,3}}"
    for d in ("/", r"\|", "#", ",", "@", "%", "!", ":")
)
_SED_COMMAND: Final = rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+[0-9]+))?[ ]*!?[ ]*)?(?:[pdqQ=]|{_SED_SUBSTITUTION})"
_SED: Final = re.compile(
    rf"[ ]*(?:{_SED_COMMAND}|(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)?[ ]*\{{[ ]*{_SED_COMMAND}[ ]*(?:;[ ]*{_SED_COMMAND}[ ]*){{0,5}};?[ ]*\}})[ ]*"
)

# awk: patterns and actions made of listed words, lower-case variables, numbers, strings and operators. Without `>`, `|` and `/` inside of an
# action there is no way to a file or a program; names in capitals, functions and `getline` beyond the list are refused.
_AWK_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\n;]+)|(?P<string>"(?:[^"\\\n]|\\[nt\\"/])*")|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<regex>/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n\[]*\])+/)|(?P<operator>&&|\|\||==|!=|<=|>=|\+=|-=|\*=|\+\+|--|!~|[-+*%!~<>=?:,$(){}\[\]])""",
)
_AWK_WORDS: Final = frozenset(
    "BEGIN END NR NF FNR FS OFS RS ORS FILENAME print printf length substr split index tolower toupper int next exit if else for in while gsub sub match".split()
)
_AWK_CALLS: Final = frozenset("length substr split index tolower toupper int gsub sub match if for while".split())
_AWK_VARIABLE: Final = re.compile(r"[a-z]{1,16}[0-9]?")
_AWK_OTHERS: Final = frozenset(
    "getline system close fflush func function delete return do break continue nextfile srand rand sin cos exp log sqrt sprintf strftime mktime systime "
    "gensub and or xor lshift rshift compl asort asorti typeof isarray switch case default include load namespace eval".split()
)
_AWK_BEFORE_REGEX: Final = frozenset(("", "&&", "||", "!", "~", "!~", "(", ",", "}", ";", "\n"))

_JQ_TOKEN: Final = re.compile(
    r"""[ \t\n]+|"(?:[^"\\\n]|\\[ntr"\\/]|\\u[0-9a-fA-F]{4})*"|[0-9]+(?:\.[0-9]+)?|\.[A-Za-z_][A-Za-z0-9_]*|\.{1,2}|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|@(?:csv|tsv|text|json|html|uri|base64|base64d|sh)|//|==|!=|<=|>=|[|,:?+*/%<>()\[\]{}-]"""
)
_JQ_WORDS: Final = frozenset(
    "select map map_values keys keys_unsorted length has in to_entries from_entries with_entries sort sort_by group_by unique unique_by min max min_by max_by add any all flatten reverse "
    "first last nth limit range join split test match capture scan sub gsub ascii_downcase ascii_upcase startswith endswith ltrimstr rtrimstr tostring tonumber type values "
    "arrays objects strings numbers booleans nulls iterables scalars empty error not and or if then elif else end true false null paths leaf_paths del contains inside index indices "
    "floor round ceil sqrt recurse tojson fromjson ascii implode explode todate fromdate now".split()
)


def is_sed_script(script: str) -> bool:
    """Whether a sed script is made of `p`, `d`, `q`, `=` and `s` without `e` and `w`."""
    if len(script) > _LONGEST or "\n" in script:
        return False
    at = 0
    while True:
        found = _SED.match(script, at)
        if not found or found.end() == at:
            return False
        at = found.end()
        if at == len(script):
            return True
        if script[at] != ";":
            return False
        at += 1
        if not script[at:].strip(" "):
            return True


def is_awk_program(program: str) -> bool:
    """Whether an awk program only computes and prints to its own output."""
    at, braces, before, name = 0, 0, "", ""
    while at < len(program) <= _LONGEST:
        found = _AWK_TOKEN.match(program, at)
        if not found:
            return False
        at, token = found.end(), found[0]
        if found["blank"]:
            before = ";" if ";" in token or "\n" in token else before
            continue
        if (
            found["name"]
            and token not in _AWK_WORDS
            and not (_AWK_VARIABLE.fullmatch(token) and token not in _AWK_OTHERS)
        ):
            return False
        if token == "(" and name and name not in _AWK_CALLS and name not in ("print", "printf"):
            return False  # a function that is not listed
        if found["regex"] and (before not in _AWK_BEFORE_REGEX):
            return False
        if token in (">", "|") and braces:
            return False
        braces += (token == "{") - (token == "}")
        before, name = token, token if found["name"] else ""
    return 0 < len(program) <= _LONGEST and braces == 0


def is_jq_filter(script: str) -> bool:
    """Whether a jq filter uses listed functions alone: none that reads the environment, other files or modules."""
    at = 0
    while at < len(script) <= _LONGEST:
        found = _JQ_TOKEN.match(script, at)
        if not found or (found["name"] and found["name"] not in _JQ_WORDS):
            return False
        at = found.end()
    return 0 < len(script) <= _LONGEST
