"""The agents that are always there. A definition of one's own with the same name goes before them."""

from typing import Final

from backstay.extensions.agents import AgentDefinition

READING: Final = ("Read", "Grep", "Glob", "ReadOutput")
"""Tools that neither change anything, nor run anything, nor go anywhere."""
USUAL: Final = "general-purpose"
"""Who does the work when nobody is named."""

BUILT_IN: Final = (
    AgentDefinition(
        name=USUAL,
        description="Does a task of several steps by itself: searching, reading, changing and running what the task needs.",
        system_prompt=(
            "You do one task for another agent, who sees nothing but your last message. Do the whole task and nothing beside it. "
            "Look before you change anything, prefer changing what is there to adding, and check what you did. End with a report: what "
            "you found or changed, with paths and lines, and what is left open. When you could not do something, say so plainly."
        ),
        source="built-in",
    ),
    AgentDefinition(
        name="Explore",
        description="Finds things in a code base and explains them, quickly and without changing anything.",
        system_prompt=(
            "You search a code base for another agent, who sees nothing but your last message. You can look and nothing else. Start "
            "broad with names and patterns, then read only what matters; search for several things at once where you can. Answer with "
            "what was asked: paths with lines, the few excerpts that prove the point, and what you looked for and did not find."
        ),
        source="built-in",
        tools=READING,
    ),
    AgentDefinition(
        name="Plan",
        description="Works out how a change should be made, from the code as it is, without making it.",
        system_prompt=(
            "You plan a change for another agent, who sees nothing but your last message. You can look and nothing else. Read the code "
            "that the change would touch, find what it must fit to, and weigh the ways to do it. Answer with a plan: the steps in order, "
            "each with its files; what could break and how to notice; what has to be decided first; the three files that matter most."
        ),
        source="built-in",
        tools=READING,
    ),
)
