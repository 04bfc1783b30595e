import dataclasses
import json

import pytest
from hand_made import DEPTHS, RATIOS, SETTINGS, cost_model, estimate, geometric

from lora_spec.cost_model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate import abstain, decide
from lora_spec.records import Verdict

ADAPTER = {"name": "json", "weights_sha256": "s"}
GOOD, MIDDLING, BAD = geometric(0.8), (0.5, 0.05, 0.0, 0.0), (0.05, 0.0, 0.0, 0.0)


def _decide(rates=GOOD, *, settings=SETTINGS, model=None, below=0.0, above=0.0, fields=None, **options) -> Verdict:
    found = estimate(rates, below=below, above=above, **(fields or {}))
    return decide(found, model or cost_model(), settings=settings, adapter=ADAPTER, **options)


def _codes(verdict: Verdict) -> list[str]:
    return [code for code, _ in verdict.reasons]


def test_high_acceptance_is_green_at_the_standing_depth():
    verdict = _decide(GOOD)
    assert (verdict.action, verdict.num_speculative_tokens, verdict.drafter) == ("green", 3, "keep")
    assert _codes(verdict)[0] == "R_STANDING_STAYS"
    assert verdict.acceptance_length.estimate == pytest.approx(1 + sum(GOOD[:3]))
    assert verdict.speedup.estimate == pytest.approx((1 + sum(GOOD[:3])) / 1.6)


def test_acceptance_that_ends_after_one_token_is_amber_at_that_depth():
    verdict = _decide(MIDDLING)
    assert (verdict.action, verdict.num_speculative_tokens, verdict.drafter) == ("amber", 1, "keep")
    assert _codes(verdict)[0] == "R_SHORTER_PAYS"
    assert verdict.acceptance_length.estimate == pytest.approx(1.5)
    assert verdict.speedup.estimate == pytest.approx(1.5 / 1.2)


def test_no_acceptance_is_red_and_the_numbers_are_those_of_the_standing_depth():
    verdict = _decide(BAD)
    assert (verdict.action, verdict.num_speculative_tokens, verdict.drafter) == ("red", 0, "disable")
    assert _codes(verdict)[0] == "R_SPECULATION_LOSES"
    assert verdict.speedup.estimate == pytest.approx(1.05 / 1.6)
    assert verdict.speedup_context["num_speculative_tokens"] == 3


def test_the_same_acceptance_changes_colour_with_the_load():
    actions = {
        batch: _decide(geometric(0.6), settings=dataclasses.replace(SETTINGS, headline_batch_size=batch)).action
        for batch in (1, 16)
    }
    assert actions == {1: "green", 16: "red"}


def test_every_load_gets_a_verdict_beside_the_headline():
    by_load = _decide(geometric(0.6)).speedup_context["by_load"]
    assert {load["batch_size"]: load["action"] for load in by_load} == {1: "green", 16: "red"}
    assert [load["num_speculative_tokens"] for load in by_load] == [3, 0]


def test_an_interval_that_spans_actions_abstains_and_says_what_is_at_stake():
    verdict = _decide(MIDDLING, below=3.0, above=3.0)
    assert (verdict.action, verdict.num_speculative_tokens, verdict.drafter) == ("abstain", None, "keep")
    message = dict(verdict.reasons)["R_INTERVAL_SPANS_ACTIONS"]
    for words in ("green (K=3)", "amber (K=1)", "red (K=0)", "batch size 1"):
        assert words in message


def test_a_wide_interval_on_one_side_of_the_line_does_not_abstain():
    verdict = _decide(geometric(0.9), below=0.3, above=3.0)
    assert verdict.action == "green"


def test_an_interval_that_spans_actions_at_no_stake_does_not_abstain():
    rates = (0.2, 0.05, 0.0, 0.0)
    narrow = _decide(rates, below=0.03, above=0.03)
    assert narrow.action != "abstain"
    strict = dataclasses.replace(SETTINGS, max_interval_loss=0.0)
    assert _decide(rates, below=0.03, above=0.03, settings=strict).action == "abstain"


@pytest.mark.parametrize(("limit", "value"), [("max_acceptance_length_width", 0.5), ("max_speedup_width", 0.3)])
def test_width_limits_abstain_even_where_all_points_agree(limit, value):
    wide = {"below": 0.3, "above": 0.3}
    assert _decide(geometric(0.9), **wide).action == "green"
    verdict = _decide(geometric(0.9), settings=dataclasses.replace(SETTINGS, **{limit: value}), **wide)
    assert verdict.action == "abstain"
    assert _codes(verdict) == ["R_INTERVAL_TOO_WIDE"]


def test_noisy_step_times_alone_can_make_it_abstain():
    rates = geometric(0.45)
    assert _decide(rates).action == "amber"
    assert _decide(rates, model=cost_model(noise=0.2)).action == "abstain"


def test_an_out_of_distribution_adapter_abstains_at_every_load_with_the_predictors_reasons():
    reasons = (("R_OUT_OF_DISTRIBUTION", "far away"),)
    verdict = _decide(GOOD, fields={"is_out_of_distribution": True, "reasons": reasons})
    assert verdict.action == "abstain"
    assert verdict.reasons == reasons
    assert {load["action"] for load in verdict.speedup_context["by_load"]} == {"abstain"}


