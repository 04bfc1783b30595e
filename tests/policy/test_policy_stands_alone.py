import ast
from pathlib import Path

import lora_spec

ROOM = Path(lora_spec.__file__).parent / "policy"


def test_policy_imports_nothing_else_of_the_library():
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "lora_spec" or getattr(node, "level", 0)]
