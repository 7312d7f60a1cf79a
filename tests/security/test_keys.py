"""The keys that settings and stores name: no program gets them, no project's file is filled with them, and nothing written has them."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import anyio
import anyio.abc
import pytest

from backstay import open_session, open_store
from backstay.cli.secrets import find_known_values
from backstay.cli.shared_options import StoreLocation
from backstay.config.layers import collect_keys, read_layers
from backstay.logic.secrets.redact import Redactor
from backstay.mcp.config.files import ServerInputs, read_servers
from backstay.vocab.env_keys import Keys
from backstay.vocab.errors import UserError
from backstay.vocab.events import Renamed, Started
from backstay.vocab.events.instructions import InstructionsRead
from tests.contracts.kit import call, scripted
from tests.secrets.test_erase_names import unpacked

KEY, HEADER, STORE, PLAIN = "house-7Zk3Vt9QwLr7", "extra-XyB2NmHc8PdS", "ab" * 32, "written-out-fGaJe5U1oKiT4"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person whose settings have a profile with a key and a header in variables."""
    config = tmp_path / "config"
    config.mkdir()
    profile = {
        "type": "openai-chat",
        "base_url": "http://127.0.0.1:9922/v1",
        "api_key": "$ENV:COMPANY_LLM_SECRET",
        "headers": {"X-Extra": "$ENV:EXTRA_HDR", "X-User": "$ENV:USER", "X-Plain": PLAIN},
    }
    (config / "settings.json").write_text(json.dumps({"providers": {"house": profile}}))
    (config / "settings.json").chmod(0o600)
    monkeypatch.setenv("BACKSTAY_CONFIG_DIR", str(config))
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COMPANY_LLM_SECRET", KEY)
    monkeypatch.setenv("EXTRA_HDR", HEADER)
    monkeypatch.setenv("MYKEY", STORE)
    monkeypatch.setenv("USER", "adalovelace")
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def test_sec_h2_no_key_of_a_profile_reaches_a_program(house: Path) -> None:
    look = call("Bash", command="while [ ! -e done ]; do sleep 0.05; done; env | sort")
    beside = call("Bash", command="env > seen.txt; touch done", run_in_background=True)
    async with open_session(
        model=scripted(beside, look, "Done."), store=None, cwd=house, permission_mode="bypassPermissions"
    ) as session:
        await session.run("Go.")
        shown = str(session.history)
        with anyio.fail_after(60):
            while not (house / "seen.txt").is_file() or not (house / "seen.txt").read_text().endswith("\n"):
                await anyio.sleep(0.05)
    for text in (shown, (house / "seen.txt").read_text()):
        assert "COMPANY_LLM_SECRET" not in text
        assert "EXTRA_HDR" not in text
        assert "USER=adalovelace" in text  # a header may be made of it; that makes it no key


async def test_sec_h2_the_key_of_a_store_reaches_no_program(house: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlcipher3")
    store = f"sqlite:///{tmp_path}/s.db?key=env:MYKEY"
    model = scripted(call("Bash", command="env | sort"), "Done.")
    async with open_session(model=model, store=store, cwd=house, permission_mode="bypassPermissions") as session:
        await session.run("Go.")
        assert "MYKEY" not in str(session.history)


@pytest.mark.parametrize("usual", [False, True])
async def test_the_key_of_a_store_that_is_in_a_file_is_a_known_value(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: bool
) -> None:
    pytest.importorskip("sqlcipher3.dbapi2")
    (tmp_path / "key").write_text("zebra stripe of the long valley\n")
    (tmp_path / "key").chmod(0o600)
    source, data = f"file:{tmp_path / 'key'}", tmp_path / "data"
    data.mkdir(mode=0o700)
    if usual:
        monkeypatch.setenv("BACKSTAY_STORE_KEY", source)
    url = f"sqlite://{data / 'sessions.db'}{'' if usual else f'?key={source}'}"
    model = scripted(call("Read", file_path=str(tmp_path / "key")), "Read.")

    async with open_session(model=model, store=url, cwd=house, permission_mode="bypassPermissions") as session:
        await session.run("Go.")
        log = repr(await session.events())

    assert "[REDACTED]" in log
    assert "zebra" not in log
    assert "zebra stripe of the long valley" in await find_known_values(StoreLocation(store=None if usual else url))


async def test_sec_h2_no_key_of_a_profile_reaches_a_hook(house: Path, tmp_path: Path) -> None:
    settings = tmp_path / "hooks.json"
    hook = {"matcher": "*", "hooks": [{"type": "command", "command": f"env > {tmp_path}/hook.txt; echo $EXTRA_HDR"}]}
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    async with open_session(model=scripted("Done."), store=None, cwd=house, settings=settings) as session:
        await session.run("Go.")
    seen = (tmp_path / "hook.txt").read_text()
    assert "BACKSTAY_HOOK_EVENT" in seen
    assert KEY not in seen
    assert HEADER not in seen


async def test_a_variable_that_is_sent_in_the_header_of_a_hook_reaches_nothing_else(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARD_LOGIN", "guard-5Tq8ZpWx1Nb")
    heard: list[str] = []

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            said = (await stream.receive()).decode()
            heard.extend(line for line in said.splitlines() if line.lower().startswith("x-guard"))
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    hook = {
        "type": "http",
        "url": f"http://127.0.0.1:{port}/",
        "headers": {"X-Guard": "$GUARD_LOGIN $EXTRA_HDR"},
        "allowedEnvVars": ["GUARD_LOGIN", "EXTRA_HDR"],
    }
    settings = tmp_path / "hooks.json"
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))
    look = call("Bash", command="env; printf %s guard-5Tq8; printf %s ZpWx1Nb")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        async with open_session(
            model=scripted(look, "Done."), store=None, cwd=house, settings=settings, permission_mode="bypassPermissions"
        ) as session:
            await session.run("Go.")
            shown = str(session.history)
        tasks.cancel_scope.cancel()
    assert heard == ["X-Guard: guard-5Tq8ZpWx1Nb"]
    assert "BACKSTAY_RUN" in shown
    assert "guard-5Tq8ZpWx1Nb" not in shown
    assert "GUARD_LOGIN" not in shown


