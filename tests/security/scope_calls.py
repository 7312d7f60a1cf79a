"""Calls that might lead out of a workspace: every tool that touches files, paths spelt in many ways. Seeded."""

import random
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from tests.security.yard import LINKS, PLAIN, Yard

Call = tuple[str, Mapping[str, object]]
"""A tool and its arguments."""

_BELOW: Final = (
    "",
    "/secret.txt",
    "/sub/secret.txt",
    "/made.txt",
    "/x/y.txt",
    "/..",
    "/../outside/secret.txt",
    "/id",
    "/.",
)
_FOLDERS: Final = ("plain", "pkg", "other", "swap/dir", "swap", ".", "made", "moved", "folder", "chain", "inner")
_SWAPPED: Final = (
    "swap/dir/secret.txt",
    "swap/leaf.txt",
    "swap/dir",
    "swap/keys/id",
    "swap/dir/made.txt",
    "swap/dir/sub/secret.txt",
)
_READERS: Final = (
    *(
        "cat {p}",
        "head -n 3 {p}",
        "tail -n +1 {p}",
        "wc -l {p}",
        "nl {p}",
        "cat < {p}",
        "sort {p}",
        "cat -- {p}",
        "tac {p}",
    ),
    *(
        "grep -rn mark {p}",
        "grep -R mark {p}",
        "rg mark {p}",
        "rg -L mark {p}",
        "rg -uuu mark {p}",
        "find {p} -type f",
        "find -L {p} -name '*.txt'",
    ),
    *(
        "ls -la {p}",
        "ls -RL {p}",
        "diff {p} {q}",
        "diff -r {p} {q}",
        "cmp {p} {q}",
        "cut -c1-40 {p}",
        "du -aL {p}",
        "tree -l {p}",
    ),
    *(
        "wc -l --files0-from={p}",
        "sort --files0-from={p}",
        "stat -L {p}",
        "file {p}",
        "base64 {p}",
        "xxd {p}",
        "uniq {p}",
        "paste {p} {q}",
    ),
    *(
        "sed -n 1,3p {p}",
        "awk '{{print}}' {p}",
        "jq . {p}",
        "comm {p} {q}",
        "od -c {p}",
        "strings {p}",
        "readlink -f {p}",
        "git diff --no-index {p} {q}",
    ),
)
_EDITORS: Final = (
    *(
        "touch {p}",
        "mkdir -p {p}",
        "rm -f {p}",
        "rm -rf {p}",
        "rmdir {p}",
        "mv {p} {q}",
        "cp {p} {q}",
        "cp -r {p} {q}",
        "cp -a {p} {q}",
    ),
    *(
        "cp -rL {p} {q}",
        "cp -RT {p} {q}",
        "cp --parents {p} {q}",
        "mv -t {q} {p}",
        "cp -t {q} {p}",
        "ln -s {p} {q}",
        "ln {p} {q}",
        "mv -T {p} {q}",
    ),
    *(
        "sed -i s/one/1/ {p}",
        "sed -i.bak s/one/1/ {p}",
        "echo x > {p}",
        "echo x >> {p}",
        "cat {p} > {q}",
        ": > {p}",
        "tee {p} < {q}",
        "chmod 600 {p}",
    ),
    *(
        "truncate -s 0 {p}",
        "echo x | tee -a {p}",
        "cp {p} {q} && cat {q}",
        "mv {p} {q}; cat {q}/secret.txt",
        "cp -a {p} {q}; cat {q}/link/secret.txt",
    ),
    *(
        "mv {p} {q} && echo x > {q}/link/made.txt",
        "mkdir -p {p}/a && touch {p}/a/b",
        "cd {p} && cat secret.txt",
        "cd {p} && touch made.txt",
        "(cd {p}; ls -la)",
    ),
    *(
        "pushd {p} && cat leaf.txt",
        "echo x 2> {p}",
        "cat {p} &> {q}",
        "echo x >| {p}",
        "cat <<E > {p}\nx\nE",
        "for f in {p} {q}; do cat $f; done",
    ),
)


