"""No text from a config or from a path reaches a shell, or a wildcard's pattern, unquoted."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SAFE = {"{threads}", "{wildcards.run}", "{wildcards.adapter}"}


def _shell_fields(text: str) -> list[str]:
    """Return every field of every shell block; names of runs and adapters are letters, digits and ._- alone."""
    blocks = re.findall(r"^    shell:\n((?:        .*\n)+)", text, re.M)
    return [field for block in blocks for field in re.findall(r"\{[^{}]*\}", block)]


def test_every_field_of_a_shell_command_is_quoted():
    fields = [field for path in (ROOT / "rules").glob("*.smk") for field in _shell_fields(path.read_text())]
    assert len(fields) > 60
    assert not [field for field in fields if field not in _SAFE and not field.endswith(":q}")]


@pytest.mark.workflow
def test_the_workflow_is_refused_outside_its_root_in_one_line(snakemake, checkout, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = snakemake("--dry-run", "--directory", str(elsewhere))
    assert done.returncode != 0
    assert f"run it there: cd {checkout}" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.workflow
def test_a_command_is_printed_with_its_words_whole(snakemake, checkout):
    done = snakemake("--dry-run", "--printshellcmds")
    assert done.returncode == 0, done.stderr
    commands = done.stdout + done.stderr
    assert "--sha256 e514875eceb0a1862df00d57821dbce0bbd074ef84ba1fb25de8164eed3a09de --tier mini" in commands
    assert "--adapters self_chat=reference/mini/adapters/self_chat numbered_list=" in commands
    assert "[" not in re.search(r"--names (.*?) --target", commands)[1]
