"""What a tool runs does not get the keys of model providers."""

import pytest

from backstay.providers.registry import PROVIDERS, key_variable
from backstay.vocab.env_keys import KEY_VARIABLES, PREFIX, without_keys
from tests.contracts.kit import call, talk


def test_every_provider_of_the_table_is_known_here() -> None:
    others = {"BRAVE_API_KEY", "TAVILY_API_KEY", "BACKSTAY_STORE_KEY"}
    assert {variable for provider in PROVIDERS.values() for variable in provider.keys} == KEY_VARIABLES - others
    assert key_variable("https://llm.example.org").startswith(PREFIX)


def test_other_variables_stay() -> None:
    environment = {"PATH": "/bin", "OPENAI_API_KEY": "k", "BACKSTAY_API_KEY_HOST": "k", "GITHUB_TOKEN": "t"}
    assert without_keys(environment) == {"PATH": "/bin", "GITHUB_TOKEN": "t"}


@pytest.mark.contract("RV-33")
async def test_a_command_cannot_print_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key-itself")
    command = call("Bash", command='echo "[$ANTHROPIC_API_KEY]"')
    async with talk(command, "ok", only_tools=False, permission_mode="bypassPermissions") as session:
        await session.run("go")
        shown = str(session.history)
        assert "[]" in shown
        assert "the-key-itself" not in shown
