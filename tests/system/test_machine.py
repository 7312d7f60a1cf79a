"""What is known of this machine is found out again where the first look failed."""

import subprocess
import sys
from pathlib import Path

import pytest

from backstay.system.machine import boot_id

PROGRAM = """
import resource
from backstay.tools.shell.processes import boot_id
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
first = boot_id()
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
print([first, boot_id()])
"""


@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="only Linux says it")
def test_a_look_without_a_file_handle_is_not_the_last_one() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == str(["", boot_id()])
