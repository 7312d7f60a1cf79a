"""Who plays in the scenarios: tools of every effect, and the options that put them beside a rehearsed model."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Final

import anyio
import anyio.lowlevel
from msgspec import Struct
from msgspec.structs import replace

from backstay.ports import Asker, Tool, ToolContext, ToolOutput
from backstay.session.options import Options
from backstay.testing.crash.rehearsed_model import Reply, rehearsed
from backstay.testing.crash.stage import Stage
from backstay.vocab.specs import Effect, ToolSpec

LONG: Final = "a long answer " * 3_000
"""More than an event holds: it becomes a blob."""


def played(replies: Sequence[Reply], asker: Asker | None = None) -> Callable[[Stage], Options]:
    """The options of a scenario in which one model plays `replies`."""
    return lambda stage: Options(model=rehearsed(replies, stage), tools=tools_of(stage), asker=asker)


def call(name: str, **args: object) -> Reply:
    """A tool call of a reply."""
    return {"name": name, "args": args}


def tools_of(stage: Stage) -> list[Tool]:
    """One tool of each effect, one that breaks, one that hangs until it is stopped, and one that opens child sessions."""

    async def look(n: int, context: ToolContext) -> str:
        await anyio.lowlevel.checkpoint()
        return LONG if n < 0 else f"saw {n}"

    async def count(n: int, context: ToolContext) -> str:
        return f"counted {n}"

    async def put(n: int, context: ToolContext) -> str:
        stage.did("put", context.key)
        await anyio.lowlevel.checkpoint()
        return f"put {n}"

    async def book(n: int, context: ToolContext) -> str:
        await anyio.lowlevel.checkpoint()
        stage.did("book", context.key)
        await anyio.lowlevel.checkpoint()
        return f"booked {n}"

    async def pay(n: int, context: ToolContext) -> str:
        context.show("paying ")
        await anyio.lowlevel.checkpoint()
        stage.did("pay", context.key)
        await anyio.lowlevel.checkpoint()
        return f"paid {n}"

    async def order(n: int, context: ToolContext) -> str:
        stage.did("order", context.key)
        return f"ordered {n}"

    async def ring(n: int, context: ToolContext) -> str:
        stage.did("ring", context.key)
        context.show("ringing ")
        if stage.attempt == 0:
            await anyio.sleep_forever()
        return f"rang {n}"

    async def stumble(n: int, context: ToolContext) -> str:
        stage.did("stumble", context.key)
        raise ValueError(f"stumbled over {n}")

    works: tuple[Work, ...] = (look, count, put, book, pay, order, ring, stumble)
    return [*(_Piece(SPECS[work.__name__], work, stage) for work in works), _Piece(SPECS["delegate"], count, stage)]


Work = Callable[[int, ToolContext], Coroutine[object, object, str]]


def _spec(name: str, effect: Effect = "once") -> ToolSpec:
    schema: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return ToolSpec(name=name, description=f"{name.capitalize()}.", schema=schema, effect=effect)


SPECS: Final = {
    spec.name: spec
    for spec in (
        replace(_spec("look", "pure"), concurrent=True),
        _spec("count", "pure"),
        _spec("put", "idempotent"),
        _spec("book", "reconcilable"),
        _spec("pay"),
        replace(_spec("order"), asks=True),
        _spec("ring"),
        _spec("stumble"),
        replace(_spec("delegate"), child=True),
    )
}
"""The tools of the scenarios. `delegate` takes a prompt, the others take a number `n`."""


class _Piece(Struct, frozen=True):
    """A tool of a scenario."""

    spec: ToolSpec
    work: Work
    stage: Stage

    def problem(self, args: dict[str, object]) -> str:
        wanted = ("prompt", str) if self.spec.child else ("n", int)
        return "" if isinstance(args.get(wanted[0]), wanted[1]) else f"{wanted[0]!r} is missing."

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        return ToolOutput(text=await self.work(int(str(args["n"])), context))

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        happened = self.stage.happened(self.spec.name, context.key)
        return ToolOutput(text=f"had done {self.spec.name} {args['n']}") if happened else None
