"""What is built and installed works as the hints say. All of it needs a package index: `make test-wheel`."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from backstay.version import VERSION

ROOT = Path(__file__).parents[2]
NEEDS = {
    "mcp": "from backstay.mcp.config.start import session_servers\nfrom backstay.mcp.spec import ServerSpec\n"
    "import anyio\n"
    "async def main():\n"
    "    async with session_servers([ServerSpec(name='a', kind='stdio', argv=('false',))], cwd='.', data=None) as found:\n"
    "        print(found.status['a'].why)\n"
    "anyio.run(main)",
    "keyring": "from backstay.config.secret import Secret\nSecret('$KEYRING:nobody/here', name='it').reveal()",
    "sqlcipher": "from backstay.stores.sqlite.cipher import Cipher, StoreKey\nCipher(lambda: StoreKey('env:K', 'key'))",
    "local": "from backstay.providers.local.engine import require_engine\nrequire_engine()",
}
"""What needs the package of an extra. It prints the hint, or raises with it, when that is not there."""
HINT = re.compile(r"Type: (.*?pip install .*?)(?= && backstay|$)", re.MULTILINE)

whole = pytest.mark.skipif(
    not os.environ.get("BACKSTAY_INDEX"), reason="it installs packages from an index: make test-wheel does that"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(ROOT))
    (found,) = folder.glob("backstay-*.whl")
    return found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where no package index can be reached."""
    asked = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "-d", str(tmp_path_factory.mktemp("asked"))]
    if subprocess.run(
        [*asked, "--timeout", "5", "--retries", "0", "click"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no package index can be reached")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """The interpreter of an empty environment, with pip."""
    venv.create(tmp_path / "env", with_pip=True)
    yield tmp_path / "env/bin/python"
    shutil.rmtree(tmp_path / "env")


def run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed, outside of the checkout, and return what it says."""
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd or "/", env={**os.environ, **(env or {})}
    )
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def pip(*arguments: str, python: str | Path = sys.executable) -> None:
    run(str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "-qq", *arguments)


def hints(python: Path, extra: str) -> list[str]:
    """The commands that are named when what an extra brings is needed."""
    ran = subprocess.run(
        [str(python), "-c", NEEDS[extra]], capture_output=True, text=True, check=False, cwd=python.parent
    )
    return HINT.findall(ran.stdout + ran.stderr)


def test_the_wheel_runs_and_knows_its_commit(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env")
    (site,) = tmp_path.glob("env/lib/python*/site-packages")
    pip("--python", str(tmp_path / "env"), "install", "--no-deps", "--no-index", str(wheel))
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(
        f"{ours}\n", encoding="utf-8"
    )  # what it depends on, and not the checkout itself
    command = str(tmp_path / "env/bin/backstay")

    said = run(command, "--version")
    where = run(str(tmp_path / "env/bin/python"), "-c", "import backstay; print(backstay.__file__)")

    assert where.startswith(str(tmp_path))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert said == (f"backstay {VERSION} ({commit[:12]})\n" if commit else f"backstay {VERSION}\n")
    assert "Skill" in run(command, "skills", "--help", env={"BACKSTAY_DATA_DIR": str(tmp_path / "data")}).title()


def test_a_checkout_knows_its_commit_however_git_keeps_it(tmp_path: Path) -> None:
    checkout, worktree = tmp_path / "checkout", tmp_path / "worktree"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", checkout / "src", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    assert version_in(checkout) == f"backstay {VERSION}\n"

    git = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for step in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        run(*git, *step)
    expected = f"backstay {VERSION} ({run(*git, 'rev-parse', 'HEAD')[:12]})\n"

    assert version_in(checkout) == expected
    run(*git, "pack-refs", "--all")
    assert version_in(checkout) == expected
    run(*git, "worktree", "add", "-q", "-b", "side", str(worktree))
    assert version_in(worktree) == expected
    run(*git, "checkout", "-q", "--detach")
    assert version_in(checkout) == expected


def version_in(checkout: Path) -> str:
    environment = {"PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return run(sys.executable, "-m", "backstay", "--version", env=environment)


def test_the_version_is_said_once_for_all() -> None:
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@whole
@pytest.mark.timeout(600)
@pytest.mark.parametrize("extra", [*NEEDS, "all"])
def test_the_wheel_brings_what_its_extras_name(wheel: Path, index: None, program: Path, extra: str) -> None:
    pip("install", f"{wheel}[{extra}]", python=program)

    for each in (extra,) if extra != "all" else ("mcp", "keyring", "sqlcipher"):
        assert hints(program, each) == []
    assert run(str(program.parent / "backstay"), "--version").startswith(f"backstay {VERSION}")


@whole
@pytest.mark.timeout(600)
def test_what_a_wheel_hints_at_works(wheel: Path, index: None, program: Path) -> None:
    pip("install", str(wheel), python=program)

    for extra in NEEDS:
        (hint, *_) = hints(program, extra)
        assert hint == f"{program} -m pip install 'backstay[{extra}]'"
        run("sh", "-c", f"{hint} -qq --disable-pip-version-check")
        assert hints(program, extra) == []
    assert run(str(program.parent / "backstay"), "--version").startswith(f"backstay {VERSION}")  # still ours


@whole
@pytest.mark.timeout(600)
def test_what_a_checkout_hints_at_works(index: None, program: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    shutil.copytree(ROOT / "src", checkout / "src")
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    pip("install", "-e", str(checkout), python=program)

    for extra in ("mcp", "sqlcipher"):
        (hint, *_) = hints(program, extra)
        assert hint == f"{program} -m pip install -e '{checkout}[{extra}]'"
        run("sh", "-c", f"{hint} -qq --disable-pip-version-check")
        assert hints(program, extra) == []
