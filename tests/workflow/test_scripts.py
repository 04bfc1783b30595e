"""Every script can be imported as far as its flags, in the environment of its rule."""

import ast
import importlib.util
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts").glob("*.py"))


def _imported(path):
    """Yield (module, name) for everything that a script takes from the library."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lora_spec"):
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_library_names_that_a_script_imports_exist(path):
    for module, name in _imported(path):
        spec = importlib.util.find_spec(module)
        assert spec is not None, module
        is_module = (
            importlib.util.find_spec(f"{module}.{name}") is not None if spec.submodule_search_locations else False
        )
        assert is_module or name in Path(spec.origin).read_text(), (module, name)