class Caller:
    """Makes calls up."""

    def __init__(self, yard: Yard, seed: int, *, commands: bool = True, searches: bool = True) -> None:
        self._yard = yard
        self._random = random.Random(seed)
        self._kinds: tuple[Callable[[], Call], ...] = (
            self._read,
            self._write,
            self._edit,
            self._multi_edit,
            self._patch,
            self._notebook,
        )
        if searches:
            self._kinds += (self._glob, self._grep)
        if commands:
            self._kinds += (self._bash,) * len(self._kinds)

    def call(self) -> Call:
        """One call."""
        return self._random.choice(self._kinds)()

    # --- paths -------------------------------------------------------------------------------------------------------------------

    def _path(self) -> str:
        """A path, spelt in some way; many of them may lead out."""
        pick = self._random
        plain = pick.choice(
            (
                pick.choice(PLAIN),
                pick.choice(PLAIN),
                pick.choice(_SWAPPED),
                pick.choice(_SWAPPED),
                pick.choice(_FOLDERS),
                pick.choice(_FOLDERS),
                pick.choice(tuple(LINKS)) + pick.choice(_BELOW),
                f"../outside{pick.choice(_BELOW)}",
                f"{pick.choice(_FOLDERS)}/{pick.choice(('new.txt', 'leaf.txt', 'link/secret.txt', '../leaf', 'a.txt'))}",
            )
        )
        return self._spelt(plain)

    def _spelt(self, path: str) -> str:
        work = str(self._yard.work)
        ways: tuple[Callable[[], str], ...] = (
            *(lambda: path,) * 6,
            lambda: f"{work}/{path}",
            lambda: f"./{path}",
            lambda: path.replace("/", "//"),
            lambda: f"plain/../{path}",
            lambda: f"inner/../{path}",
            lambda: f"folder/../work/{path}",
            lambda: f"plain/deep/../../{path}",
            lambda: f"~/../work/{path}",
            lambda: f"../work/{path}",
            lambda: f"/proc/self/cwd/{path}",
            lambda: f"/{work}/./{path}",
            lambda: f"{path}/",
            lambda: f"nowhere/../{path}",
        )
        return self._random.choice(ways)()

    def _word(self) -> str:
        """A path as a word of the shell."""
        path, pick = self._path(), self._random
        ways: tuple[Callable[[], str], ...] = (
            lambda: shlex.quote(path),
            lambda: f'"{path}"',
            lambda: path,
            lambda: f'"$PWD/{path}"' if not path.startswith(("/", "~")) else path,
            lambda: f"${{HOME}}/../work/{path}" if not path.startswith(("/", "~")) else path,
            lambda: path.replace("e", "?", 1),
            lambda: f"{path[:-1]}*" if len(path) > 2 else path,
            lambda: path.replace("a", "'a'", 1).replace("t", "\\t", 1),
            lambda: f"{{{path},doc.md}}",
            lambda: "".join(f"[{char}]" if char == "s" else char for char in path),
        )
        return pick.choice(ways)()

    # --- calls -------------------------------------------------------------------------------------------------------------------

    def _bash(self) -> Call:
        pick = self._random
        lines = [
            pick.choice(_READERS if pick.random() < 0.5 else _EDITORS).format(p=self._word(), q=self._word())
            for _ in range(pick.choice((1, 1, 1, 2, 3)))
        ]
        return "Bash", {"command": pick.choice((" && ", "; ", "\n", " || ")).join(lines), "timeout": 20_000}

    def _read(self) -> Call:
        return "Read", {"file_path": self._path()}

    def _write(self) -> Call:
        return "Write", {"file_path": self._path(), "content": "written\n"}

    def _edit(self) -> Call:
        return "Edit", {"file_path": self._path(), "old_string": "one", "new_string": "1"}

    def _multi_edit(self) -> Call:
        edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]
        return "MultiEdit", {"file_path": self._path(), "edits": edits}

    def _patch(self) -> Call:
        path, other = self._path(), self._path()
        body = self._random.choice(
            (
                f"*** Add File: {path}\n+added",
                f"*** Delete File: {path}",
                f"*** Update File: {path}\n@@\n-one\n+1",
                f"*** Update File: {path}\n*** Move to: {other}\n@@\n-one\n+1",
                f"*** Add File: {path}\n+added\n*** Delete File: {other}",
            )
        )
        return "apply_patch", {"patch": f"*** Begin Patch\n{body}\n*** End Patch"}

    def _glob(self) -> Call:
        pattern = self._random.choice(("**/*", "*.txt", "**/secret*", "*/*", "**/*.ipynb"))
        return "Glob", {"pattern": pattern, "path": self._path(), "hidden": self._random.random() < 0.5}

    def _grep(self) -> Call:
        mode = self._random.choice(("content", "files_with_matches", "count"))
        return "Grep", {"pattern": "mark|one", "path": self._path(), "output_mode": mode, "hidden": True}

    def _notebook(self) -> Call:
        name = self._random.choice((self._path(), self._spelt("own.ipynb"), self._spelt("notebook.ipynb")))
        return "NotebookEdit", {"notebook_path": name, "cell_id": "c1", "new_source": "changed"}
