"""Every script can be imported as far as its flags, in the environment of its rule."""

import ast
import importlib.util
import subprocess
import sys
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


def test_features_are_read_from_the_weights_of_the_row_only(tmp_path):
    root, output = Path(__file__).parents[2], tmp_path / "sql.json"
    command = [sys.executable, "scripts/extract_features.py", "--adapter", "reference/mini/adapters/sql"]
    command += ["--name", "sql", "--sha256", "0" * 64, "--tier", "mini", "--output", str(output)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "row 'sql': sha256 is 0000" in done.stderr
    assert not output.exists()