def test_sec_h2_no_key_is_filled_into_a_file_of_a_project(house: Path) -> None:
    server = {"command": "docs", "env": {"A": "${COMPANY_LLM_SECRET:-none}", "B": "${EXTRA_HDR:-none}"}}
    (house / ".mcp.json").write_text(json.dumps({"mcpServers": {"docs": server}}))
    layered = read_layers(house, trust=True)
    keys = collect_keys(layered.settings, layered)
    found = read_servers(ServerInputs(layered=layered, keys=keys))
    assert [dict(spec.env) for spec in found.specs] == [{"A": "none", "B": "none"}]


async def test_sec_h2_the_value_of_a_key_is_written_nowhere(house: Path, tmp_path: Path) -> None:
    """Read from a file, put together by a program, long enough for a blob, said by the model, typed by a person, in a hook's words."""
    (house / "notes.txt").write_text(f"a {KEY} b {HEADER} c {PLAIN}\n")
    settings = tmp_path / "hooks.json"
    hook = {"matcher": "*", "hooks": [{"type": "command", "command": "cat notes.txt"}]}
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    store = f"sqlite://{tmp_path}/store/s.db"
    replies = (
        call("Read", file_path=str(house / "notes.txt")),
        call("Bash", command="cat notes.txt; seq 12000; cat notes.txt"),
        call("Bash", command=f"printf %s {KEY[:9]}; printf %s {KEY[9:]}"),
        f"It says {KEY}.",
    )
    async with open_session(
        model=scripted(*replies),
        store=store,
        cwd=house,
        settings=settings,
        permission_mode="bypassPermissions",
        checkpoints=False,  # what files hold is kept as it is
    ) as session:
        answer = await session.run(f"Is {HEADER} right?")
    assert KEY not in answer
    _nowhere(tmp_path / "store", (KEY, HEADER, PLAIN))


async def test_the_value_of_a_key_is_not_in_what_a_session_begins_with(house: Path, tmp_path: Path) -> None:
    """Its name, its variables, the notes of the folder, the words of the caller, and the name of a tool that the model made up."""
    (house / "AGENTS.md").write_text(f"Use {KEY} always.\n")
    store = f"sqlite://{tmp_path}/store/s.db"
    model = scripted(call(f"Task{KEY}", a=1), "One.", "Two.", "Three.", "Four.")
    open_one = functools.partial(
        open_session, model=model, store=store, cwd=house, append_system_prompt=f"Take {HEADER}."
    )
    async with open_one(session_id="s1", name=f"About {KEY}", variables={"place": HEADER}) as session:
        await session.run("Go.")
        (house / "AGENTS.md").write_text(f"Use {KEY} sometimes.\n")
        await session.run("Go on.")
    async with open_one(session_id="s1", name=f"And {KEY}") as session:
        await session.run("Go on.")
    async with open_one(resume="s1", fork=True, name=f"Fork of {KEY}") as session:
        await session.run("Go on.")
    _nowhere(tmp_path / "store", (KEY, HEADER))
    kept = await open_store(store)
    events = [record.event for record in (await kept.read("s1")).records]
    await kept.close()
    assert [event.name for event in events if isinstance(event, Started | Renamed)] == [
        "About [REDACTED]",
        "And [REDACTED]",
    ]
    assert len([event for event in events if isinstance(event, InstructionsRead)]) == 2, (
        "the second opening was told what the first one was told last"
    )


