"""What each provider demands of the JSON that it is sent, written down as rules over the bytes that an encoder made.

`broken(format, body)` gives a sentence for each place that a provider would refuse. The rules know nothing of our own messages: they look
at the native request alone, so that an encoder cannot hide behind them. A state that only its provider can read is marked with the name of
the provider that made it (see `native_replies.py`), which is how a signature at the wrong address is seen.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

Native = dict[str, Any]  # Any: JSON, as it is looked through
Rule = Callable[[Native], Iterator[str]]

WIRE_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OPAQUE: Final = re.compile(r"state-of-([a-z-]+)-")
"""How the state that a fake provider makes begins: with whose it is."""


def broken(format: str, body: bytes, provider: str) -> list[str]:
    """Everything that `provider` would refuse in a request."""
    native = json.loads(body)
    found = [f"{rule.__name__}: {each}" for rule in RULES[format] for each in rule(native)]
    foreign = {owner for owner in OPAQUE.findall(body.decode()) if owner != provider}
    return found + [f"the state of {owner!r} goes to {provider!r}" for owner in sorted(foreign)]


# --- Anthropic -------------------------------------------------------------------------------------------------------------------


def anthropic_sides_take_turns(native: Native) -> Iterator[str]:
    """The user begins and ends, and the two sides take turns."""
    roles = [message["role"] for message in native["messages"]]
    wanted = ["user", "assistant"] * (len(roles) // 2) + ["user"]
    if roles != wanted:
        yield f"the roles are {roles}"


def anthropic_nothing_is_blank(native: Native) -> Iterator[str]:
    """Every message has blocks, and no text is blank."""
    for at, message in enumerate(native["messages"]):
        if not message["content"]:
            yield f"messages[{at}] is empty"
        for block in message["content"]:
            if any(not text.strip() for text in _anthropic_texts(block)) or block.get("content") == []:
                yield f"messages[{at}] has a blank text: {block}"


def _anthropic_texts(block: Native) -> list[str]:
    if block["type"] == "text":
        return [block["text"]]
    inner = block["content"] if block["type"] == "tool_result" else []
    return [inner] if isinstance(inner, str) else [each["text"] for each in inner if each["type"] == "text"]


def anthropic_results_answer_calls(native: Native) -> Iterator[str]:
    """The results of all calls stand at the beginning of the next message, once each, and nowhere else."""
    seen: set[str] = set()
    for at, message in enumerate(native["messages"]):
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        for call in calls:
            if call["id"] in seen:
                yield f"messages[{at}]: the id {call['id']!r} came before"
            if not WIRE_ID.fullmatch(call["id"]) or not TOOL_NAME.fullmatch(call["name"]):
                yield f"messages[{at}]: the call {call['id']!r} of {call['name']!r} does not fit the pattern"
            if not isinstance(call["input"], dict):
                yield f"messages[{at}]: the arguments of {call['id']!r} are no object"
            seen.add(call["id"])
        before = native["messages"][at - 1]["content"] if at else []
        wanted = [block["id"] for block in before if block["type"] == "tool_use"]
        kinds = [block["type"] == "tool_result" for block in message["content"]]
        given = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if sorted(given) != sorted(wanted) or kinds != sorted(kinds, reverse=True):
            yield f"messages[{at}] has results for {given}, and the calls were {wanted}"
        if (calls and message["role"] != "assistant") or (given and message["role"] != "user"):
            yield f"messages[{at}] has calls or results of the wrong side"
        if calls and at == len(native["messages"]) - 1:
            yield f"messages[{at}]: nothing follows the calls"


def anthropic_thoughts_are_signed_and_lead_on(native: Native) -> Iterator[str]:
    """A thought is the assistant's, has its signature, and something other than a thought stands after it."""
    for at, message in enumerate(native["messages"]):
        thoughts = [block for block in message["content"] if block["type"] in ("thinking", "redacted_thinking")]
        if thoughts and message["role"] != "assistant":
            yield f"messages[{at}]: the user thinks"
        if any(not block.get("signature" if block["type"] == "thinking" else "data") for block in thoughts):
            yield f"messages[{at}]: a thought without its signature"
        if message["content"] and message["content"][-1] in thoughts:
            yield f"messages[{at}] ends with a thought"


