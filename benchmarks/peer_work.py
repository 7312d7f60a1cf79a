"""Runs inside the peers' environment: `peer_work.py '{"task": NAME, "given": {...}}'` prints measurements as JSON.

A conversation has the same texts and lengths as Backstay's. `SQLiteSession` is only asked to store and to read back, which leaves out
whatever its runner does; `SqliteSaver` runs under the smallest graph with a model and a tool, as its users run it.
"""

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agents import SQLiteSession
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

WORDS = "the quick brown fox jumps over the lazy dog and thinks of what it has seen on the way home "
QUESTION, ANSWER, LOOKED = WORDS * 2, WORDS * 4, WORDS * 8
AGENTS, GRAPH = "openai-agents SQLiteSession", "LangGraph SqliteSaver"
Measured = dict[str, list[float]]


def append_item(folder: str, times: int) -> Measured:
    """One item of 1 KB at a time."""
    return asyncio.run(_append_item(Path(folder), times))


async def _append_item(folder: Path, times: int) -> Measured:
    session, taken = _session(folder / "agents-append.db"), []
    for _ in range(times):
        start = time.perf_counter()
        await session.add_items([{"role": "user", "content": "x" * 980}])
        taken.append((time.perf_counter() - start) * 1000)
    return {AGENTS: taken}


def read_back(folder: str, turns: int, times: int) -> Measured:
    """The whole history of a conversation, from a file that was just opened."""
    return asyncio.run(_read_back(Path(folder) / f"agents-read-{turns}.db", turns, times))


async def _read_back(path: Path, turns: int, times: int) -> Measured:
    await _session(path).add_items([item for number in range(turns) for item in _items(number)])
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        items = await _session(path).get_items()
        taken.append((time.perf_counter() - start) * 1000)
        assert len(items) == turns * 4
    return {f"{AGENTS} ({turns * 4:,} items)": taken}


def list_threads(folder: str, threads: int, times: int) -> Measured:
    """The newest 50 checkpoints over many threads: the nearest thing to a list of sessions."""

    path = str(Path(folder) / "graph-list.db")
    taken = []
    with SqliteSaver.from_conn_string(path) as saver:
        graph = _graph(saver)
        for number in range(threads):
            graph.invoke({"messages": [("user", QUESTION)]}, {"configurable": {"thread_id": str(number)}})
        for _ in range(times):
            start = time.perf_counter()
            list(saver.list(None, limit=50))
            taken.append((time.perf_counter() - start) * 1000)
    return {f"{GRAPH} (50 of the checkpoints of {threads:,} threads)": taken}


def turns(folder: str, lengths: list[int], turns: int) -> Measured:
    """Wall and CPU of a turn at each length of the history."""
    measured: Measured = {}
    for length in lengths:
        for name, one_turn in (
            (AGENTS, _session_turns(Path(folder) / f"agents-turn-{length}.db", length)),
            (f"{GRAPH}, one put", _puts(Path(folder) / f"graph-put-{length}.db", length)),
            (f"{GRAPH}, the turn's graph", _graph_turns(Path(folder) / f"graph-turn-{length}.db", length)),
        ):
            next(one_turn)
            next(one_turn)
            wall, cpu = (
                measured.setdefault(f"wall@{length} {name}", []),
                measured.setdefault(f"cpu@{length} {name}", []),
            )
            for _ in range(turns):
                start, busy = time.perf_counter(), time.process_time()
                next(one_turn)
                wall.append((time.perf_counter() - start) * 1000)
                cpu.append((time.process_time() - busy) * 1000)
    return measured


def sizes(folder: str, turns: int) -> Measured:
    """Bytes on the disk after so many turns."""
    measured: Measured = {}
    for name, path, make in (
        (AGENTS, Path(folder) / "agents-size.db", _session_turns),
        (GRAPH, Path(folder) / "graph-size.db", _graph_turns),
    ):
        one_turn = make(path, 0)
        for _ in range(turns + 1):
            next(one_turn)
        one_turn.close()
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        measured[name] = [float(path.stat().st_size)]
    return measured


def _session(path: Path) -> SQLiteSession:
    return SQLiteSession("s1", str(path))


def _session_turns(path: Path, length: int) -> Iterator[None]:
    """First the past, then a turn a step: the question stored, the history read for each model call, the rest stored."""
    session = _session(path)
    loop = asyncio.new_event_loop()
    past = [item for number in range(length // 4) for item in _items(number)]
    loop.run_until_complete(session.add_items(past))
    yield
    try:
        while True:
            loop.run_until_complete(_session_turn(session))
            yield
    finally:
        loop.close()


async def _session_turn(session: SQLiteSession) -> None:
    question, *rest = _items(0)
    await session.get_items()
    await session.add_items([question])
    await session.add_items(rest)


def _items(number: int) -> list[dict[str, object]]:
    return [
        {"role": "user", "content": f"{number} {QUESTION}"},
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": "look",
            "arguments": json.dumps({"file_path": "a.txt"}),
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": f"call_{number}", "output": LOOKED},
        {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": f"{number} {ANSWER}", "annotations": []}],
        },
    ]


def _graph_turns(path: Path, length: int) -> Iterator[None]:
    """First the past, then a turn a step, through the graph."""

    config = {"configurable": {"thread_id": "s1"}}
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = _graph(saver)
        if length >= 4:
            past = [message for number in range(length // 4) for message in _messages(number)]
            graph.update_state(config, {"messages": past})
        yield
        while True:
            graph.invoke({"messages": [("user", QUESTION)]}, config)
            yield


def _puts(path: Path, length: int) -> Iterator[None]:
    """One checkpoint a step, with the whole history in it: a turn with a tool writes four or five."""

    config = {"configurable": {"thread_id": "s1", "checkpoint_ns": ""}}
    messages = [message for number in range(max(1, length // 4)) for message in _messages(number)]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        yield
        while True:
            checkpoint = {**empty_checkpoint(), "channel_values": {"messages": messages}}
            saver.put(config, checkpoint, {"source": "loop", "step": 1}, {})
            yield


def _graph(saver: SqliteSaver) -> CompiledStateGraph:
    """A model that calls one tool and then answers, and the tool."""

    def model(state: MessagesState) -> dict[str, object]:
        _, call, _, answer = _messages(len(state["messages"]))
        return {"messages": [answer if isinstance(state["messages"][-1], ToolMessage) else call]}

    def look(state: MessagesState) -> dict[str, object]:
        return {"messages": [ToolMessage(LOOKED, tool_call_id=state["messages"][-1].tool_calls[0]["id"])]}

    def after_model(state: MessagesState) -> str:
        return "look" if state["messages"][-1].tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("look", look)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", after_model, ["look", END])
    graph.add_edge("look", "model")
    return graph.compile(checkpointer=saver)


def _messages(number: int) -> list[AnyMessage]:

    call = {"name": "look", "args": {"file_path": "a.txt"}, "id": f"call_{number}", "type": "tool_call"}
    return [
        HumanMessage(f"{number} {QUESTION}"),
        AIMessage("", tool_calls=[call]),
        ToolMessage(LOOKED, tool_call_id=f"call_{number}"),
        AIMessage(f"{number} {ANSWER}"),
    ]


TASKS = {task.__name__: task for task in (append_item, read_back, list_threads, turns, sizes)}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(TASKS[request["task"]](**request["given"])))
