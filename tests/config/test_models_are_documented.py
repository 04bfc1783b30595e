"""Config models are frozen, say what each field means, and their schemas are generated."""

import ast
import difflib
from pathlib import Path

import pydantic
import pytest

from lora_spec.config import ConfigModel, load_tier
from lora_spec.config.schemas import render_schemas, write_schemas

REPOSITORY = Path(__file__).resolve().parents[2]


def _all_models(cls: type = ConfigModel) -> list[type[ConfigModel]]:
    return [found for child in cls.__subclasses__() for found in (child, *_all_models(child))]


@pytest.mark.parametrize("model", _all_models(), ids=lambda model: model.__name__)
def test_every_field_is_described_and_unknown_keys_are_forbidden(model):
    assert model.model_config["extra"] == "forbid"
    assert model.model_config["frozen"] is True
    undescribed = [name for name, field in model.model_fields.items() if not field.description]
    assert not undescribed


def test_a_loaded_value_cannot_be_changed():
    gate = load_tier(REPOSITORY, "mini").gate
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        gate.dead_band = 0.5


@pytest.mark.parametrize("name", sorted(render_schemas()))
def test_a_committed_schema_is_the_generated_one(name):
    committed = (REPOSITORY / "configs/schemas" / name).read_text().splitlines()
    diff = difflib.unified_diff(committed, render_schemas()[name].splitlines(), "committed", "generated", lineterm="")
    assert not list(diff), "run python tools/write_config_schemas.py"


def test_no_schema_is_left_over_from_a_removed_file():
    assert {path.name for path in (REPOSITORY / "configs/schemas").iterdir()} == set(render_schemas())


def test_writing_schemas_twice_changes_nothing_the_second_time(tmp_path):
    assert len(write_schemas(tmp_path)) == len(render_schemas())
    assert write_schemas(tmp_path) == []


def _imported_packages(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize(("package", "rooms"), [("yaml", {"config"}), ("pydantic", {"config", "typed.py"})])
def test_yaml_and_pydantic_are_imported_where_files_and_flags_are_checked_only(package, rooms):
    source = REPOSITORY / "src/lora_spec"
    users = {p.relative_to(source).parts[0] for p in source.rglob("*.py") if package in _imported_packages(p)}
    assert users == rooms