def anthropic_server_tools_are_done(native: Native) -> Iterator[str]:
    """A tool of the server has its result in the same message, unless calls of ours stand there too."""
    for at, message in enumerate(native["messages"]):
        blocks = message["content"]
        done = {block.get("tool_use_id") for block in blocks if block["type"].endswith("_tool_result")}
        begun = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
        if begun - done and not any(block["type"] == "tool_use" for block in blocks):
            yield f"messages[{at}]: the server's own calls {begun - done} have no result"
        if done - begun:
            yield f"messages[{at}]: results {done - begun} of the server without its calls"


def anthropic_marks_are_few(native: Native) -> Iterator[str]:
    """At most four places are marked for the cache."""
    if (marks := json.dumps(native).count('"cache_control"')) > 4:
        yield f"{marks} marks"


# --- OpenAI Responses ------------------------------------------------------------------------------------------------------------

_CALLS: Final = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def responses_calls_have_outputs(native: Native) -> Iterator[str]:
    """Each call has one output of its own kind after it, before the assistant goes on; each output has its call."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    answering = False
    for at, item in enumerate(native["input"]):
        kind = item["type"]
        if kind in _CALLS:
            if item["call_id"] in seen or not WIRE_ID.fullmatch(item["call_id"]):
                yield f"input[{at}]: the id {item['call_id']!r} came before, or does not fit the pattern"
            if not TOOL_NAME.fullmatch(item["name"]):
                yield f"input[{at}]: the name {item['name']!r} does not fit the pattern"
            if kind == "function_call" and not isinstance(json.loads(item["arguments"]), dict):
                yield f"input[{at}]: the arguments are no object"
            if answering and waiting:
                yield f"input[{at}]: {sorted(waiting)} have no output"
            waiting[item["call_id"]] = _CALLS[kind]
            seen.add(item["call_id"])
            answering = False
        elif kind in _CALLS.values():
            if waiting.pop(item["call_id"], "") != kind:
                yield f"input[{at}]: an output without its call, or of another kind"
            answering = True
        elif waiting and (answering or kind == "message"):
            yield f"input[{at}]: {sorted(waiting)} have no output before it"
    if waiting:
        yield f"{sorted(waiting)} have no output"


def responses_reasoning_leads_on(native: Native) -> Iterator[str]:
    """Reasoning carries itself, and the next item is again the assistant's."""
    items = native["input"]
    for at, item in enumerate(items):
        if item["type"] != "reasoning":
            continue
        if not item.get("encrypted_content") and not item.get("content"):
            yield f"input[{at}]: reasoning that only the server's memory could fill"
        following = items[at + 1] if at + 1 < len(items) else {}
        ours = following.get("type", "").endswith("_output") or following.get("role") in ("user", "system")
        if not following or ours:
            yield f"input[{at}]: reasoning without the item that follows it"


def responses_messages_say_something(native: Native) -> Iterator[str]:
    """A message has content of its own side, none of it empty; the last item is not the assistant's."""
    if not native["input"]:
        yield "nothing is said"
        return
    for at, item in enumerate(native["input"]):
        if item["type"] != "message":
            continue
        kinds = (
            ("output_text", "refusal") if item["role"] == "assistant" else ("input_text", "input_image", "input_file")
        )
        if not item["content"] or any(each["type"] not in kinds for each in item["content"]):
            yield f"input[{at}]: {item['role']!r} cannot say {item['content']}"
        if any(each.get("text") == "" for each in item["content"]):
            yield f"input[{at}]: an empty text"
    last = native["input"][-1]
    if last.get("role") == "assistant" or last["type"] in (*_CALLS, "reasoning"):
        yield "the last item is the assistant's"


# --- OpenAI Chat -----------------------------------------------------------------------------------------------------------------