def test_a_doubt_from_elsewhere_abstains_and_a_remark_does_not():
    assert _decide(GOOD, doubts=[("A_DORA", "rescaled")]).reasons == (("A_DORA", "rescaled"),)
    assert _decide(GOOD, doubts=[("A_DORA", "rescaled")]).action == "abstain"
    remarked = _decide(GOOD, remarks=[("N_ZERO_UPDATE", "zero")])
    assert remarked.action == "green"
    assert _codes(remarked) == ["R_STANDING_STAYS", "N_ZERO_UPDATE"]


@pytest.mark.parametrize(
    ("share", "drafter", "code"),
    [(0.5, "adapt", "R_TRAFFIC_HOT"), (0.2, "adapt", "R_TRAFFIC_HOT"), (0.19, "disable", "R_TRAFFIC_COLD")],
)
def test_only_a_hot_harmful_adapter_gets_its_own_drafter(share, drafter, code):
    verdict = _decide(BAD, traffic_share=share)
    assert (verdict.action, verdict.drafter) == ("red", drafter)
    assert code in _codes(verdict)


def test_unknown_traffic_takes_the_default_and_says_so():
    assert "assumed" in dict(_decide(BAD).reasons)["R_TRAFFIC_COLD"]
    hot = dataclasses.replace(SETTINGS, default_traffic_share=0.9)
    assert _decide(BAD, settings=hot).drafter == "adapt"


def test_no_drafter_is_adapted_where_even_the_base_would_not_gain():
    assert _decide(BAD, traffic_share=0.9, base=estimate(GOOD)).drafter == "adapt"
    verdict = _decide(BAD, traffic_share=0.9, base=estimate(BAD))
    assert verdict.drafter == "disable"
    assert "R_ADAPTING_CANNOT_PAY" in _codes(verdict)


def test_hot_traffic_alone_changes_no_drafter():
    assert _decide(GOOD, traffic_share=0.9).drafter == "keep"
    assert _decide(MIDDLING, traffic_share=0.9).drafter == "keep"


def test_a_deeper_depth_that_pays_is_said_and_stays_green():
    verdict = _decide(geometric(0.99))
    assert (verdict.action, verdict.num_speculative_tokens) == ("green", 3)
    assert "R_DEEPER_PAYS" in _codes(verdict)
    assert "R_DEEPER_PAYS" not in _codes(_decide(MIDDLING))


def test_without_a_cost_model_the_acceptance_is_told_and_the_verdict_abstains():
    verdict = decide(estimate(GOOD), None, settings=SETTINGS, adapter=ADAPTER)
    assert verdict.action == "abstain"
    assert _codes(verdict) == ["R_NO_COST_MODEL"]
    assert verdict.acceptance_length.estimate == pytest.approx(1 + sum(GOOD[:3]))


def test_without_a_load_a_measured_one_is_taken_and_said():
    verdict = _decide(GOOD, settings=dataclasses.replace(SETTINGS, headline_batch_size=None))
    assert verdict.speedup_context["batch_size"] == 1
    assert "R_LOAD_ASSUMED" in _codes(verdict)


def test_a_load_a_little_outside_the_measured_is_remarked_and_far_outside_abstains():
    near = _decide(BAD, settings=dataclasses.replace(SETTINGS, headline_batch_size=20))
    far = _decide(BAD, settings=dataclasses.replace(SETTINGS, headline_batch_size=100))
    assert (near.action, far.action) == ("red", "abstain")
    assert "R_LOAD_EXTRAPOLATED" in _codes(near)
    assert _codes(far) == ["R_LOAD_EXTRAPOLATED"]


def test_the_measured_mode_is_kept_and_provenance_travels():
    verdict = _decide(GOOD, fields={"mode": "measured"}, provenance={"git_sha": "g"}, predictor_sha256="p")
    assert (verdict.mode, verdict.provenance, verdict.predictor_sha256) == ("measured", {"git_sha": "g"}, "p")


def test_the_verdict_is_strict_json_and_its_numbers_carry_their_context():
    data = json.loads(json.dumps(_decide(GOOD, context={"target_model": "t"}).to_dict(), allow_nan=False))
    context = data["speedup"]["context"]
    assert (context["target_model"], context["lora_rank"], context["batch_size"]) == ("t", 8, 1)
    assert data["reasons"][0].keys() == {"code", "message"}


def test_depths_that_nobody_measured_are_refused():
    deep = dataclasses.replace(SETTINGS, candidate_depths=(0, 3, 5))
    with pytest.raises(ConfigError, match="K=5"):
        _decide(GOOD, settings=deep)
    whole = cost_model()
    shallow = CostModel((0, 3), (1, 16), whole.median_ms[[0, 3]], whole.draws_ms[:, [0, 3]], {})
    with pytest.raises(ConfigError, match="K=1"):
        _decide(GOOD, model=shallow)


def test_an_adapter_without_any_estimate_abstains_with_the_reasons_given():
    verdict = abstain(adapter=ADAPTER, mode="checkpoint_only", reasons=[("A_BIAS", "biases")])
    assert (verdict.action, verdict.acceptance_length, verdict.speedup) == ("abstain", None, None)
    assert verdict.to_dict()["reasons"] == [{"code": "A_BIAS", "message": "biases"}]


def test_better_acceptance_never_shortens_the_depth():
    for batch in RATIOS:
        settings = dataclasses.replace(SETTINGS, headline_batch_size=batch)
        depths = [_decide(geometric(a / 20), settings=settings).num_speculative_tokens for a in range(20)]
        assert depths == sorted(depths)
        assert set(depths) <= set(DEPTHS)
