"""The profile that is shipped is the one that its tier's config describes, and fits the adapters that are shipped."""

from pathlib import Path

import pytest

from lora_spec.adapter import inspect_adapter
from lora_spec.config import load_tier
from lora_spec.features import read_base_profile

ROOT = Path(__file__).parents[2]
PATH = ROOT / "reference" / "cpu" / "base_profile.safetensors"
TIER = load_tier(ROOT, "cpu")


def test_it_was_recorded_as_the_config_says_on_the_fit_prompts_alone():
    header = read_base_profile(PATH).header
    assert header["settings"] == TIER.models.base_profile.to_dict()
    pair = TIER.models.primary
    assert (header["target"]["name"], header["drafter"]["name"]) == (pair.target.name, pair.drafter.name)
    assert sorted(header["prompts_sha256"]) == sorted(TIER.prompts.find("common", "fit").sha256.values())
    assert header["tier"] == "cpu"
    assert not header["provenance"]["is_git_dirty"]


def test_it_is_small_enough_to_be_kept_in_the_repository():
    assert PATH.stat().st_size < 20_000_000


def test_moments_are_those_of_every_module_and_never_more_than_their_trace():
    profile = read_base_profile(PATH)
    assert len(profile.modules) == 7 * profile.header["num_layers"]
    for module in profile.modules.values():
        assert 0 < module.energies.sum() <= module.entry["input_energy"] * (1 + 1e-5)
        assert (module.energies[:-1] >= module.energies[1:]).all()


@pytest.mark.parametrize("folder", sorted((ROOT / "reference/cpu/adapters").iterdir()), ids=lambda path: path.name)
def test_it_fits_every_shipped_adapter(folder):
    read_base_profile(PATH).refuse_misfit(inspect_adapter(folder, header_only=True))
