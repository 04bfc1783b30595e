"""A short run of the fuzz harness; the long one is ``python tests/adapter/fuzz_reader.py --count 100000``."""

import fuzz_reader
import pytest
from adapter_cases import plain, values

# Tensor names that once broke the reader, as the fuzz run found them.
NAMES_THAT_BROKE_IT = ("weight", "base_model.model", "", "module", "_orig_mod", "base_model.model._orig_mod")
PATTERN_THAT_WARNED = "[[a-z]q_proj"


@pytest.mark.parametrize("name", NAMES_THAT_BROKE_IT)
def test_names_without_a_module_are_unknown_tensors(name, tmp_path):
    folder = plain(tmp_path / "a", tensors={name: values(4)})
    assert fuzz_reader.check_answer(folder) == "abstain"


def test_a_doubtful_class_in_a_pattern_prints_no_warning(tmp_path):
    assert fuzz_reader.check_answer(plain(tmp_path / "a", rank_pattern={PATTERN_THAT_WARNED: 4})) == "ok"


def test_the_reader_answers_every_damaged_folder_by_the_contract():
    statuses = fuzz_reader.run(400, seed=20261129)
    assert min(statuses[status] for status in ("ok", "abstain", "error")) > 5


def test_a_number_draws_the_same_input_again(tmp_path):
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        folder.mkdir()
        fuzz_reader.write_input(7, 0, folder)
    assert [path.read_bytes() for path in sorted(first.iterdir())] == [
        path.read_bytes() for path in sorted(second.iterdir())
    ]
