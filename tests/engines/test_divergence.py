"""Divergences of next-token distributions: closed forms, bounds, and what must not matter."""

import math

import pytest

from lora_spec.calibration_record import FIRST_CHOICES, SIGNALS

pytestmark = pytest.mark.serving


def _of(logits):
    from lora_spec.engines.divergence import Distribution

    return Distribution(logits)


def _law(*probabilities):
    import torch

    return _of(torch.tensor([probabilities], dtype=torch.float64).log())


def _random_logits(num_positions=40, vocab_size=97, seed=0):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return 4 * torch.randn(num_positions, vocab_size, generator=generator, dtype=torch.float64)


def _compare(adapted, base, drafter):
    from lora_spec.engines.divergence import compare_readers

    return compare_readers(adapted, base, drafter, list(range(len(adapted))))


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.25), (0.9, 0.1), (0.3, 0.3)])
def test_kl_of_two_bernoullis(p, q):
    from lora_spec.engines.divergence import kl_divergence

    exact = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert float(kl_divergence(_law(p, 1 - p), _law(q, 1 - q))) == pytest.approx(exact, abs=1e-15)


def test_kl_to_a_reader_that_is_sure_of_another_token_is_large_and_finite():
    import torch

    from lora_spec.engines.divergence import kl_divergence

    sure, other = torch.tensor([[80.0, 0.0]]).double(), torch.tensor([[0.0, 80.0]]).double()
    assert float(kl_divergence(_of(sure), _of(other))) == pytest.approx(80.0)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.25), (0.9, 0.1)])
def test_js_of_two_bernoullis(p, q):
    from lora_spec.engines.divergence import js_divergence

    def entropy(x):
        return -x * math.log(x) - (1 - x) * math.log(1 - x)

    exact = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    assert float(js_divergence(_law(p, 1 - p), _law(q, 1 - q))) == pytest.approx(exact, abs=1e-15)


def test_js_is_symmetric_and_at_most_ln_2():
    import torch

    from lora_spec.engines.divergence import js_divergence

    p, q = (_of(20 * _random_logits(seed=seed)) for seed in (0, 1))
    forth, back = js_divergence(p, q), js_divergence(q, p)
    assert torch.allclose(forth, back, rtol=0, atol=1e-12)
    assert 0 <= float(forth.min()) <= float(forth.max()) <= math.log(2)
    left, right = (_of(torch.tensor([row]).double()) for row in ([500.0, 0.0], [0.0, 500.0]))
    assert js_divergence(left, right).item() == pytest.approx(math.log(2))


def test_equal_distributions_have_no_divergence_and_overlap_wholly():
    logits = _random_logits()
    found = _compare(logits, logits.clone(), logits.clone())
    for name in ("kl_base_nats", "js_base_nats", "kl_drafter_nats", "js_drafter_nats"):
        assert set(found[name]) == {0.0}
    assert found["overlap_drafter"] == pytest.approx([1.0] * 40)
    assert found["entropy_adapted_nats"] == found["entropy_base_nats"] == found["entropy_drafter_nats"]


@pytest.mark.parametrize("vocab_size", [2, 7, 1000])
def test_entropy_of_the_uniform_distribution_is_ln_v_and_of_a_sure_one_0(vocab_size):
    import torch

    uniform = _of(torch.zeros(1, vocab_size).double())
    sure = _of(torch.nn.functional.one_hot(torch.tensor([1]), vocab_size) * 500.0)
    assert float(uniform.entropy()) == pytest.approx(math.log(vocab_size))
    assert float(sure.entropy()) == pytest.approx(0, abs=1e-12)


def test_overlap_is_one_less_half_the_sum_of_differences():
    import torch

    from lora_spec.engines.divergence import overlap

    p, q = (_random_logits(seed=seed) for seed in (2, 3))
    half = (p.softmax(-1) - q.softmax(-1)).abs().sum(-1) / 2
    assert torch.allclose(overlap(_of(p), _of(q)), 1 - half)


def test_a_constant_added_to_the_logits_of_a_position_changes_nothing():
    import torch

    readers = [_random_logits(seed=seed) for seed in range(3)]
    shifts = [7 * torch.randn(40, 1, generator=torch.Generator().manual_seed(9)).double() * k for k in (1, 2, 3)]
    plain, shifted = _compare(*readers), _compare(*(r + s for r, s in zip(readers, shifts, strict=True)))
    for name in SIGNALS:
        assert shifted[name] == pytest.approx(plain[name], abs=1e-6), name


def test_all_signals_come_for_every_position_and_choices_are_0_or_1():
    found = _compare(*(_random_logits(seed=seed) for seed in range(3)))
    assert set(found) == set(SIGNALS)
    assert {len(values) for values in found.values()} == {40}
    assert {value for name in FIRST_CHOICES for value in found[name]} <= {0.0, 1.0}


def test_first_choices_are_told_of_the_reader_they_are_named_after():
    import torch

    def reader(*first):
        return torch.nn.functional.one_hot(torch.tensor(first), 5).double()

    # The text is tokens 0, 1, 2.
    found = _compare(reader(0, 1, 2), reader(0, 1, 4), reader(0, 3, 4))
    assert found["is_adapted_first"] == (1, 1, 1)
    assert found["is_base_first"] == (1, 1, 0)
    assert found["is_drafter_first"] == (1, 0, 0)
    assert found["is_drafter_base_first"] == (1, 0, 1)


def test_a_vocabulary_that_only_the_drafter_pads_is_cut():
    import torch

    readers = [_random_logits(seed=seed) for seed in range(3)]
    padded = torch.cat([readers[2], torch.full((40, 31), 50.0).double()], dim=1)
    assert _compare(readers[0], readers[1], padded) == _compare(*readers)


def test_surprisal_of_greedy_text_is_that_of_the_likeliest_token():
    import torch

    logits = _random_logits()
    from lora_spec.engines.divergence import compare_readers

    said = logits.argmax(-1).tolist()
    found = compare_readers(logits, _random_logits(seed=1), _random_logits(seed=2), said)
    likeliest = -torch.log_softmax(logits, -1).max(-1).values
    assert found["surprisal_adapted_nats"] == pytest.approx(likeliest.tolist(), rel=1e-6)
    assert set(found["is_adapted_first"]) == {1.0}
