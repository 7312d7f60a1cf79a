"""The instructions of a session: everything that the model gets before the first input, in named and bounded parts.

inputs = find_inputs(cwd, trusted=True, mode="default", skills=(Listed(name="pdf", description="Read PDF files."),))
instructions = await anyio.to_thread.run_sync(gather, inputs)
instructions.text                  # as it is sent, the same bytes for the same files
instructions.event("start")        # to be recorded, with the text as a blob
if instructions.stale(): ...       # between turns: gather again, and compare `sha256`
"""

from backstay.instructions.build import Instructions, Why, gather
from backstay.instructions.inputs import InstructionInputs, Listed, find_inputs
from backstay.instructions.parts import KINDS, Part, PartKind
from backstay.instructions.tasks import update_task_file

__all__ = (
    "KINDS",
    "InstructionInputs",
    "Instructions",
    "Listed",
    "Part",
    "PartKind",
    "Why",
    "find_inputs",
    "gather",
    "update_task_file",
)
