"""A process dies in the middle of a tool. The next one knows what is known, and charges nobody twice."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from backstay import open_session, tool

MODEL = f"scripted:{Path(__file__).parent / 'scripts' / 'crash.yaml'}"


@tool
async def charge(cents: int) -> str:
    """Charge the customer. May not happen twice: that is what a tool is taken to mean unless it says otherwise."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{cents}\n")
    os.kill(os.getpid(), signal.SIGKILL)  # the money is gone, and nobody is left to say so
    return "charged"


@tool(effect="pure")
async def charges() -> str:
    """List what was charged."""
    return LEDGER.read_text(encoding="utf-8")


async def crash() -> None:
    async with open_session(model=MODEL, session_id="order-7", store=STORE, tools=[charge, charges]) as session:
        await session.run("Charge the customer 12.00.")


async def resume() -> None:
    async with open_session(resume="order-7", store=STORE, tools=[charge, charges]) as session:
        assert session.report is not None
        print(session.report.words())
        result = await session.finish()
        print(result.text if result else "Nothing was open.")
    print(f"charged: {LEDGER.read_text(encoding='utf-8').split()}")


if len(sys.argv) > 1:
    FOLDER = Path(sys.argv[1])
    LEDGER, STORE = FOLDER / "ledger.txt", f"sqlite://{FOLDER / 'orders.db'}"
    anyio.run(crash)
else:
    with tempfile.TemporaryDirectory() as folder:
        LEDGER, STORE = Path(folder) / "ledger.txt", f"sqlite://{Path(folder) / 'orders.db'}"
        died = subprocess.run([sys.executable, __file__, folder], check=False)
        print(f"The first process died: {died.returncode}")
        anyio.run(resume)
