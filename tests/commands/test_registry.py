"""The registry of commands: sources, names, completions, modules."""

import pytest

from backstay.commands.registry import (
    Command,
    CommandModule,
    CommandResult,
    Commands,
    CommandSpec,
    DynamicSource,
    FixedSource,
)
from backstay.session.session import SessionCall
from backstay.vocab.errors import UserError


def make(name: str, **given: object) -> Command:
    async def execute(call: SessionCall) -> CommandResult:
        return CommandResult(message=f"{name} did {call.args}")

    spec = CommandSpec(name=name, description=f"Do {name}.", **given)  # type: ignore[arg-type]
    return Command(spec=spec, execute=execute)


@pytest.mark.contract("RB-82")
def test_sources_are_put_together_and_the_first_of_a_name_is_meant() -> None:
    first, second = make("deploy", origin="a"), make("deploy", origin="b")
    commands = Commands(FixedSource("one", (first, make("diff"))), FixedSource("two", (second, make("test"))))

    assert [spec.name for spec in commands.specs()] == ["deploy", "diff", "test"]
    assert commands.find("deploy") is first
    assert commands.find("nothing") is None


@pytest.mark.contract("RB-82")
def test_names_are_filtered_and_completed_with_their_subcommands() -> None:
    commands = Commands(
        FixedSource("x", (make("memory", subcommands=("list", "show", "add")), make("mode"), make("help")))
    )

    assert [spec.name for spec in commands.specs(prefix="m")] == ["memory", "mode"]
    assert commands.complete("mo") == ("mode",)
    assert commands.complete("memory s") == ("memory show",)
    assert commands.complete("memory show x") == ()
    assert commands.complete("nothing ") == ()


@pytest.mark.contract("RB-82")
def test_a_command_of_a_plugin_may_be_named_without_it_while_that_is_clear() -> None:
    commands = Commands(FixedSource("x", (make("a:review"), make("a:ship"), make("b:ship"))))

    assert commands.find("a:review") is commands.find("review")
    assert commands.find("ship") is None
    assert commands.find("b:ship") is not None


@pytest.mark.contract("RB-81")
def test_a_module_brings_its_commands_and_says_what_it_needs() -> None:
    commands = Commands(offers=frozenset(("agent-runtime",)))
    source = DynamicSource("later", lambda: (make("fan-out"),))

    commands.add_module(
        CommandModule(
            name="agents", commands=(make("agent"),), sources=(source,), requirements=frozenset(("agent-runtime",))
        )
    )
    with pytest.raises(UserError, match="'screens' requires a-screen"):
        commands.add_module(CommandModule(name="screens", requirements=frozenset(("a-screen",))))

    assert [spec.name for spec in commands.specs()] == ["agent", "fan-out"]


def test_a_source_that_is_asked_each_time_may_change_its_mind() -> None:
    there = [make("one")]
    commands = Commands(DynamicSource("x", lambda: tuple(there)))

    there.append(make("two"))

    assert commands.find("two") is there[1]


def test_what_no_menu_shows_is_not_listed_and_can_be_found() -> None:
    commands = Commands(FixedSource("x", (make("quiet", user_invocable=False),)))

    assert commands.specs() == ()
    assert [spec.name for spec in commands.specs(hidden=True)] == ["quiet"]