def chat_calls_are_answered_at_once(native: Native) -> Iterator[str]:
    """Right after a message with calls there is a tool message for each of them, and tool messages stand nowhere else."""
    waiting: list[str] = []
    for at, message in enumerate(native["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"messages[{at}]: a result without its call"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"messages[{at}]: {waiting} have no result before it"
        waiting = []
        for call in message.get("tool_calls", ()):
            function = call["function"]
            if call["id"] in waiting or not re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", call["id"]):
                yield f"messages[{at}]: the id {call['id']!r} came before, or does not fit the pattern"
            if not TOOL_NAME.fullmatch(function["name"]) or not isinstance(json.loads(function["arguments"]), dict):
                yield f"messages[{at}]: {function} does not fit the pattern"
            waiting.append(call["id"])
    if waiting:
        yield f"{waiting} have no result"


def chat_everybody_says_something(native: Native) -> Iterator[str]:
    """The system speaks first or not at all, nobody says nothing, and two messages of the user do not follow each other."""
    before = ""
    for at, message in enumerate(native["messages"]):
        role, content = message["role"], message.get("content")
        if role == "system" and at:
            yield f"messages[{at}]: the system speaks in the middle"
        if role == before == "user":
            yield f"messages[{at}]: the user speaks twice"
        if not content and not (role == "assistant" and message.get("tool_calls")):
            yield f"messages[{at}]: {role!r} says nothing"
        if isinstance(content, list) and any(each.get("text") == "" for each in content):
            yield f"messages[{at}]: an empty text"
        if message.get("tool_calls") == []:
            yield f"messages[{at}]: an empty list of calls"
        before = role
    if before not in ("user", "tool"):
        yield f"the last word is that of {before!r}"


# --- Google ----------------------------------------------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_KINDS: Final = frozenset(
    (
        "text",
        "functionCall",
        "functionResponse",
        "inlineData",
        "fileData",
        "executableCode",
        "codeExecutionResult",
        "novelty",
    )
)


def google_sides_take_turns(native: Native) -> Iterator[str]:
    """The user begins and ends, and the two sides take turns."""
    roles = [content["role"] for content in native["contents"]]
    if roles != ["user", "model"] * (len(roles) // 2) + ["user"]:
        yield f"the roles are {roles}"


def google_responses_answer_calls(native: Native) -> Iterator[str]:
    """The content after calls begins with as many responses, of the same names and ids in the same order; no other has any."""
    wanted: list[tuple[str, str]] = []
    for at, content in enumerate(native["contents"]):
        responses = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        kinds = ["functionResponse" in part for part in content["parts"]]
        given = [(each["name"], each.get("id", "")) for each in responses]
        if given != wanted or kinds != sorted(kinds, reverse=True):
            yield f"contents[{at}] responds with {given} to {wanted}"
        if any(not isinstance(each["response"], dict) for each in responses):
            yield f"contents[{at}]: a response that is no object"
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        wanted = [(call["name"], call.get("id", "")) for call in calls]
        seen: set[str] = set()
        for call in calls:
            if not _NAME.fullmatch(call["name"]) or not isinstance(call.get("args", {}), dict):
                yield f"contents[{at}]: the call {call} does not fit the pattern"
            if call.get("id") and (call["id"] in seen or not WIRE_ID.fullmatch(call["id"])):
                yield f"contents[{at}]: the id {call['id']!r} came before, or does not fit the pattern"
            seen.add(call.get("id", ""))
        if (calls and content["role"] != "model") or (responses and content["role"] != "user"):
            yield f"contents[{at}] has calls or responses of the wrong side"
    if wanted:
        yield f"the calls {wanted} have no responses"


def google_parts_are_something(native: Native) -> Iterator[str]:
    """Every content has parts, each of one kind, and no text is empty unless a signature hangs on it."""
    for at, content in enumerate(native["contents"]):
        if not content["parts"]:
            yield f"contents[{at}] is empty"
        for part in content["parts"]:
            if len(_KINDS & part.keys()) != 1:
                yield f"contents[{at}] has a part that is not of one kind: {part}"
            if part.get("text") == "" and "thoughtSignature" not in part:
                yield f"contents[{at}] has an empty text"
            if part.get("thought") and content["role"] != "model":
                yield f"contents[{at}]: the user thinks"


RULES: Final[dict[str, Sequence[Rule]]] = {
    "anthropic": (
        anthropic_sides_take_turns,
        anthropic_nothing_is_blank,
        anthropic_results_answer_calls,
        anthropic_thoughts_are_signed_and_lead_on,
        anthropic_server_tools_are_done,
        anthropic_marks_are_few,
    ),
    "openai-responses": (
        responses_calls_have_outputs,
        responses_reasoning_leads_on,
        responses_messages_say_something,
    ),
    "openai-chat": (chat_calls_are_answered_at_once, chat_everybody_says_something),
    "google": (google_sides_take_turns, google_responses_answer_calls, google_parts_are_something),
}
"""The rules of each format."""
