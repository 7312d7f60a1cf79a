"""A server that does as a script says, right or wrong, without the official package: it starts in no time.

`python fake_server.py SCRIPT`, a JSON file. See `kit.fake`.
"""

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Answer line by line."""
    with open(sys.argv[1], encoding="utf-8") as file:
        script: dict[str, Any] = json.load(file)
    note(script.get("starts"), "start")
    lives = script.get("lives")
    if lives and count(script["starts"]) > lives:
        print("No more lives.", file=sys.stderr)
        sys.exit(1)
    for line in script.get("first_words", ()):
        say(line)
    for line in sys.stdin:
        message = json.loads(line)
        note(script.get("heard"), line.strip())
        if "id" in message and "method" in message:
            answer(message, script)


def answer(message: dict[str, Any], script: dict[str, Any]) -> None:
    """Answer one request."""
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        greet(message, script)
    elif method == "tools/call":
        act(message, script["calls"][params["name"]], script)
    elif method.endswith("/list"):
        word = method.partition("/")[0]
        page = int(params.get("cursor", 0))
        pages = script.get("pages", {}).get(word, [script.get(word, [])])
        more = {"nextCursor": str(page + 1)} if page + 1 < len(pages) else {}
        if "late" in script and word == "tools":
            script["tools"] = script.pop("late")
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        reply(message, {word: pages[page], **more, **({"nextCursor": "0"} if script.get("cyclic") else {})})
    elif method in script.get("answers", {}):
        reply(message, script["answers"][method])
    else:
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})


def greet(message: dict[str, Any], script: dict[str, Any]) -> None:
    """Shake hands, or not."""
    how = script.get("greeting", "well")
    while count(script["starts"]) < script["together"] if "together" in script else False:
        time.sleep(0.01)
    if how == "silent":
        print("I will not talk. sesame-open-123", file=sys.stderr, flush=True)
        return
    if how == "garbage":
        say("Welcome to my server!")
        return
    if how == "wrong":
        say({"jsonrpc": "2.0", "id": message["id"], "result": "hello"})
        return
    if how == "dies":
        print("Missing configuration.", file=sys.stderr, flush=True)
        sys.exit(1)
    version = "1999-01-01" if how == "old" else message["params"]["protocolVersion"]
    words = ("tools", "resources", "prompts")
    capabilities = {word: {"listChanged": True} for word in words if word in {*script, *script.get("pages", {})}}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "fake", "version": "1"}}
    reply(message, {**result, **({"instructions": script["instructions"]} if "instructions" in script else {})})


def act(message: dict[str, Any], what: dict[str, Any], script: dict[str, Any]) -> None:
    """Do what a call is to do."""
    note(what.get("count"), "called")
    if "relist" in what:
        script["tools"] = what["relist"]
        for _ in range(what.get("times", 1)):
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    for step in range(what.get("progress", 0)):
        token = message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": step, "message": f"step {step}"}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    if "log" in what:
        params = {"level": "info", "data": what["log"]}
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    if "die" in what:
        print(what["die"], file=sys.stderr, flush=True)
        os._exit(9)
    if "hang" in what:
        time.sleep(600)
    if "line" in what:
        say(what["line"].replace("%ID%", str(message["id"])))
    if "huge" in what:
        reply(message, {"content": [{"type": "text", "text": "\u00e9" * what["huge"]}]})
    if "error" in what:
        say({"jsonrpc": "2.0", "id": message["id"], "error": what["error"]})
    if "result" in what:
        reply(message, what["result"])


def reply(message: dict[str, Any], result: object) -> None:
    """Answer with a result."""
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})


def say(line: object) -> None:
    """Write one line."""
    text = line if isinstance(line, str) else json.dumps(line)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(path: str | None, text: str) -> None:
    """Write a line into a file that a test looks at."""
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def count(path: str) -> int:
    """The lines of such a file."""
    with open(path, encoding="utf-8") as file:
        return len(file.readlines())


if __name__ == "__main__":
    main()
