"""Settings that every test shares."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.needs import is_skipped_for_want, missing_programs

# Where a machine forbids bytecode, every process that a test starts would compile the whole library again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    """Fail at once where everything that tests need must be there, and is not."""
    if os.environ.get("BACKSTAY_NEEDS") == "all" and (missing := missing_programs()):
        raise pytest.UsageError(f"Tests need {', '.join(missing)}. Install them, or unset BACKSTAY_NEEDS.")


def pytest_report_header() -> str:
    """Say first what is missing."""
    missing = missing_programs()
    return f"missing: {', '.join(missing)}; the tests that need them are skipped" if missing else "missing: nothing"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say last how many tests that cost."""
    if missing := missing_programs():
        skipped = sum(is_skipped_for_want(str(each.longrepr)) for each in terminalreporter.stats.get("skipped", ()))
        terminalreporter.write_line(f"{skipped} tests were skipped for want of {', '.join(missing)}")


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
