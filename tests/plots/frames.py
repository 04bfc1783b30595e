"""Tables with a known shape for the figures' tests; their numbers are made up and marked as such."""

import numpy as np
import pandas as pd

from lora_spec.plots.context import with_context
from lora_spec.plots.statuses import STATUS_STYLES

_SMALL = ("self-chat", "python-code", "french", "json-answers", "upper-case", "every-word-prefixed")
_STRATA = ("benign", "moderate", "aggressive")
SETUP = "SmolLM2-135M-Instruct + 4-layer drafter, vLLM 0.32.0 CPU, bf16, greedy, K = 3, 64 output tokens"


def adapter_names(num_adapters: int) -> list[str]:
    """Return names of realistic length, the six short ones first."""
    domains = ("django-fr", "sql-schema", "wordnet-glosses", "json-extract", "po-deutsch", "unit-conversion")
    rest = [f"{domains[i % 6]}-r{2 ** (1 + i // 6 % 5)}-s{i:02d}" for i in range(max(0, num_adapters - len(_SMALL)))]
    return [*_SMALL, *rest][:num_adapters]


def _context(frame: pd.DataFrame, evidence: str) -> pd.DataFrame:
    return with_context(frame, tier="mini", evidence=evidence, setup=SETUP, interval_level=0.9)