def _nowhere(folder: Path, secrets: tuple[str, ...]) -> None:
    content = unpacked(folder)
    assert content
    assert [secret for secret in secrets if secret.encode() in content] == []


def test_sec_h2_an_untrusted_workspace_names_no_keys(house: Path) -> None:
    (house / ".backstay").mkdir()
    evil = {"providers": {"x": {"type": "openai", "api_key": "$ENV:JAVA_HOME"}}}
    (house / ".backstay" / "settings.json").write_text(json.dumps(evil))
    untrusted = read_layers(house, trust=False)
    assert collect_keys(untrusted.settings, untrusted).named == {"COMPANY_LLM_SECRET", "EXTRA_HDR", "USER"}
    trusted = read_layers(house, trust=True)
    assert "JAVA_HOME" in collect_keys(trusted.settings, trusted).named


async def _environment_of_a_program(house: Path, *, bare: bool = False) -> str:
    model = scripted(call("Bash", command="env | sort"), "Done.")
    async with open_session(
        model=model, store=None, cwd=house, permission_mode="bypassPermissions", bare=bare
    ) as session:
        await session.run("Go.")
        return str(session.history)


async def test_no_key_comes_back_when_the_settings_break(house: Path, tmp_path: Path) -> None:
    settings = tmp_path / "config" / "settings.json"
    assert "COMPANY_LLM_SECRET" not in await _environment_of_a_program(house)
    settings.write_text(settings.read_text() + ",")
    shown = await _environment_of_a_program(house)
    assert "USER=adalovelace" in shown
    assert not {"COMPANY_LLM_SECRET", "EXTRA_HDR"} & {line.split("=")[0] for line in shown.split("\\n")}
    _nowhere(tmp_path / "data" / "last-good", (KEY, HEADER, PLAIN))


@pytest.mark.parametrize("broken", [False, True])
async def test_no_key_comes_back_when_the_settings_are_left_out(house: Path, tmp_path: Path, broken: bool) -> None:
    settings = tmp_path / "config" / "settings.json"
    if broken:
        await _environment_of_a_program(house)
        settings.write_text(settings.read_text() + ",")
    shown = await _environment_of_a_program(house, bare=True)
    assert "USER=adalovelace" in shown
    assert not {"COMPANY_LLM_SECRET", "EXTRA_HDR"} & {line.split("=")[0] for line in shown.split("\\n")}


def test_what_a_persons_server_is_given_as_a_secret_is_a_key(house: Path, tmp_path: Path) -> None:
    remote = {"type": "http", "url": "https://h/?api_key=${A_LINK}", "headers": {"X-A": "Bearer ${A_HEADER:-none}"}}
    local = {
        "command": "docs",
        "args": ["${A_FOLDER}"],
        "env": {"API_TOKEN": "${A_NAME}", "B": "${C_SECRET}", "C": "${D}"},
    }
    said = json.dumps({"mcpServers": {"remote": remote, "local": local}})
    (tmp_path / "config" / "settings.json").write_text(said)
    layered = read_layers(house, trust=True)
    assert collect_keys(layered.settings, layered).named == {"A_HEADER", "A_NAME", "C_SECRET"}
    (tmp_path / "config" / "settings.json").write_text("{}")
    (house / ".backstay").mkdir()
    (house / ".backstay" / "settings.json").write_text(said)
    layered = read_layers(house, trust=True)
    assert collect_keys(layered.settings, layered).named == frozenset()


@pytest.mark.parametrize("written", [quote, quote_plus, functools.partial(quote, safe=""), json.dumps])
def test_a_key_is_recognised_however_an_address_or_json_writes_it(written: Callable[[str], str]) -> None:
    key = "kQ7/corp+Xy 12abZ9=="
    assert Redactor(exact=(key,)).mask_known(f"at {written(key)} it") in ("at [REDACTED] it", 'at "[REDACTED]" it')


def test_keys_are_not_shown_and_where_one_is_kept_is_none() -> None:
    keys = Keys(frozenset(("HOUSE",)), ("plain-text-key",))
    environment = {"HOUSE": "value-of-house", "BACKSTAY_STORE_KEY": "keyring", "PATH": "/bin"}
    assert "plain-text-key" not in repr(keys)
    assert keys.values(environment) == ("value-of-house", "plain-text-key")
    assert keys.without(environment) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", ["DATABASE_URL", "STRIPE_SK", "GITLAB_PAT", "SENTRY_DSN", "DB_PASS"])
async def test_sec_l4_a_variable_that_is_called_a_secret_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        async with open_session(model=scripted("Hm."), store=None, variables={name: "value"}):
            pass
