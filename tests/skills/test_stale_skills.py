"""What was found is looked for again when a file is no longer as it was."""

import os

from tests.skills.ground import Ground, skill


def test_a_skill_that_changed_and_kept_its_size_and_date_is_stale(ground: Ground) -> None:
    file = skill(ground.project / ".claude/skills", "tidy", "Sweep.")
    found = ground.scan()
    before = file.stat()

    assert not found.is_stale()
    file.write_bytes(file.read_bytes().replace(b"Sweep.", b"Steal."))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found.is_stale()
