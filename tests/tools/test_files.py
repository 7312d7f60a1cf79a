"""Files as the file tools see them."""

import os
from pathlib import Path

import pytest

from holdfast.tools.files import Refused, replace_content


def test_a_file_that_somebody_else_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("seen")
    seen = path.stat()
    path.write_text("changed meanwhile")

    with pytest.raises(Refused, match="changed by somebody else"):
        replace_content(path, b"mine", expected=seen)

    assert path.read_text() == "changed meanwhile"
    assert os.listdir(tmp_path) == ["a"]
