"""A folder to search in, and what ripgrep itself finds there."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from backstay.tools.ripgrep import find_ripgrep

TREE: Mapping[str, str] = {
    "README.md": "# Title\n\nneedle in the text\n",
    "src/app.ts": "import x\nneedle one\nplain\nplain\nplain\nneedle two\n",
    "src/view.tsx": "needle view\r\nplain\r\n",
    "src/deep/er/util.py": "def needle():\n    return 1\n",
    "src/data.json": '{"a": 1}\n',
    "lib/app.ts": "nothing\n",
    "lib/a b's.ts": "needle with blanks\n",
    "lib/-e.ts": "needle of a flag\n",
    ".hidden/secret.ts": "needle hidden\n",
    ".env": "KEY=needle\n",
    "build/out.ts": "needle built\n",
    "notes.log": "needle logged\n",
    ".gitignore": "build/\n*.log\n",
    "long.txt": "needle " + "x" * 5000 + "\n",
    "utf16.txt": "",
}


def plant(folder: Path) -> Path:
    """Fill a folder with `TREE`, with names that are not UTF-8 or hold line ends, a binary file, links and a loop of links."""
    for name, text in TREE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (folder / "utf16.txt").write_bytes("needle wide\n".encode("utf-16"))
    (folder / "binary.bin").write_bytes(b"needle\0needle\n")
    for raw in (b"caf\xe9.ts", b"two\nlines.ts"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + raw)).write_text("needle named oddly\n")
    (folder / "loop").symlink_to(".", target_is_directory=True)
    (folder / "src/deep/back").symlink_to("../..", target_is_directory=True)
    (folder / "broken.ts").symlink_to("nowhere")
    (folder / "linked.ts").symlink_to("src/app.ts")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("needle of git\n")
    return folder


def ripgrep(folder: Path, *arguments: str) -> bytes:
    """What rg prints, without any configuration."""
    command = [find_ripgrep("/nowhere"), "--no-config", "--color=never", *arguments]
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False).stdout
