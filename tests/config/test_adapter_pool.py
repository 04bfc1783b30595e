"""Rows that no measurement could use are refused before anything is trained."""

import pytest
import yaml

from lora_spec.config import read_config
from lora_spec.config.adapter_pool import AdapterPoolConfig
from lora_spec.errors import ConfigError

COMMON = {"domain": "sql", "license": "CC0-1.0"}
TRAINED = COMMON | {"name": "a", "stratum": "moderate", "source": "trained", "rank": 4, "alpha": 8.0}
TRAINED |= {"use_rslora": False, "target_modules": ["q_proj", "v_proj"], "learning_rate": 0.002}
TRAINED |= {"num_steps": 3, "batch_size": 4, "seed": 1}
COPY = COMMON | {"name": "b", "stratum": "control", "parent": "a"}
SCALED, RANDOM = COPY | {"source": "scaled", "scale": 2.0}, COPY | {"source": "random", "seed": 2}
HUB = COMMON | {"name": "h", "stratum": "moderate", "source": "hub", "repo": "owner/name", "revision": "0" * 40}
SHIPPED = TRAINED | {"source": "shipped", "path": "x/a", "sha256": "0" * 64}


@pytest.fixture
def read(tmp_path):
    def _read(*rows):
        (tmp_path / "pool.yaml").write_text(yaml.safe_dump({"adapters": list(rows)}))
        return read_config(tmp_path / "pool.yaml", AdapterPoolConfig)

    return _read


@pytest.mark.parametrize(
    "rows",
    [
        (TRAINED, TRAINED | {"name": "b"}),
        (TRAINED, TRAINED | {"name": "b", "target_modules": ["v_proj", "q_proj"]}),
        (TRAINED, TRAINED | {"name": "b", "source": "shipped", "path": "x/b"}),
        (SHIPPED, SHIPPED | {"name": "b", "path": "x/b", "seed": 9}),
        (TRAINED, SCALED, SCALED | {"name": "c"}),
        (TRAINED, SCALED | {"scale": 1.0}),
        (SCALED | {"scale": 1.0}, TRAINED),
        (TRAINED, RANDOM, RANDOM | {"name": "c"}),
        (HUB, HUB | {"name": "c"}),
        (HUB | {"revision": None}, HUB | {"name": "c", "revision": None, "stratum": "benign"}),
    ],
)
def test_two_rows_of_the_same_weights_are_refused(read, rows):
    with pytest.raises(ConfigError, match="would have the same weights as"):
        read(*rows)


def test_rows_that_differ_in_a_seed_a_size_or_a_commit_stand_beside_each_other(read):
    rows = [TRAINED, TRAINED | {"name": "again", "seed": 2}, SCALED, SCALED | {"name": "c", "scale": 4.0}]
    rows += [RANDOM | {"name": "r"}, RANDOM | {"name": "s", "seed": 3}, HUB, HUB | {"name": "i", "revision": "1" * 40}]
    assert read(*rows).separate == ("a", "h", "i")


def test_a_module_is_named_once(read):
    with pytest.raises(ConfigError, match=r"target_modules.*distinct"):
        read(TRAINED | {"target_modules": ["q_proj", "q_proj"]})


@pytest.mark.parametrize("copy", [SCALED, RANDOM])
def test_nothing_is_derived_from_a_zero_update(read, copy):
    with pytest.raises(ConfigError, match="'a' is a control, whose update is zero"):
        read(TRAINED | {"stratum": "control", "num_steps": 0}, copy)


@pytest.mark.parametrize("repo", ["../..", "a/..", "./a", "a/b/c", "a", "/a", "-x/a", ""])
def test_a_repository_is_an_owner_and_a_name(read, repo):
    with pytest.raises(ConfigError, match="repo"):
        read(HUB | {"repo": repo})
