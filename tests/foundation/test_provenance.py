"""Digests change with what they cover and with nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from lora_spec import provenance
from lora_spec.code_files import code_files
from lora_spec.provenance import code_digest, collect_provenance, runtime_metadata, sha256_of_json

ROOT = Path(__file__).parents[2]


def _names(script: str) -> set[str]:
    root = Path(provenance.__file__).parent
    return {
        path.relative_to(root).as_posix() for path in code_files(ROOT / "scripts" / script) if path.is_relative_to(root)
    }


def test_json_digest_ignores_key_order_only():
    assert sha256_of_json({"a": 1, "b": 2}) == sha256_of_json({"b": 2, "a": 1})
    assert sha256_of_json({"a": [1, 2]}) != sha256_of_json({"a": [2, 1]})


def test_code_behind_a_script_includes_what_it_imports_indirectly():
    names = _names("fit_cost_model.py")
    assert {"cost_model/fitting.py", "records.py", "errors.py", "results.py"} <= names


def test_code_behind_a_script_includes_registries_by_name():
    assert "engines/vllm_offline.py" in _names("profile_cost.py")
    assert "predictors/elastic_net.py" in _names("phase3_predictor.py")


def test_code_behind_a_script_leaves_other_rooms_out():
    names = _names("extract_features.py")
    assert not {name for name in names if name.startswith(("gate/", "engines/", "training/", "plots/"))}


def test_code_digest_follows_the_script(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("import lora_spec.errors\n")
    first = code_digest(script)
    script.write_text("import lora_spec.errors  # changed\n")
    assert code_digest(script) != first


def test_provenance_says_how_a_result_was_made():
    made = collect_provenance(config={"k": 3}, seed=7)
    assert made["config"] == {"k": 3}
    assert made["seed"] == 7
    assert made["config_sha256"] == sha256_of_json({"k": 3})
    assert {"python", "cpu_model", "num_cpus", "num_threads", "gpus", "versions"} <= set(made["runtime"])
    assert made["timestamp"].endswith("+00:00")


def test_collecting_provenance_imports_neither_torch_nor_vllm():
    program = (
        "import sys; from lora_spec.provenance import collect_provenance; collect_provenance(config={}, seed=None); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'vllm')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("text", "recorded"), [("4", 4), ("4,2", "4,2"), ("", "")])
def test_number_of_threads_is_recorded_as_given(monkeypatch, text, recorded):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert runtime_metadata()["num_threads"] == recorded
