"""What performers use is complete when the loop begins: nobody completes it later."""

import ast

import msgspec

from backstay.runtime.services import Services
from tests.contracts.kit import talk
from tests.source_tree import SOURCE, read_tree

NAMES = frozenset(("services", "_services", "core"))
"""What services are called where they are used."""


def test_no_module_assigns_a_field_of_the_services() -> None:
    fields = set(Services.__struct_fields__)
    found = [
        f"{module.path}:{node.lineno} {node.attr}"
        for module in read_tree(SOURCE)
        if not module.path.startswith("testing/")
        for node in module.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in fields
        if (node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")) in NAMES
    ]

    assert found == []


async def test_what_changes_while_a_session_is_open_is_one_value_that_the_runner_owns() -> None:
    async with talk("Here.") as session:
        before = msgspec.structs.asdict(session._services)
        in_force = session._services.in_force
        await session.run("Go.")
        await session.set_permission_mode("plan")
        session.set_auto_compact(0.5)

        after = msgspec.structs.asdict(session._services)
        assert [name for name, value in after.items() if value is not before[name]] == []
        assert session._runner.in_force is in_force
        assert (in_force.policy.auto_compact, session._services.policy) == (0.5, session._runner.policy)
