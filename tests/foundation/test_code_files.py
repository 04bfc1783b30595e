"""A script needs what it can run: imported anywhere, spelt in a string, handed on by a shelf; and nothing else."""

from pathlib import Path

import pytest

from lora_spec import code_files as room
from lora_spec.errors import ConfigError

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
    "near/__init__.py": "from .side import side_by_side\nfrom . import other\nfrom .other import hidden\n",
    "near/side.py": "from ..errors import Wrong\nfrom .. import typed\nside_by_side = 1\n",
    "near/other.py": "def hidden(): ...\n",
    "near/hidden.py": "",
    "star/__init__.py": "from pkg.shelf.one import *\nfrom pkg.worker.b import B\n",
    "bare/module.py": "from pkg.errors import Wrong\n",
    "bom.py": "\ufefffrom pkg.errors import Wrong\n",
    "round/a.py": "import pkg.round.b\n",
    "round/b.py": "from .a import x\n",
    "unused.py": "not Python at all\n",
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
        ("from pkg.near.side import side_by_side\n", {"near/side.py", "errors.py", "typed.py"}),
        ("from pkg.near import side_by_side\n", {"near/side.py", "errors.py", "typed.py"}),
        ("from pkg.near import other\n", {"near/other.py"}),
        ("from pkg.near import hidden\n", {"near/hidden.py", "near/other.py"}),
        ("from pkg.star import *\n",
         {"star/__init__.py", "shelf/one.py", "worker/__init__.py", "worker/a.py", "worker/b.py"}),
        ("from pkg.bare.module import x\n", {"bare/module.py", "errors.py"}),
        ("from pkg.bare import module\n", {"bare/module.py", "errors.py"}),
        ("import pkg.bom as b\n", {"bom.py", "errors.py"}),
        ("import pkg.round.a\n", {"round/a.py", "round/b.py"}),
        ('"""pkg.errors is named in a sentence."""\n', set()),
    ],
)  # fmt: skip
def test_the_files_that_a_script_needs(needed, text, files):
    assert needed(text) == files


def test_a_file_that_is_not_python_is_told_by_its_name_where_it_is_needed(needed):
    with pytest.raises(ConfigError, match=r"unused\.py: not Python"):
        needed("import pkg.unused\n")


def test_what_no_import_can_mean_is_not_read(needed, tmp_path):
    """An editor's lock is a link to nowhere beside the file that is being changed."""
    (tmp_path / "pkg/.#errors.py").symlink_to("somebody@somewhere.1234")
    (tmp_path / "pkg/old copy.py").write_text("not Python at all")
    assert needed("from pkg.errors import Wrong\n") == {"errors.py"}


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
