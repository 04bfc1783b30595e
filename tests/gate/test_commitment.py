"""Which predicted verdicts are committed, where doubt and limit can be set by hand."""

import pytest
from hand_made import SETTINGS, cost_model, estimate, geometric

from lora_spec.errors import ConfigError
from lora_spec.evaluation.selective import Judged
from lora_spec.gate.certification import AbstentionRule, certification
from lora_spec.gate.commitment import Commitment, certified_context, check_certified, commitment_of
from lora_spec.gate.decide import decide
from lora_spec.gate.doubt import violation_probability

PREDICTOR = {"mode": "checkpoint_only", "predictor": "elastic_net", "training_sha256": "a"}
PREDICTOR |= {"target_model": "t", "draft_model": "d"}
RULE = AbstentionRule(max_loss=0.05, max_risk=0.1, confidence=0.9, seed=0)
# Wide enough for the limits on intervals to abstain, and still more likely right than not.
WIDE = estimate(geometric(0.8), below=1.9, above=0.2)


def _limit(threshold, **changes):
    told = {"max_loss": 0.05, "batch_size": 1, "num_committed": 20, "num_wrong": 1, "upper": 0.18, "confidence": 0.9}
    told |= {"max_risk": 0.1}
    return Commitment(threshold=threshold, **(told | changes))


def _decide(commitment, guess=WIDE, settings=SETTINGS, **options):
    return decide(guess, cost_model(), settings=settings, adapter={"name": "a"}, commitment=commitment, **options)


def _doubt():
    return violation_probability(WIDE, cost_model(), 3, settings=SETTINGS, batch_size=1, max_loss=0.05)


def _codes(verdict):
    return [code for code, _ in verdict.reasons]


def test_a_limit_takes_the_place_of_the_limits_on_the_intervals():
    assert _codes(_decide(None)) == ["R_INTERVAL_SPANS_ACTIONS"]
    committed = _decide(_limit(_doubt()))
    assert (committed.action, committed.num_speculative_tokens) == ("green", 3)
    assert "R_WITHIN_CERTIFIED_DOUBT" in _codes(committed)


def test_a_hair_more_doubt_than_the_limit_abstains():
    verdict = _decide(_limit(_doubt() - 1e-9))
    assert (verdict.action, _codes(verdict)) == ("abstain", ["R_TOO_DOUBTFUL"])


def test_without_a_limit_nothing_is_committed_however_sure():
    verdict = _decide(_limit(None, num_committed=0, num_wrong=0, upper=None), estimate(geometric(0.8)))
    assert (verdict.action, _codes(verdict)) == ("abstain", ["R_NOTHING_CERTIFIED"])


@pytest.mark.parametrize(("num_wrong", "action"), [(2, "green"), (3, "abstain")])
def test_a_limit_that_its_certificate_refutes_commits_nothing(num_wrong, action):
    verdict = _decide(_limit(1.0, num_committed=20, num_wrong=num_wrong, upper=0.3))
    assert verdict.action == action
    assert ("R_LIMIT_REFUTED" in _codes(verdict)) == (action == "abstain")


def test_out_of_distribution_abstains_whatever_the_limit():
    strange = estimate(geometric(0.8), is_out_of_distribution=True, reasons=(("R_OUT_OF_DISTRIBUTION", "far"),))
    assert _decide(_limit(1.0), strange).action == "abstain"


def test_an_interval_that_says_nothing_is_never_committed():
    nothing = estimate(geometric(0.8), below=9, above=9)
    verdict = _decide(_limit(1.0), nothing)
    assert (verdict.action, _codes(verdict)) == ("abstain", ["R_NOTHING_KNOWN"])
    assert _decide(_limit(1.0), estimate(geometric(0.8), below=9)).action != "abstain"


def test_at_other_loads_nothing_was_certified_and_the_intervals_decide():
    settings = type(SETTINGS)(3, SETTINGS.candidate_depths, headline_batch_size=1, batch_sizes=(1, 16))
    by_load = {load["batch_size"]: load for load in _decide(_limit(1.0), settings=settings).speedup_context["by_load"]}
    assert by_load[1]["action"] == "green"
    assert by_load[16]["reason_codes"] == ["R_INTERVAL_SPANS_ACTIONS"]


def test_a_load_too_far_from_the_measured_ones_is_doubted_all_the_same():
    settings = type(SETTINGS)(3, SETTINGS.candidate_depths, headline_batch_size=100)
    verdict = _decide(_limit(1.0, batch_size=100), settings=settings)
    assert verdict.action == "abstain"
    assert "R_WITHIN_CERTIFIED_DOUBT" in _codes(verdict)


def test_a_certificate_of_nothing_says_so():
    reasons = dict(_decide(_limit(1.0, num_committed=0, num_wrong=0, upper=None)).reasons)
    assert "nothing is certified" in reasons["R_WITHIN_CERTIFIED_DOUBT"]


def _certification():
    judged = [Judged(f"a{i}", f"s{i}", 0.1 * i, False) for i in range(6)]
    return certification(judged, RULE) | {"context": certified_context(PREDICTOR, SETTINGS)}


def test_an_adapter_of_the_study_gets_the_limit_that_the_other_half_chose():
    payload = _certification()
    for direction, other in zip(payload["directions"], payload["directions"][::-1], strict=True):
        for source in direction["chosen_on"]:
            assert commitment_of(payload, source=source).threshold == other["certificate"]["threshold"]
    assert commitment_of(payload).threshold == payload["threshold"]
    assert commitment_of(payload, source="never seen") == commitment_of(payload)


@pytest.mark.parametrize("changes", [{"training_sha256": "b"}, {"mode": "checkpoint_meta"}, {"draft_model": "e"}])
def test_a_certificate_of_another_predictor_is_refused(changes):
    check_certified(_certification(), PREDICTOR, SETTINGS)
    with pytest.raises(ConfigError, match=next(iter(changes))):
        check_certified(_certification(), PREDICTOR | changes, SETTINGS)


@pytest.mark.parametrize("settings", [(2, (0, 1, 2, 3, 4), 1), (3, (0, 2, 3), 1), (3, (0, 1, 2, 3, 4), 4)])
def test_a_certificate_at_another_load_or_other_depths_is_refused(settings):
    standing, depths, batch_size = settings
    with pytest.raises(ConfigError, match="certificate"):
        check_certified(_certification(), PREDICTOR, type(SETTINGS)(standing, depths, batch_size))


def test_a_deeper_candidate_that_no_verdict_may_choose_leaves_a_certificate_valid():
    check_certified(_certification(), PREDICTOR, type(SETTINGS)(3, (0, 1, 2, 3, 4, 5), 1))
