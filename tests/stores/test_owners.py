"""Who holds a session, and whether it lives: what cannot be seen is not dead."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from backstay.stores.owners import is_dead, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")

WITHOUT_HANDLES = """
import resource
from backstay.stores.owners import is_dead, this_process
known = this_process("known")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(open("/dev/null"))
except OSError:
    pass
print(is_dead(known), is_dead(this_process("made without handles")))
"""


def ended() -> int:
    """The id of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


def test_a_process_lives_until_it_is_gone_or_its_id_is_another_ones() -> None:
    me = this_process()
    assert not is_dead(me)
    assert is_dead(replace(me, pid=ended()))
    assert is_dead(replace(me, started=me.started + 1))
    assert is_dead(replace(me, boot="another"))
    assert not is_dead(replace(me, pid=ended(), host="elsewhere"))


def test_an_owner_is_not_dead_because_no_file_handle_is_left_to_look() -> None:
    with subprocess.Popen([sys.executable, "-c", WITHOUT_HANDLES], stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0].split() == ["False", "False"]


def test_an_owner_behind_another_namespace_of_process_ids_is_not_dead_for_want_of_its_id_here() -> None:
    gone = replace(this_process(), pid=ended())
    assert not is_dead(replace(gone, namespace=gone.namespace + 1))
    assert is_dead(replace(gone, namespace=0))  # written before namespaces were


def test_an_owner_of_a_program_whose_name_is_no_text_can_be_written_down() -> None:
    script = (
        "import msgspec; from backstay.stores.owners import this_process; print(msgspec.json.encode(this_process()))"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "caf\udce9.py")
        path.write_text(script, encoding="utf-8")
        done = subprocess.run([sys.executable, path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"caf?.py" in done.stdout
