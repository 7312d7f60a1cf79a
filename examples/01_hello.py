"""A session: one prompt answered, one streamed, and what is left of it. Run it with `python examples/01_hello.py`."""

from pathlib import Path

import anyio

from backstay import open_session
from backstay.vocab.deltas import TextDelta

MODEL = f"scripted:{Path(__file__).parent / 'scripts' / 'hello.yaml'}"
"""A script, so that this needs no key. A real model is named the same way, as `provider:model`."""


async def main() -> None:
    async with open_session(model=MODEL) as session:
        print(await session.run("Say hello."))

        async for item in session.send("And something longer."):
            if isinstance(item, TextDelta):
                print(item.text, end="", flush=True)
        print()

    print(f"{len(session.turns)} turns are kept. Look at them: backstay sessions show {session.id}")


anyio.run(main)
