"""Files to read, and what is said of them."""

from __future__ import annotations

import pytest

import tessella as ts
from tessella.modelfiles.read_model import read_limited
from tessella.modelfiles.toml_document import ReadLimits


@pytest.fixture
def file(tmp_path):
    """Writes a model file and gives its path."""

    def written(text: str, name: str = "model.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, newline="")
        return path

    return written


@pytest.fixture
def mistakes():
    """What is wrong with a file: lines without its name."""

    def said_of(path, **limits) -> list[str]:
        with pytest.raises(ts.ModelFileError) as found:
            read_limited(path, {}, ReadLimits(**limits))
        said = str(found.value).splitlines()
        if found.value.more:
            assert said.pop() == f"and {found.value.more} more"
        assert said == [str(mistake) for mistake in found.value.mistakes]
        return [line.removeprefix(f"{path}:") for line in said]

    return said_of
