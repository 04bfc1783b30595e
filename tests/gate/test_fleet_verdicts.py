import json

import pytest
from fleets import verdict_data, write_verdict

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.gate.fleet_verdicts import read_fleet


def test_verdicts_come_from_files_lines_and_folders_sorted_by_name(tmp_path):
    folder = tmp_path / "folder"
    write_verdict(folder, "z", verdict_data("z", 0.8))
    lines = tmp_path / "more.jsonl"
    lines.write_text("\n".join(json.dumps(verdict_data(name, 0.1)) for name in ("b", "a")) + "\n\n")
    single = write_verdict(tmp_path, "m", verdict_data("m", 0.5))
    assert [v.name for v in read_fleet([folder, lines, single])] == ["a", "b", "m", "z"]


def test_the_measured_verdict_is_taken_before_the_predicted_one_in_either_order(tmp_path):
    for stem, mode in (
        ("a.1", "measured"),
        ("a.2", "checkpoint_only"),
        ("b.1", "checkpoint_only"),
        ("b.2", "measured"),
    ):
        write_verdict(tmp_path, stem, verdict_data(stem[0], 0.5, mode=mode))
    assert {v.mode for v in read_fleet([tmp_path])} == {"measured"}
    assert {v.mode for v in read_fleet([tmp_path], mode="checkpoint_only")} == {"checkpoint_only"}


def test_one_measured_verdict_is_taken_before_any_number_of_predicted_ones(tmp_path):
    for stem, mode in (("a.1", "checkpoint_calib"), ("a.2", "checkpoint_only"), ("a.3", "measured")):
        write_verdict(tmp_path, stem, verdict_data("a", 0.5, mode=mode))
    assert [v.mode for v in read_fleet([tmp_path])] == ["measured"]
    (tmp_path / "a.3.json").unlink()
    with pytest.raises(ResultError, match="checkpoint_calib and checkpoint_only; give one, or choose with --mode"):
        read_fleet([tmp_path])


def test_two_verdicts_in_one_file_are_told_by_their_lines(tmp_path):
    lines = tmp_path / "fleet.jsonl"
    lines.write_text("\n".join(json.dumps(verdict_data("a", 0.5)) for _ in range(2)))
    with pytest.raises(ResultError, match=r"line 1 and .*fleet\.jsonl: line 2: two verdicts .*; give one$"):
        read_fleet([lines])


def test_two_verdicts_of_equal_standing_are_refused_with_both_files(tmp_path):
    paths = [write_verdict(tmp_path, stem, verdict_data("a", 0.5)) for stem in ("one", "two")]
    with pytest.raises(ResultError, match=r"one\.json and .*two\.json: two verdicts on adapter a"):
        read_fleet(paths)


def test_a_refused_adapter_is_named_as_such(tmp_path):
    path = write_verdict(tmp_path, "bad", {"schema_version": "1", "status": "error", "codes": ["E_PICKLE"]})
    with pytest.raises(ResultError, match="diagnose refused this adapter"):
        read_fleet([path])
    lines = tmp_path / "fleet.jsonl"
    lines.write_text(json.dumps(verdict_data("a", 0.5)) + "\n" + json.dumps({"status": "error"}) + "\n")
    with pytest.raises(ResultError, match=r"fleet\.jsonl: line 2: no verdict"):
        read_fleet([lines])


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"action": "green"}', "\x00"])
def test_what_is_no_verdict_is_refused_with_its_file(tmp_path, text):
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=r"odd\.json"):
        read_fleet([path])


def test_missing_files_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(ResultError, match=r"none\.json"):
        read_fleet([tmp_path / "none.json"])
    with pytest.raises(ResultError, match=r"no \.json"):
        read_fleet([tmp_path])


@pytest.mark.parametrize("depth", [None, 3, -1])
def test_a_load_whose_depth_contradicts_its_action_is_refused(tmp_path, depth):
    data = verdict_data("a", 0.0)
    data["speedup"]["context"]["by_load"][0]["num_speculative_tokens"] = depth
    with pytest.raises(ResultError, match="does not fit depth"):
        read_fleet([write_verdict(tmp_path, "a", data)])


