"""Tables of the figures that set policies side by side."""

from dataclasses import replace

from lora_spec.plots.frame_schema import Column, FrameSchema

GATE_REGRET = FrameSchema(
    "gate_regret",
    {
        "policy": Column("str", "policy that chooses depths"),
        "basis": Column("str", "what it knows of an adapter: nothing, a feature mode, a probe, live traffic"),
        "variant": Column("str", "how it differs from another one of this policy and basis; plain: as it stands"),
        "is_ours": Column("bool", "verdicts of the gate, for which the bars are"),
        "load_batch_size": Column("int", "requests in the batch; missing: all loads together", True),
        "mean": Column("float", "mean regret: share of the oracle's goodput that is lost"),
        **{f"p{share}": Column("float", f"its {share} % quantile over mixes") for share in (5, 25, 50, 75, 95)},
        "num_mixes": Column("int", "mixes that this row is over, once per load"),
        "num_adapters": Column("int", "adapters that mixes are drawn from"),
        "num_speculative_tokens": Column("int", "standing depth K, the deepest that any policy may choose"),
        "max_mean_regret": Column("float", "bar for the mean"),
        "max_p95_regret": Column("float", "bar for the 95 % quantile"),
    },
    key=("policy", "basis", "variant", "load_batch_size"),
    intervals=(("p5", "p95"), ("p25", "p75")),
    one_value=("num_adapters", "num_speculative_tokens", "max_mean_regret", "max_p95_regret"),
)

SERVING_STRESS = FrameSchema(
    "serving_stress",
    {
        "pattern": Column("str", "traffic pattern"),
        "cache_mode": Column("str", "adapter cache: warm, all fit; limited, they compete for slots"),
        "request_rate_req_s": Column("float", "offered load, requests per second"),
        "policy": Column("str", "policy that chooses depths"),
        "gain": Column("float", "mean time per request of the best static depth over the policy's, minus 1"),
        "gain_lower": Column("float", "its lower bound over trials; missing with one trial", True),
        "gain_upper": Column("float", "its upper bound", True),
        "regret": Column("float", "the policy's over the oracle's, minus 1; missing where no oracle was run", True),
        "regret_lower": Column("float", "its lower bound over trials", True),
        "regret_upper": Column("float", "its upper bound", True),
        "mean_e2el_ms": Column("float", "mean time per request, from due to last token, ms"),
        "p50_tpot_ms": Column("float", "median time per output token after the first, ms, mean of trials", True),
        "p99_ttft_ms": Column("float", "99th percentile of the time to the first token, ms, mean of trials", True),
        "candidates": Column("str", "what was run, or what hindsight took, over the trials"),
        "num_trials": Column("int", "runs, each of its own arrivals, the same for all policies"),
        "num_requests": Column("int", "requests due after the warm-up, all trials"),
        "num_failed": Column("int", "of them, those that did not end"),
        "num_good": Column("int", "of them, those that met the service level"),
        "source": Column("str", "where the times come from", choices=("simulated", "live")),
    },
    key=("pattern", "cache_mode", "request_rate_req_s", "policy"),
    intervals=(("gain_lower", "gain_upper"), ("regret_lower", "regret_upper")),
    one_value=("source",),
)

SIMULATED_STRESS = replace(SERVING_STRESS, name="simulated_stress")
"""The same of simulated runs: of the whole pool, at more loads, under every policy."""
