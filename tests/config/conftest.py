"""A repository root with a copy of the configs, and a way to change one key of one file."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(REPOSITORY / "configs", tmp_path / "configs")
    return tmp_path


@pytest.fixture
def edit(root: Path) -> Callable[..., Path]:
    """Return a function that applies a change to the parsed data of a config file and writes it back."""

    def apply(name: str, change: Callable[[dict], object], *, tier: str = "mini") -> Path:
        path = root / "configs" / tier / f"{name}.yaml"
        data = yaml.safe_load(path.read_text())
        change(data)
        path.write_text(yaml.safe_dump(data))
        return path

    return apply
