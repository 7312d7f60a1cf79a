"""Settings that every test shares."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Where a machine forbids bytecode, every process that a test starts would compile the whole library again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio, the backend that the terminal and the server use."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def nobodys_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no test see the settings or the keys of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKSTAY_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        for name in [name for name in os.environ if name.endswith("_API_KEY")]:
            patch.delenv(name)
        yield
