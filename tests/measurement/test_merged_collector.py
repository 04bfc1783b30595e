"""Counting on merged weights, with a fake engine and drafters whose acceptance is known."""

from dataclasses import replace

import pytest

from lora_spec.engines import AdapterRef
from lora_spec.engines.fake import FakeEngine, FakeReplayer
from lora_spec.errors import MeasurementError
from lora_spec.measurement import Prompt
from lora_spec.measurement.collect import CollectSettings, MergedCollector, PromptSet

ACCEPTANCE = {None: 0.8, "shifted": 0.3, "zero": 0.8}
WEAK = {None: 0.4, "shifted": 0.1, "zero": 0.4}
SETTINGS = CollectSettings(num_speculative_tokens=3, max_depth=4, min_drafts=16, num_warmup_prompts=0)


class FakeTarget:
    """A reader that says what the base said, but for the first token of every text if an adapter is merged."""

    def __init__(self):
        self.merged = None

    def reload_weights(self, weights):
        ((_, self.merged),) = weights

    def first_choices(self, trajectories):
        import numpy as np

        texts = [np.array(t.output_token_ids + t.overrun_token_ids) for t in trajectories]
        return [text + 1 if self.merged else text for text in texts]


def _sets(*domains: str, count: int = 24) -> list[PromptSet]:
    return [
        PromptSet(
            "own" if i == 0 else "common",
            f"sha-{domain}",
            tuple(Prompt(f"{domain}-{n}", tuple(range(97 * i + n, 97 * i + n + 9))) for n in range(count)),
            max_tokens=60,
            domain=domain,
        )
        for i, domain in enumerate(domains)
    ]


def _collector(engine=None, **options):
    engine = engine or FakeEngine(ACCEPTANCE, num_speculative_tokens=4)
    drafters = {"final": FakeReplayer(ACCEPTANCE), "early": FakeReplayer(WEAK)}
    return MergedCollector(engine, drafters, SETTINGS, weights_of=lambda adapter: [("merged", adapter)], **options)


def _length(records, **wanted):
    chosen = [r for r in records if all(getattr(r, key) == value for key, value in wanted.items())]
    chosen = [r for r in chosen if r.counts.num_speculative_tokens == 3]
    return 1 + sum(r.counts.num_accepted_tokens for r in chosen) / sum(r.counts.num_drafts for r in chosen)


def test_both_drafters_find_their_known_acceptance_in_both_arms():
    records = _collector().collect(AdapterRef("shifted", "folder", 8), _sets("json", "chat"))
    for arm, name in (("base", None), ("adapted", "shifted")):
        for drafter, acceptance in (("final", ACCEPTANCE), ("early", WEAK)):
            alpha = acceptance[name]
            exact = (1 - alpha**4) / (1 - alpha)
            assert _length(records, arm=arm, drafter=drafter) == pytest.approx(exact, rel=0.12)


def test_every_record_says_what_it_is():
    records = _collector().collect(AdapterRef("shifted", "folder", 8), _sets("json", "chat", "sql"))
    assert {(r.prompt_set, r.domain) for r in records} == {("own", "json"), ("common", "chat"), ("common", "sql")}
    assert {(r.source, r.weights, r.role, r.context) for r in records} == {("replay", "merged", "evaluation", "own")}


def test_base_texts_are_judged_by_what_the_adapted_target_would_say():
    records = _collector(rescorer=FakeTarget()).collect(AdapterRef("shifted", "folder", 8), _sets("json"))
    on_base = [r for r in records if r.context == "base"]
    assert len(on_base) == 24 * 4
    assert {(r.arm, r.adapter, r.drafter) for r in on_base} == {("adapted", "shifted", "final")}
    # The reader disagrees with every token of the base, and so with a drafter that follows it.
    assert sum(r.counts.num_accepted_tokens for r in on_base) == 0
    own = {r.prompt_id: r.output_token_ids for r in records if r.arm == "base"}
    assert all(r.output_token_ids == own[r.prompt_id] for r in on_base)


def test_the_base_is_written_once_for_all_adapters_that_share_prompts():
    engine = FakeEngine(ACCEPTANCE, num_speculative_tokens=4)
    served = []
    generate = engine.generate
    engine.generate = lambda requests: (served.append((engine._merged, requests[0].adapter)), generate(requests))[1]
    collector = _collector(engine)
    for name in ("shifted", "zero"):
        collector.collect(AdapterRef(name, "folder", 8, has_update=name != "zero"), _sets("json"))
    assert [getattr(merged, "name", None) for merged, _ in served] == [None] * 2 + ["shifted"] * 2 + ["zero"] * 2
    assert {adapter for _, adapter in served} == {None}


def test_a_merge_that_changes_nothing_is_caught():
    collector = MergedCollector(
        FakeEngine(ACCEPTANCE), {"final": FakeReplayer(ACCEPTANCE)}, SETTINGS, weights_of=lambda _: [("merged", None)]
    )
    with pytest.raises(MeasurementError, match="output equals the base"):
        collector.collect(AdapterRef("shifted", "folder", 8), _sets("json"))


def test_too_few_drafts_are_refused_with_the_adapter_the_set_and_the_arm():
    with pytest.raises(MeasurementError, match=r"adapter shifted, prompt set 'own', base arm: \d+ drafts, 16 are"):
        _collector().collect(AdapterRef("shifted", "folder", 8), _sets("json", count=1))


def test_drafts_are_counted_over_the_domains_of_a_set_not_in_each():
    few = replace(SETTINGS, min_drafts=60)
    collector = MergedCollector(
        FakeEngine(ACCEPTANCE, num_speculative_tokens=4),
        {"final": FakeReplayer(ACCEPTANCE)},
        few,
        weights_of=lambda adapter: [("merged", adapter)],
    )
    own, *common = _sets("json", "chat", "sql", "code", "prose", count=2)
    records = collector.collect(
        AdapterRef("shifted", "folder", 8), [replace(own, prompts=_sets("json")[0].prompts), *common]
    )
    drafts = {}
    for r in records:
        if (r.prompt_set, r.arm, r.counts.num_speculative_tokens) == ("common", "base", 3):
            drafts[r.domain] = drafts.get(r.domain, 0) + r.counts.num_drafts
    assert max(drafts.values()) < 60 <= sum(drafts.values())


@pytest.mark.parametrize("fault", ["truncated_prompts", "failed_requests"])
def test_no_fault_is_averaged_away(fault):
    with pytest.raises(MeasurementError):
        _collector(FakeEngine(ACCEPTANCE, num_speculative_tokens=4, fault=fault)).collect(
            AdapterRef("shifted", "folder", 8), _sets("json")
        )
