import ast
from pathlib import Path

import lora_spec

ROOM = Path(lora_spec.__file__).parent / "policy"


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} imports relatively"
            yield node.module


def test_policy_imports_nothing_else_of_the_library():
    for path in ROOM.rglob("*.py"):
        ours = [name for name in _imported(path) if name.split(".")[0] == "lora_spec"]
        assert all(name.split(".")[1] == "policy" for name in ours), path.name


def test_only_the_scheduler_itself_needs_vllm():
    for path in ROOM.rglob("*.py"):
        others = {name.split(".")[0] for name in _imported(path)} & {"vllm", "torch"}
        assert not others or path.name == "vllm_scheduler.py"
