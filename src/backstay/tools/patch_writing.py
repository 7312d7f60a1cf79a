"""Writing what a patch makes of several files: all of it, or everything is put back as it was."""

from collections.abc import Sequence

from backstay.tools.files import Refused, in_words
from backstay.tools.holding import Held, Keepsake


class Planned:
    """A file that is held, and what it will hold."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.version = held.version
        """Before the patch."""
        self.before = held.read() if held.facts is not None else None
        """What it holds; None when there is no file."""
        self.content = self.before
        """What it will hold; None when there will be no file."""
        self.like: Held | None = None
        """For a new file: the one whose mode, owner and attributes it gets."""
        self._removed: Keepsake | None = None

    @property
    def touched(self) -> bool:
        """Whether it is another file now than before."""
        return self.held.version != self.version

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.held.target.shown

    def write(self) -> None:
        """Do what is planned."""
        if self.content is None:
            self._removed = self.held.remove()
        else:
            self.held.replace(self.content, self.like.keepsake if self.like else None)

    def put_back(self) -> None:
        """Make it as it was."""
        if self.before is None:
            self.held.remove()
        else:
            self.held.replace(self.before, self._removed)


class NotApplied(Refused):
    """A file could not be written; the message says what became of the others."""

    def __init__(self, message: str) -> None:
        super().__init__("not_applied", message)


def write_all(files: Sequence[Planned]) -> None:
    """Write all that changes, new contents first and removals last. Raise `NotApplied` when that fails, with all put back."""
    changing = [file for file in files if file.content != file.before]
    done: list[Planned] = []
    for file in sorted(changing, key=lambda each: each.content is None):
        try:
            file.write()
        except OSError as exc:
            raise _undone(done, file, in_words(file.shown, exc)) from exc
        except Refused as refused:
            raise _undone(done, file, refused) from refused
        done.append(file)


def _undone(done: Sequence[Planned], failed: Planned, why: Refused) -> NotApplied:
    restored: list[str] = []
    lost: list[str] = []
    changed = [*done, *([failed] if failed.touched else [])]  # the disk may fail after the file has its new name
    for file in reversed(changed):
        try:
            file.put_back()
            restored.append(file.shown)
        except (OSError, Refused) as exc:
            lost.append(f"{file.shown!r} ({exc})")
    words = f"The patch was not applied: {failed.shown!r} could not be written. {why}"
    if restored:
        words += f" Put back as they were: {', '.join(map(repr, restored))}."
    if lost:
        words += f" NOT put back, and changed by the patch: {', '.join(lost)}."
    return NotApplied(words if lost else f"{words} Nothing is changed.")