def test_a_depth_without_its_speedup_is_refused(tmp_path):
    data = verdict_data("a", 0.9)
    load = data["speedup"]["context"]["by_load"][0]
    del load["speedup_by_depth"][str(load["num_speculative_tokens"])]
    with pytest.raises(ResultError, match=r"batch size 1: no speedup at the chosen depth 3; diagnose again"):
        read_fleet([write_verdict(tmp_path, "a", data)])


@pytest.mark.parametrize(("action", "depth"), [("red", 3), ("green", None), ("green", 0), ("abstain", 3)])
def test_a_verdict_whose_depth_contradicts_its_action_is_refused(tmp_path, action, depth):
    data = verdict_data("a", 0.9) | {"action": action, "num_speculative_tokens": depth}
    with pytest.raises(ResultError, match=f"action {action} does not fit depth {depth}; diagnose again"):
        read_fleet([write_verdict(tmp_path, "a", data)])


def test_synthetic_verdicts_need_permission(tmp_path):
    data = verdict_data("a", 0.5)
    data["reasons"].append({"code": "R_SYNTHETIC_SMOKE", "message": "made up"})
    path = write_verdict(tmp_path, "a", data)
    with pytest.raises(EvidenceError, match="allow-smoke"):
        read_fleet([path])
    (verdict,) = read_fleet([path], evidence=("measured", "synthetic-smoke"))
    assert verdict.evidence == "synthetic-smoke"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("x", {"estimate": 1.0, "lower": 1.0, "upper": 1.0}),
        ("-1", {"estimate": 1.0, "lower": 1.0, "upper": 1.0}),
        ("\u0663", {"estimate": 1.0, "lower": 1.0, "upper": 1.0}),
        (" 2", {"estimate": 1.0, "lower": 1.0, "upper": 1.0}),
        ("1" * 5000, {"estimate": 1.0, "lower": 1.0, "upper": 1.0}),
        ("2", {"lower": 1.0, "upper": 1.0}),
        ("2", {"estimate": 0.0, "lower": 0.0, "upper": 0.0}),
        ("2", {"estimate": -1.0, "lower": -1.0, "upper": 1.0}),
        ("2", {"estimate": 1e308, "lower": 1.0, "upper": 1e308}),
        ("2", {"estimate": "1", "lower": 1.0, "upper": 1.0}),
    ],
)
def test_a_speedup_that_cannot_be_is_refused(tmp_path, key, found):
    data = verdict_data("a", 0.9)
    data["speedup"]["context"]["by_load"][0]["speedup_by_depth"][key] = found
    with pytest.raises(ResultError, match=r"a\.json"):
        read_fleet([write_verdict(tmp_path, "a", data)])


def test_two_verdicts_at_one_load_are_refused(tmp_path):
    data = verdict_data("a", 0.9)
    data["speedup"]["context"]["by_load"] *= 2
    with pytest.raises(ResultError, match="two things of one batch size; diagnose again"):
        read_fleet([write_verdict(tmp_path, "a", data)])


@pytest.mark.parametrize("standing", [True, "3", 3.0])
def test_a_standing_depth_of_another_type_is_refused(tmp_path, standing):
    data = verdict_data("a", 0.9)
    data["speedup"]["context"]["standing_num_speculative_tokens"] = standing
    with pytest.raises(ResultError, match="standing_num_speculative_tokens"):
        read_fleet([write_verdict(tmp_path, "a", data)])


def test_a_broken_line_is_told_by_its_number_in_the_file(tmp_path):
    path = tmp_path / "all.jsonl"
    path.write_text(f"{json.dumps(verdict_data('a', 0.9))}\n\n{{bad\n")
    with pytest.raises(ResultError, match=r"all\.jsonl: line 3: no readable verdict"):
        read_fleet([path])
