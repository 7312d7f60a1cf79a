"""Scripts: the replies of a scripted model, as a YAML or JSON file tells them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from backstay.vocab.errors import ErrorKind, UserError
from backstay.vocab.event import Stop
from backstay.vocab.specs import Usage


class _Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScriptedCall(_Shape, frozen=True, kw_only=True):
    """A tool call of a reply."""

    name: str
    args: dict[str, object] = {}


class RawArgs(_Shape, frozen=True, kw_only=True):
    """A tool call whose arguments are any text, well formed or not."""

    name: str
    text: str


class Expectation(_Shape, frozen=True, kw_only=True):
    """What must stand in the newest messages of the request."""

    contains: str


class ScriptedError(_Shape, frozen=True, kw_only=True):
    """The reply fails."""

    kind: ErrorKind
    retry_after_s: float | None = None
    message: str = ""


class Reply(_Shape, frozen=True, kw_only=True):
    """One reply of a script. `text` and `reasoning` are streamed before an error or a hang."""

    text: str = ""
    reasoning: str = ""
    chunk: Annotated[int, Meta(ge=1)] = 16
    """Characters in a piece of the stream."""
    delay_ms: Annotated[float, Meta(ge=0)] = 0
    """Between two pieces."""
    calls: tuple[ScriptedCall, ...] = ()
    raw_args: RawArgs | None = None
    usage: Usage | None = None
    stop: Stop | None = None
    expect: Expectation | None = None
    error: ScriptedError | None = None
    hang: bool = False


def read_script(path: str | Path) -> tuple[Reply, ...]:
    """Read a script. Raise `UserError` naming the file and the reply when something in it is not known."""
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as exc:
        raise UserError(f"The script {str(path)!r} cannot be read: {exc.strerror or exc}.") from exc
    raw = _from_json(content, str(path)) if file.suffix == ".json" else _from_yaml(content, str(path))
    if not isinstance(raw, list) or not raw:
        raise UserError(f"The script {str(path)!r} must be a list of replies, such as `- text: Hello`.")
    return make_replies(raw, str(path))


def make_replies(raw: Sequence[object], source: str) -> tuple[Reply, ...]:
    """Check plain objects and make replies of them; `source` is how messages call the script."""
    return tuple(_reply(each, f"Reply {number} of the script {source!r}") for number, each in enumerate(raw, 1))


def _reply(raw: object, called: str) -> Reply:
    try:
        return msgspec.convert(raw, Reply)
    except msgspec.ValidationError as exc:
        known = ", ".join(Reply.__struct_fields__)
        raise UserError(f"{called} is wrong: {exc}. A reply has the keys {known}.") from exc


def _from_json(content: bytes, source: str) -> object:
    try:
        raw: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UserError(f"The script {source!r} is not JSON: {exc}.") from exc
    return raw


def _from_yaml(content: bytes, source: str) -> object:
    from backstay.yaml12 import BrokenYaml, read_yaml  # noqa: PLC0415  # loaded only by those who have a YAML script

    try:
        return read_yaml(content.decode())
    except BrokenYaml as exc:
        raise UserError(f"The script {source!r} is not YAML: line {exc.line}: {exc}.") from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"The script {source!r} is not YAML: it is not UTF-8 text ({exc}).") from exc
