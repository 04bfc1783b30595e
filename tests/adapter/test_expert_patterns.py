"""Stacks of experts: which pattern applies to which wrapper, as PEFT's ParamWrapper is given its rank and alpha."""

import build_adapter_cases as kit
import numpy as np
import pytest

from lora_spec.adapter import inspect_adapter

X = "model.layers.0.mlp.experts"
RANK, EXPERTS = 2, 3


def stack(folder, num_wrappers, parameters, *, rank=RANK, **config):
    """Write nested wrappers, the innermost first, and return the inspection."""
    folder.mkdir()
    names = [X + ".base_layer" * depth for depth in reversed(range(num_wrappers))]
    modules = {
        name: kit.factors(np.random.default_rng(seed), 16, 16, rank * EXPERTS) for seed, name in enumerate(names)
    }
    settings = {"r": RANK, "lora_alpha": 8, "target_modules": [], **config}
    kit.write_adapter(folder, kit.name_tensors(modules), kit.settings(target_parameters=parameters, **settings))
    return inspect_adapter(folder)


def scales(inspection):
    """Return the scale of each wrapper, the innermost first."""
    found = {module.name.rpartition("[")[0]: module.scale for module in inspection.modules}
    return [found[name] for name in sorted(found, key=len, reverse=True)]


PAIR = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("experts.gate_up_proj", [16, 4]),
        ("experts.down_proj", [4, 16]),
        (r"mlp\.experts\.down_proj", [4, 16]),
        (r"experts\..*", [16, 16]),
        (".*", [16, 16]),
        # PEFT holds a pattern against the full name of the parameter, never of the module, at any depth.
        (r"mlp\.experts", [4, 4]),
        ("experts.base_layer", [4, 4]),
    ],
)
def test_a_pattern_is_held_against_the_name_of_the_parameter(tmp_path, pattern, wanted):
    inspection = stack(tmp_path / "a", 2, PAIR, alpha_pattern={pattern: 32})
    assert (inspection.status, scales(inspection)) == ("ok", wanted)
    applies = wanted != [4, 4]
    assert ("N_RUNTIME_SCALE_DIFFERS" in inspection.codes) == applies
    assert ("N_PATTERN_UNMATCHED" in inspection.codes) != applies


def test_the_order_of_the_config_does_not_change_the_nesting(tmp_path):
    inspection = stack(tmp_path / "a", 2, PAIR[::-1], alpha_pattern={"experts.gate_up_proj": 32})
    assert (inspection.status, scales(inspection)) == ("ok", [16, 4])


@pytest.mark.parametrize("table", [{"alpha_pattern": {"experts.w1": 32}}, {"rank_pattern": {"experts.w1": RANK * 3}}])
def test_a_pattern_that_tells_parameters_of_unknown_nesting_apart_abstains(tmp_path, table):
    inspection = stack(tmp_path / "a", 2, ["mlp.experts.w1", "mlp.experts.w2"], **table)
    assert "A_UNKNOWN_FIELD" in inspection.codes
    assert X in inspection.message


@pytest.mark.parametrize("listed", [["mlp.experts.w1", "mlp.experts.w2"], ["mlp.experts.w2", "mlp.experts.w1"]])
def test_a_rank_of_unknown_nesting_is_no_error_if_one_choice_fits_the_tensors(tmp_path, listed):
    inspection = stack(tmp_path / "a", 2, listed, rank_pattern={"experts.w1": 4})
    assert (inspection.status, inspection.codes[0]) == ("abstain", "A_UNKNOWN_FIELD")


@pytest.mark.parametrize("pattern", [".*", r"experts\.w\d", r"experts\.(w1|w2)"])
def test_a_pattern_for_all_parameters_applies_whatever_the_nesting(tmp_path, pattern):
    inspection = stack(tmp_path / "a", 2, ["mlp.experts.w1", "mlp.experts.w2"], alpha_pattern={pattern: 32})
    assert (inspection.status, scales(inspection)) == ("ok", [16, 16])


def test_a_single_parameter_of_any_name_is_known(tmp_path):
    inspection = stack(tmp_path / "a", 1, ["experts.w1"], alpha_pattern={"experts.w1": 32})
    assert (inspection.status, scales(inspection)) == ("ok", [16])


def test_three_parameters_nest_twice(tmp_path):
    parameters = [f"mlp.experts.{name}" for name in ("gate_proj", "up_proj", "down_proj")]
    inspection = stack(tmp_path / "a", 3, parameters)
    assert (inspection.status, inspection.codes) == ("ok", ())
    assert len(inspection.modules) == 3 * EXPERTS
    assert {module.type for module in inspection.modules} == {"experts"}


@pytest.mark.parametrize("alpha_pattern", [{}, {"down_proj": 32}])
def test_a_parameter_without_its_module_is_found_in_experts(tmp_path, alpha_pattern):
    inspection = stack(tmp_path / "a", 2, ["gate_up_proj", "down_proj"], alpha_pattern=alpha_pattern)
    assert (inspection.status, scales(inspection)) == ("ok", [4, 16 if alpha_pattern else 4])