def recounted(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows taken from a table as a whole table of their own."""
    return frame.assign(num_rows=len(frame))


def _lengths(num_adapters: int) -> np.ndarray:
    return np.round(np.linspace(2.25, 1.12, num_adapters) + 0.08 * np.sin(np.arange(num_adapters) * 2.3), 3)


_FEATURES = {
    "prefix_caching": ("off", "on"),
    "chunked_prefill": ("off", "on"),
    "execution": ("eager", "compiled"),
    "scheduling": ("sync", "async"),
    "sampler": ("greedy", "temperature_greedy_drafts", "temperature_probabilistic_drafts"),
    "structured_output": ("off", "on"),
}
_STATUSES = (
    "works",
    "works",
    "replaced",
    "unjudged",
    "refused",
    "unmeasured",
    "wrong",
    "works",
    "crashed",
    "timeout",
    "meaningless",
)


def composability(num_rows: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return places of every status; a place without measured cells counts none."""
    methods, loras = (
        ("none", "ngram", "suffix", "draft_model"),
        ("off", "one", "several", "beside_base", "more_than_slots"),
    )
    pairs = [*[(method, lora) for method in methods for lora in loras][:num_rows], ("mtp", "any")]
    rows = []
    for method, lora in pairs:
        for axis, values in _FEATURES.items():
            for value in values:
                status = "conceptual" if method == "mtp" else _STATUSES[len(rows) % len(_STATUSES)]
                num = 0 if status in ("unmeasured", "meaningless", "conceptual") else 1 + len(rows) % 12
                worst = min(num, 1 + len(rows) % 3)
                counts = {f"num_{name}": 0 for name in STATUS_STYLES} | {"num_works": num}
                if num:
                    counts |= {"num_works": num - worst, f"num_{status}": num if status == "works" else worst}
                rows.append(
                    {
                        "method": method,
                        "lora": lora,
                        "axis": axis,
                        "value": value,
                        "status": status,
                        "num_measured": num,
                        **counts,
                    }
                )
    return _context(pd.DataFrame(rows), evidence).assign(interval_level=None)


CONCLUSION = (
    "GO: aggressive adapters lose 52% [45%, 60%] of accepted drafts at K=2; ignoring it costs 16% [12%, 22%] of "
    "goodput at batch 1 (level 0.9)"
)


def paired_effect(num_adapters: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return differences from slightly positive to strongly negative, on both prompt sets."""
    rows = []
    for i, (name, length) in enumerate(zip(adapter_names(num_adapters), _lengths(num_adapters), strict=True)):
        for prompt_set, share in (("own", 1.0), ("common", 0.35)):
            delta = share * (length - 2.15)
            half = 0.05 + 0.02 * (i % 3)
            rows.append(
                {
                    "adapter": name,
                    "stratum": _STRATA[min(2, 3 * i // num_adapters)],
                    "prompt_set": prompt_set,
                    "delta_acceptance_length": delta,
                    "lower": delta - half,
                    "upper": delta + 1.1 * half,
                    "num_prompts": 32,
                    "num_drafts": 1200 + 37 * i,
                    "threshold": -0.115,
                    "min_accepted_loss": 0.1,
                    "num_speculative_tokens": 2,
                    "conclusion": CONCLUSION,
                }
            )
    return _context(pd.DataFrame(rows), evidence)


def predicted_vs_measured(num_adapters: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return four modes: one that the gate judges, its last adapter missing, and three of points."""
    rows = []
    lengths = _lengths(num_adapters)
    for mode, error in (
        ("checkpoint_only", 0.25),
        ("checkpoint_base", 0.12),
        ("checkpoint_meta", 0.2),
        ("checkpoint_calib", 0.05),
    ):
        for i, (name, length) in enumerate(zip(adapter_names(num_adapters), lengths, strict=True)):
            is_judged = mode == "checkpoint_only"
            predicted = length + error * np.cos(1.7 * i) if (mode, i) != ("checkpoint_only", num_adapters - 1) else None
            rows.append(
                {
                    "adapter": name,
                    "source": name.split("-")[0],
                    "mode": mode,
                    "num_speculative_tokens": 3,
                    "measured": length,
                    "measured_lower": length - 0.05,
                    "measured_upper": length + 0.06,
                    "predicted": predicted,
                    "predicted_lower": None if predicted is None or not is_judged else predicted - 1.4 * error,
                    "predicted_upper": None if predicted is None or not is_judged else predicted + 1.4 * error,
                    "is_abstained": (predicted is None or i % 3 == 1) if is_judged else None,
                }
            )
    return _context(pd.DataFrame(rows), evidence)


def predictor_scores(
    num_adapters: int = 10, *, evidence: str = "measured", unscored: str | None = None
) -> pd.DataFrame:
    """Return three nulls, and three predictors in four modes; AUROC is missing where ``unscored`` says why."""
    contenders = [(name, None) for name in ("own_traffic", "norm_ridge", "metadata_ridge")]
    contenders += [
        (name, mode)
        for mode in ("checkpoint_only", "checkpoint_base", "checkpoint_meta", "checkpoint_calib")
        for name in ("elastic_net", "gam", "gradient_boosting")
    ]
    rows = []
    for i, (name, mode) in enumerate(contenders):
        for score, value in (("spearman", 0.9 - 0.13 * ((5 * i) % 12)), ("auroc", 0.95 - 0.04 * ((5 * i) % 12))):
            is_missing = score == "auroc" and unscored is not None
            rows.append(
                {
                    "predictor": name,
                    "mode": mode,
                    "score": score,
                    "estimate": None if is_missing else value,
                    "lower": None if is_missing else max(-1.0, value - 0.3),
                    "upper": None if is_missing else min(1.0, value + 0.2),
                    "permutation_p": 0.0001 * 3**i if score == "spearman" and i < 8 else None,
                    "num_adapters": num_adapters,
                    "num_sources": min(num_adapters, 18),
                    "num_speculative_tokens": 3,
                    "question": f"K=3 is a net loss at batch 8: {num_adapters // 2} of {num_adapters} adapters",
                    "unscored": unscored,
                }
            )
    return _context(pd.DataFrame(rows), evidence)


def probe_curve(num_adapters: int = 10, *, evidence: str = "measured") -> pd.DataFrame:
    """Return a direct probe that grows better with its prompts and a predictor that starts higher."""
    rows = []
    for step, num_prompts in enumerate((1, 2, 4, 8, 16, 32)):
        direct, predictor = 0.5 + 0.08 * step, 0.78 + 0.03 * step
        scores = {"direct_probe": direct, "predictor": predictor, "difference": predictor - direct}
        for contender, value in scores.items():
            cost = (
                {}
                if contender == "difference"
                else {"wall_s": 0.4 + 0.05 * num_prompts, "cpu_s": 0.8 + 0.1 * num_prompts}
            )
            factor = 1.7 if contender == "predictor" else 1.0
            rows.append(
                {
                    "num_prompts": num_prompts,
                    "contender": contender,
                    "estimate": value,
                    "lower": value - 0.2,
                    "upper": min(1.0, value + 0.1),
                    **{f"lower_{kind}": factor * seconds for kind, seconds in cost.items()},
                    **{f"upper_{kind}": factor * seconds * 1.6 for kind, seconds in cost.items()},
                    "predictor": "elastic_net",
                    "without_probe": 0.55,
                    "without_probe_mode": "checkpoint_only",
                    "mean_other_cores": 0.1,
                    "num_adapters": num_adapters,
                    "num_sources": min(num_adapters, 18),
                    "num_speculative_tokens": 3,
                }
            )
    return _context(pd.DataFrame(rows), evidence)


def rank_disagreement(
    num_adapters: int = 6, *, evidence: str = "measured", loads: tuple[int, ...] = (1, 8, 16)
) -> pd.DataFrame:
    """Return speedups that follow acceptance at the lowest load and leave it, pair by pair, at higher ones.

    Inversions are clear where intervals of a width of 0.06 do not touch; the least accepting adapter is off.
    """
    names, lengths = adapter_names(num_adapters), _lengths(num_adapters)
    parts = []
    for step, load in enumerate(loads):
        speedup = 0.75 + (0.32 - 0.06 * step) * lengths + 0.09 * step * np.sin(1.3 * np.arange(num_adapters))
        part = pd.DataFrame({"adapter": names, "load_batch_size": load, "acceptance_length": lengths})
        part["num_speculative_tokens"] = np.where(lengths < 1.2, 0, 1 + np.arange(num_adapters) % 3)
        part["acceptance_rank"] = part["acceptance_length"].rank(ascending=False)
        part["speedup"] = speedup
        part["throughput_rank"] = part["speedup"].rank(ascending=False)
        part["lower"], part["upper"] = speedup - 0.03, speedup + 0.03
        is_won = (lengths[:, None] < lengths) & (speedup[:, None] > speedup)
        is_clear = is_won & (speedup[:, None] - speedup > 0.06)
        part["num_won"], part["num_lost"] = is_won.sum(axis=1), is_won.sum(axis=0)
        part["num_clear_won"], part["num_clear_lost"] = is_clear.sum(axis=1), is_clear.sum(axis=0)
        parts.append(part.assign(standing_num_speculative_tokens=3))
    return _context(pd.concat(parts, ignore_index=True), evidence)


def decision_map(
    num_adapters: int = 6, *, evidence: str = "measured", loads: tuple[int, ...] = (1, 4, 16)
) -> pd.DataFrame:
    """Return a map whose thresholds rise with the load, and adapters that abstain where they are close to one."""
    rows = []
    for load in loads:
        cuts = np.array([1.15, 1.45, 1.8]) + 0.18 * np.log2(load) / 2
        for x in np.linspace(1.0, 2.6, 81):
            rows.append({"kind": "cell", "load_batch_size": load, **_decision(x, cuts)})
        for name, x in zip(adapter_names(num_adapters), _lengths(num_adapters), strict=True):
            row = {"kind": "adapter", "adapter": name, "mode": "measured", "load_batch_size": load}
            row |= {"lower": x - 0.06, "upper": x + 0.07, **_decision(x, cuts)}
            if np.abs(cuts - x).min() < 0.02:
                row |= {"action": "abstain", "num_speculative_tokens": None, "speedup": None}
            rows.append(row)
    frame = pd.DataFrame(rows).assign(standing_num_speculative_tokens=3)
    return _context(frame, evidence)


def _decision(x: float, cuts: np.ndarray) -> dict[str, object]:
    depth = int((x > cuts).sum())
    action = "red" if depth == 0 else "green" if depth == 3 else "amber"
    return {
        "acceptance_length": float(x),
        "num_speculative_tokens": depth,
        "action": action,
        "speedup": 1.0 if depth == 0 else 0.8 + 0.25 * float(x),
    }


def cost_model_fit(
    *, evidence: str = "measured", batches: tuple[int, ...] = (1, 8), contexts: tuple[int, ...] = (256,)
) -> pd.DataFrame:
    """Return step times linear in batch size and depth, predictions off by a few percent, one batch held out."""
    rows = []
    for batch in batches:
        for depth in range(5):
            for context in contexts:
                measured = 60 + 9 * batch + (14 + 1.5 * batch) * depth + 0.01 * context
                rows.append(
                    {
                        "num_speculative_tokens": depth,
                        "batch_size": batch,
                        "num_context_tokens": context,
                        "lora_rank": 8,
                        "measured_ms": measured,
                        "lower_ms": 0.97 * measured,
                        "upper_ms": 1.05 * measured,
                        "predicted_ms": measured * (1 + 0.06 * np.sin(depth + batch)),
                        "num_trials": 3,
                        "num_steps": 90,
                        "is_held_out": batch == batches[-1],
                    }
                )
    return _context(pd.DataFrame(rows), evidence).assign(interval_level=None)


def risk_coverage(num_adapters: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return a curve whose last tenth is wrong, and two halves of which one commits nothing when there are few."""
    shared = {"confidence": 0.9, "max_risk": 0.1, "max_loss": 0.05, "load_batch_size": 8.0, "mode": "checkpoint_only"}
    shared |= {"num_judged_sources": max(1, num_adapters // 3)}
    rows = [
        _risk_row("curve", num_adapters, n, max(0, n - 9 * num_adapters // 10), threshold=n / num_adapters)
        for n in range(1, num_adapters + 1)
    ]
    for direction, share in ((1, 0.7), (2, 0.0 if num_adapters < 4 else 0.6)):
        half = max(1, num_adapters // 2)
        num = int(share * half)
        row = _risk_row("certified", half, num, num // 10, threshold=share or None) | {"direction": direction}
        rows.append(row | {"num_committed_sources": num, "num_wrong_sources": num // 10})
    both = sum(row["num_committed"] for row in rows[-2:])
    rows.append(_risk_row("together", num_adapters, both, both // 10, threshold=None))
    empty = {"direction": None, "num_committed_sources": None, "num_wrong_sources": None, "upper_by_source": None}
    return _context(pd.DataFrame([empty | row | shared for row in rows]), evidence).assign(interval_level=None)


def _risk_row(kind: str, judged: int, num: int, wrong: int, *, threshold: float | None) -> dict[str, object]:
    risk = wrong / num if num else None
    upper = None if risk is None else min(1.0, risk + 1 / num**0.5)
    counts = {"num_judged": judged, "num_committed": num, "num_wrong": wrong, "coverage": num / judged}
    return {"kind": kind, "threshold": threshold, **counts, "risk": risk, "upper": upper}


def serving_stress(num_policies: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return policies that gain and lose at two loads, one beyond every frame, one with failed requests."""
    names = ("always_off", "always_standing_k", "best_static_k", "policy_file", "online_bandit", "oracle")
    policies = [*names, *(f"predictor_gated_variant_{i}" for i in range(100))][:num_policies]
    rows = []
    for pattern in ("uniform", "zipf", "bursty"):
        for mode in ("warm", "limited"):
            for rate in (1.0, 6.0):
                for i, policy in enumerate(policies):
                    gain = 0.0 if policy == "best_static_k" else 0.04 * np.sin(1 + i * rate)
                    gain = -0.9 if (policy, rate) == ("always_off", 6.0) else gain
                    regret = 0.0 if policy == "oracle" else 0.06 - 0.5 * gain
                    rows.append(
                        {
                            "pattern": pattern,
                            "cache_mode": mode,
                            "request_rate_req_s": rate,
                            "policy": policy,
                            "gain": gain,
                            "gain_lower": gain - 0.01,
                            "gain_upper": gain + 0.01,
                            "regret": regret,
                            "regret_lower": regret - 0.01,
                            "regret_upper": regret + 0.01,
                            "mean_e2el_ms": 900.0 / (1 + gain),
                            "p50_tpot_ms": 12.0,
                            "p99_ttft_ms": 310.0,
                            "candidates": "K=2, K=3",
                            "num_trials": 3,
                            "num_requests": 500,
                            "num_failed": 3 if gain < -0.5 else 0,
                            "num_good": 400,
                            "source": "simulated",
                        }
                    )
    return _context(pd.DataFrame(rows), evidence)


simulated_stress = serving_stress


def verdicts(num_adapters: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return one verdict per adapter, the last without a measured acceptance."""
    lengths = [*_lengths(num_adapters)[:-1], None]
    depths = [max(0, 3 - i) for i in range(num_adapters)]
    rows = [
        {
            "adapter": name,
            "stratum": _STRATA[min(2, 3 * i // num_adapters)],
            "acceptance_length": length,
            "lower": None if length is None else length - 0.06,
            "upper": None if length is None else length + 0.07,
            "base_acceptance_length": None if length is None else 2.15,
            "measured_action": "abstain" if length is None else ("red", "amber", "amber", "green")[depths[i]],
            "measured_num_speculative_tokens": None if length is None else depths[i],
            "speedup": None if length is None else 1.0 + 0.12 * depths[i],
            "speedup_lower": None if length is None else 0.9 + 0.12 * depths[i],
            "speedup_upper": None if length is None else 1.1 + 0.12 * depths[i],
            "speedup_level": None if length is None else 0.89,
            "speedup_num_speculative_tokens": None if length is None else depths[i] or 3,
            "predicted_action": "abstain",
            "probed_action": None,
            "reason_code": "R_INTERVAL_TOO_WIDE",
            "reason": "R_INTERVAL_TOO_WIDE the interval [1.02, 2.31] spans three actions; R_FEW_ADAPTERS 6 for fitting",
            "processor": "avx2 avx512f amx_tile",
        }
        for i, (name, length) in enumerate(zip(adapter_names(num_adapters), lengths, strict=True))
    ]
    return _context(pd.DataFrame(rows), evidence)


def gate_regret(num_adapters: int = 6, *, evidence: str = "measured") -> pd.DataFrame:
    """Return regrets of five policies, over two loads and at each; verdicts lose least."""
    policies = [
        ("always_off", "nothing", "plain", False, 0.06),
        ("always_standing_k", "nothing", "plain", False, 0.3),
        ("direct_probe", "probe of 4 prompts", "plain", False, 0.02),
        ("verdicts", "checkpoint_only", "plain", True, 0.2),
        ("verdicts", "measured", "live rule", True, 0.013),
        ("verdicts", "measured", "plain", True, 0.012),
    ]
    rows = [
        {
            "policy": policy,
            "basis": basis,
            "variant": variant,
            "is_ours": is_ours,
            "load_batch_size": load,
            "mean": mean * factor,
            **{f"p{share}": mean * factor * share / 50 for share in (5, 25, 50, 75, 95)},
            "num_mixes": 12,
            "num_adapters": num_adapters,
            "num_speculative_tokens": 3,
            "max_mean_regret": 0.03,
            "max_p95_regret": 0.1,
        }
        for policy, basis, variant, is_ours, mean in policies
        for load, factor in ((None, 1.0), (1, 0.5), (16, 1.5))
    ]
    frame = pd.DataFrame(rows).astype({"load_batch_size": "Int64"})
    return _context(frame, evidence).assign(interval_level=None)
