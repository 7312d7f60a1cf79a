"""Patches: which files they change, and what becomes of a text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstay.tools.patch import apply_hunks, patch_of, patch_paths, read_patch
from backstay.vocab.errors import UserError


def _update(*lines: str, path: str = "a") -> str:
    return "\n".join(("*** Begin Patch", f"*** Update File: {path}", *lines, "*** End Patch"))


def _applied(text: str, patch: str) -> str:
    (section,) = read_patch(patch)
    return apply_hunks(section.path, text, section.hunks)


@pytest.mark.parametrize(
    ("patch", "paths"),
    [
        (
            "*** Begin Patch\n*** Add File: new.py\n+x\n*** Update File: src/a b.py\n@@\n-1\n+2\n"
            "*** Update File: old\n*** Move to: moved\n-1\n+2\n*** Delete File: /gone \n*** End Patch\n",
            [
                ("write", "new.py"),
                ("write", "src/a b.py"),
                ("read", "old"),
                ("remove", "old"),
                ("write", "moved"),
                ("remove", "/gone"),
            ],
        ),
        ("```diff\n" + _update("-1", "+2") + "\n```", [("write", "a")]),
        ("apply_patch <<'EOF'\n" + _update("-1", "+2") + "\nEOF\n", [("write", "a")]),
        ("\n" + _update("-1", "+2").replace("\n", "\r\n") + "\r\n", [("write", "a")]),
    ],
)
def test_the_files_that_a_patch_touches_are_known_before_it_is_applied(
    patch: str, paths: list[tuple[str, str]]
) -> None:
    assert patch_paths(patch) == tuple(paths)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("", "is empty"),
        ("hello", "Line 1 is 'hello'"),
        ("*** Begin Patch\n*** End Patch", "changes no file"),
        ("*** Begin Patch\n*** Add File: a\n+x", "does not end with `*** End Patch`. Line 3 is '+x'"),
        ("*** Begin Patch\n*** Add File:\n+x\n*** End Patch", "names no file. Line 2"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "begins with `+`. Line 3 is 'x'"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "was expected. Line 2 is '*** Rename File: a'"),
        (_update("@@", " x"), "the hunk changes nothing. Line 3"),
        (_update("x"), "begins with a blank, `+` or `-`, and a hunk with `@@`. Line 3 is 'x'"),
        (_update(), "says nothing"),
        (_update("*** Move to: ", "-1", "+2"), "names no file. Line 3"),
        (_update("-1", "+2") + "\nrm -rf /", "nothing may follow `*** End Patch`. Line 6"),
        (_update("-1", "+2", "*** End of File", "+3"), "Line 6 is '+3'"),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n",
            "this is a unified difference. Write `*** Begin Patch`, for each file",
        ),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "this is a unified difference"),
        ("```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n```", "Line 2 is '--- a/x'"),
    ],
)
def test_a_patch_that_cannot_be_read_shows_the_line(patch: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        patch_paths(patch)

    assert words in str(caught.value)


def test_a_call_has_one_patch_under_either_name() -> None:
    assert patch_of({"patch": "p"}) == patch_of({"input": "p", "patch": ""}) == "p"
    for args in ({}, {"patch": 1}, {"patch": "p", "input": "q"}):
        with pytest.raises(UserError):
            patch_of(args)


@pytest.mark.parametrize(
    ("text", "patch", "after"),
    [
        ("1\n2\n3\n", _update("@@", " 1", "-2", "+two", " 3"), "1\ntwo\n3\n"),
        ("1\n2\n3\n", _update("-2"), "1\n3\n"),
        ("f\n1\ng\n1\n", _update("@@ g", "-1", "+2"), "f\n1\ng\n2\n"),
        ("f\n1\ng\n1\n", _update("@@ g", " g", "-1", "+2"), "f\n1\ng\n2\n"),
        (
            "class A:\n  def f():\n    1\nclass B:\n  def f():\n    1\n",
            _update("@@ class B:", "@@ def f():", "-    1", "+    2"),
            None,
        ),
        ("1\n2\n", _update("+3"), "1\n2\n3\n"),
        ("1\n2\n", _update("@@ 1", "+1.5"), "1\n1.5\n2\n"),
        ("1\n2\n1\n", _update("-1", "+x", "*** End of File"), "1\n2\nx\n"),
        ("1\n1\n", _update("@@ -2,1 +2,1 @@", "-1", "+x"), "1\nx\n"),
        ("a\n\nb\n", _update(" a", "", "-b", "+c"), "a\n\nc\n"),
        ("a\nb\n", _update("-b", "+c", ""), "a\nc\n"),
        # two hunks, in order
        ("1\n2\n3\n4\n", _update("@@", "-1", "+one", "@@", "-4", "+four"), "one\n2\n3\nfour\n"),
        # lines that stay are the file's own
        ("\tif x:  \n\t\treturn\n", _update("     if x:", "-        return", "+\t\tpass"), "\tif x:  \n\t\tpass\n"),
        # line ends and the end of the file
        ("1\r\n2\r\n", _update("-2", "+two", "+three"), "1\r\ntwo\r\nthree\r\n"),
        ("1\r\n2\n3\n", _update(" 1", "-2", "+two"), "1\r\ntwo\n3\n"),
        ("1\n2", _update("-2", "+two"), "1\ntwo"),
        ("1\n2", _update(" 2", "+3"), "1\n2\n3"),
        ("", _update("+1"), "1\n"),
        ("1\n", _update("-1"), ""),
        # numbers of lines choose among places, also when they are a little wrong
        ("x\n" * 9, _update("@@ -4,1 +4,1 @@", "-x", "+y"), "x\n" * 3 + "y\n" + "x\n" * 5),
        ("0\nx\n0\n0\n0\nx\n", _update("@@ -7 +7 @@", "-x", "+y"), "0\nx\n0\n0\n0\ny\n"),
        ("1\n2\n", _update("@@ -1,0 +2,1 @@", "+new"), "1\nnew\n2\n"),
        ("1\n2\n", _update("@@ -0,0 +1,1 @@", "+new"), "new\n1\n2\n"),
    ],
)
def test_a_hunk_finds_its_place(text: str, patch: str, after: str | None) -> None:
    expected = after if after is not None else text[: text.rindex("1")] + "2\n"

    assert _applied(text, patch) == expected


@pytest.mark.parametrize(
    ("text", "patch", "words"),
    [
        ("1\n1\n", _update("-1", "+2"), "fits 'a' in 2 places (lines 1, 2)"),
        ("1\n2\n", _update("-3", "+4"), "line 3 of the patch does not fit 'a': there is no line '3'"),
        ("1\n2\n", _update("@@ none", "-1", "+4"), "there is no line 'none'"),
        ("1\nx\n2\n", _update("-1", "-2", "+3"), "do not stand together"),
        ("1\n2\n", _update("@@", "-2", "+x", "@@", "-1", "+y"), "there is no line '1' after line 2"),
        ("x\n0\n0\nx\n", _update("@@ -2,0 +2 @@", "+y", "@@ -9 +9 @@", "-z", "+y"), "no line 'z'"),
        ("x\n0\nx\n", _update("@@ -2 +2 @@", "-x", "+y"), "in 2 places"),
    ],
)
def test_a_hunk_that_fits_nowhere_or_in_several_places_is_refused(text: str, patch: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        _applied(text, patch)

    assert words in str(caught.value)


@given(
    before=st.lists(st.sampled_from(["a", "b", " c", ""]), max_size=8),
    after=st.lists(st.sampled_from(["a", "b", " c", "d"]), max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=200, deadline=None)
def test_a_patch_of_the_whole_file_makes_exactly_the_other_one(before: list[str], after: list[str], end: str) -> None:
    lines = (*(f"-{line}" for line in before), *(f"+{line}" for line in after))
    if not lines:
        return

    made = _applied("".join(line + end for line in before), _update("@@", *lines))

    assert made == "".join(line + (end if before else "\n") for line in after)


@given(st.text(alphabet=" +-@*\\\nabdFile:/", max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_patch_or_refused(text: str) -> None:
    for patch in (text, f"*** Begin Patch\n{text}\n*** End Patch", _update(text)):
        try:
            paths = patch_paths(patch)
        except UserError:
            continue
        assert paths
