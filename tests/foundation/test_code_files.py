"""A script needs what it can run: imported anywhere, spelt in a string, handed on by a shelf; and nothing else."""

from pathlib import Path

import pytest

from lora_spec import code_files as room

FILES = {
    "__init__.py": '"""The package."""\n\n__version__ = "1"\n',
    "errors.py": "class Wrong(Exception): ...\n",
    "shelf/__init__.py": '"""A shelf."""\n\nfrom pkg.shelf.one import One\nfrom pkg.shelf.two import Two as Second\n\n'
    '__all__ = ["One", "Second"]\n',
    "shelf/one.py": "class One: ...\n",
    "shelf/two.py": "from pkg.errors import Wrong\nclass Two: ...\n",
    "shelf/late.py": "def run():\n    from pkg.errors import Wrong\n",
    "worker/__init__.py": "from pkg.worker.a import A\nKINDS = {A.name: A}\n",
    "worker/a.py": "class A:\n    name = 'a'\n",
    "worker/b.py": "B = 1\n",
    "registry.py": 'MAKERS = {"one": "pkg.shelf.one:One", "class": "pkg.worker.b.B"}\n',
    "spelt.py": 'def name(late):\n    return "pkg.shelf." + ("late" if late else "one")\n',
    "typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.errors import Wrong\n",
    "outer.py": "from pkg.shelf import Second\n",
}


@pytest.fixture
def needed(tmp_path, monkeypatch):
    """Return a function: text of a script to the files of the package that it needs."""
    package = tmp_path / "pkg"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(room, "_ROOT", package)

    def of(text: str) -> set[str]:
        script = tmp_path / "script.py"
        script.write_text(text)
        files = set(room.code_files(script)) - {script.resolve()}
        return {path.relative_to(package).as_posix() for path in files}

    return of


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("import os\nfrom json import dumps\n", set()),
        ("from pkg.shelf import One\n", {"shelf/one.py"}),
        ("from pkg.shelf.one import One\n", {"shelf/one.py"}),
        ("from pkg.shelf import one\n", {"shelf/one.py"}),
        ("from pkg.shelf import Second\n", {"shelf/two.py", "errors.py"}),
        ("import pkg.shelf\n", {"shelf/__init__.py", "shelf/one.py", "shelf/two.py", "errors.py"}),
        ("from pkg.shelf.late import run\n", {"shelf/late.py", "errors.py"}),
        ("from pkg.worker.b import B\n", {"worker/__init__.py", "worker/a.py", "worker/b.py"}),
        ("from pkg.registry import MAKERS\n",
         {"registry.py", "shelf/one.py", "worker/__init__.py", "worker/a.py", "worker/b.py"}),
        ("from pkg.spelt import name\n",
         {"spelt.py", "shelf/__init__.py", "shelf/one.py", "shelf/two.py", "errors.py"}),
        ("from pkg.typed import x\n", {"typed.py"}),
        ("from pkg.outer import Second\n", {"outer.py", "shelf/two.py", "errors.py"}),
        ("from pkg import __version__\n", {"__init__.py"}),
        ("def f():\n    if x:\n        import pkg.errors\n", {"errors.py"}),
        ('"""pkg.errors is named in a sentence."""\n', set()),
    ],
)  # fmt: skip
def test_the_files_that_a_script_needs(needed, text, files):
    assert needed(text) == files


@pytest.mark.parametrize(
    ("script", "rooms"),
    [
        ("fit_cost_model.py", {"engines", "policy", "training", "features", "gate", "plots", "stress"}),
        ("plot_figure.py", {"engines", "policy", "training", "measurement", "predictors", "stress"}),
        ("estimate_acceptance.py", {"engines", "policy", "gate", "plots", "predictors", "stress", "cost_model"}),
        ("phase3_predictor.py", {"engines", "policy", "gate", "stress", "cost_model", "training"}),
        ("train_adapter.py", {"engines", "policy", "measurement", "gate", "plots", "stress", "predictors"}),
        ("freeze_prompts.py", {"engines", "policy", "measurement", "gate", "plots", "stress", "predictors", "adapter"}),
        ("phase1_collect.py", {"gate", "plots", "stress", "predictors", "cost_model"}),
    ],
)
def test_a_script_does_not_need_rooms_that_have_no_part_in_it(script, rooms):
    root = Path(room.__file__).parent
    files = room.code_files(root.parents[1] / "scripts" / script)
    found = {path.relative_to(root).parts[0] for path in files if path.is_relative_to(root)}
    assert not found & rooms
