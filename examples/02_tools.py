"""A tool of your own, and a person who is asked before something is changed."""

import tempfile
from pathlib import Path

import anyio

from backstay import Answer, Question, open_session, tool

MODEL = f"scripted:{Path(__file__).parent / 'scripts' / 'tools.yaml'}"


@tool(effect="pure")
async def word_count(path: str) -> int:
    """Count the words of a text file."""
    return len((FOLDER / path).read_text(encoding="utf-8").split())


async def ask(question: Question) -> Answer:
    """Decide about a call that changes something. A program may ask its user here."""
    print(f"May {question.tool} run with {question.args}? Yes.")
    return Answer(allowed=True)


async def main() -> None:
    (FOLDER / "README.md").write_text("five words are in here", encoding="utf-8")
    async with open_session(model=MODEL, cwd=FOLDER, tools=[word_count], asker=ask, store=None) as session:
        session.on("tool_start", lambda started: print(f"-> {getattr(started, 'tool', '')}"))
        print(await session.run("How long is README.md? Make a note of it."))
    print((FOLDER / "note.txt").read_text(encoding="utf-8"), end="")


with tempfile.TemporaryDirectory() as folder:
    FOLDER = Path(folder)
    anyio.run(main)
