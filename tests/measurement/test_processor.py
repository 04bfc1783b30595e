"""What a processor can do, from what Linux says of it."""

import pytest

from lora_spec.measurement.processor import cpu_features


@pytest.mark.parametrize(
    ("cores", "features"),
    [
        (["fpu avx2 avx512f amx_tile", "fpu avx2 avx512f amx_tile"], ["avx2", "avx512f", "amx_tile"]),
        (["fpu avx2 avx512f", "fpu avx2"], ["avx2"]),
        (["fpu avx2 avx512f avx512_bf16"], ["avx2", "avx512f", "avx512_bf16"]),
        (["fpu avx512fp16"], []),
    ],
)
def test_only_what_every_core_has_counts_and_only_by_its_whole_name(tmp_path, cores, features):
    path = tmp_path / "cpuinfo"
    path.write_text("".join(f"processor\t: {i}\nflags\t\t: {flags}\n\n" for i, flags in enumerate(cores)))
    assert cpu_features(path) == features


def test_a_machine_that_does_not_say_has_no_list(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nFeatures : asimd\n")
    assert cpu_features(tmp_path / "cpuinfo") is None
    assert cpu_features(tmp_path / "missing") is None
