"""The lines for people: what is in an adapter, the codes of the guide's table, and nothing that steers a terminal."""

import pytest
from adapter_cases import P, plain, values

from lora_spec.cli.main import main


@pytest.fixture
def told(capsys):
    def go(*words):
        code = main(["inspect", *map(str, words)])
        return code, capsys.readouterr().err

    return go


def test_a_sound_adapter_is_described(told, tmp_path):
    code, text = told(plain(tmp_path / "a"))
    assert code == 0
    for part in ("ok: 4 modules (q_proj, v_proj)", "rank 4", "scale 2", "MB f32", "total norm 3.68"):
        assert part in text
    assert text.count("\n") == 1


def test_ranges_are_told_where_modules_differ(told, tmp_path):
    _, text = told(plain(tmp_path / "a", alpha_pattern={"v_proj": 32}))
    assert "scales 2 to 8" in text
    assert "[N_RUNTIME_SCALE_DIFFERS]" in text


def test_headers_alone_give_no_norm(told, tmp_path):
    _, text = told("--header-only", plain(tmp_path / "a"))
    assert "4 modules" in text
    assert "norm" not in text


@pytest.mark.parametrize(
    ("config", "code", "mark"),
    [({"use_dora": True}, 3, "abstain [A_DORA]: 4 modules"), ({"r": 0}, 2, "error [E_CONFIG_VALUE]")],
)
def test_codes_stand_where_they_can_be_looked_up(told, tmp_path, config, code, mark):
    found, text = told(plain(tmp_path / "a", **config))
    assert found == code
    assert mark in text


@pytest.mark.parametrize("runtime", ["vllm", "sglang", "llama.cpp", "peft", "lorax"])
def test_a_runtime_that_applies_all_says_so(told, tmp_path, runtime):
    _, text = told("--runtime", runtime, plain(tmp_path / "a"))
    assert f"  {runtime}: applies all 4 modules as intended" in text


def test_a_runtime_that_does_not_load_it_says_why(told, tmp_path):
    _, text = told("--runtime", "vllm", plain(tmp_path / "a", tensors={f"{P}model.norm.weight": values(16)}))
    assert "vllm: does not load it" in text
    assert "model.norm.weight" in text


@pytest.mark.parametrize("words", [[""], ["a", ""], ["--base", "", "a"], ["--recursive", ""]])
def test_an_empty_path_is_wrong_usage_and_not_the_current_folder(told, words):
    code, text = told(*words)
    assert code == 2
    assert "usage" in text


@pytest.mark.parametrize("command", ["inspect", "diagnose", "\x1b[31mred"])
def test_what_was_typed_is_echoed_without_escape_sequences(capsys, command):
    assert main([command, "a", "--\x1b[2J\x9b\u202e\x07", "--jobs=\x1b[0m"]) == 2
    text = capsys.readouterr().err
    assert all(character.isprintable() or character == "\n" for character in text)
