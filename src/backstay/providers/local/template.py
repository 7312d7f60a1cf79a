"""The two changes to a chat template without which the model's tool calls are not understood.

The engine derives its parser and its grammar from the template. Qwen2.5-Coder writes a call as fenced JSON, whatever tag its own template
asks for: with the fence in the template, the engine sees the calls. And it repeats a call until somebody tells it that it is done.
"""

import re
from typing import Final

from backstay.vocab.errors import UserError

NUDGE: Final = (
    "The tool call above is done, do not repeat it. If more work is needed, call the next tool. "
    "If the request is fulfilled, answer the user in plain text using the result."
)
_RESULT_END: Final = "</tool_response>"
_TURN_END: Final = re.compile(r"(['\"])<\|im_end\|>")


def fence(template: str) -> str:
    """`template` with calls as fenced JSON, and with the nudge after the results. Raise `UserError` when it has no place for them."""
    if "<tool_call>" not in template or _RESULT_END not in template:
        raise UserError(
            "The model's chat template is not the expected one: it has no tool calls. Run: backstay models pull"
        )
    fenced = template.replace("</tool_call>", "```").replace("<tool_call>", "```json")
    fenced = _single_braces(fenced)
    before, end, after = fenced.rpartition(_RESULT_END)
    changed, count = _TURN_END.subn(lambda found: f"{found[1]}\\n{NUDGE}<|im_end|>", after, count=1)
    if not count:
        raise UserError("The model's chat template is not the expected one: nothing ends a turn after a result.")
    return before + end + changed


def _single_braces(template: str) -> str:
    """Mend a slip of some files: the example of a call has each of its braces twice."""
    return re.sub(r"\{(\{\\\"name\\\": <function-name>[^}\n]*\})\}", r"\1", template)
