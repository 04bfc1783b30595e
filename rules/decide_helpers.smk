"""Helpers of rules that predict, decide and hold policies against each other."""

from lora_spec.config.adapter_families import families_of
from lora_spec.config.effect_settings import effect_settings
from lora_spec.config.seed_groups import seed_noise_settings

PROBED_MODE = "checkpoint_calib"


def simulation_settings():
    """Return what the simulated grid needs beside results."""
    origins = {name: TIER.adapter_pool.find_origin(name) for name in ADAPTERS}
    most = TIER.models.engine.max_lora_rank
    names = pair_names()
    return {
        "traffic": plain(TIER.traffic),
        "baselines": plain(TIER.baselines),
        "engine": plain(TIER.models.engine),
        "ranks": {name: getattr(row, "rank", most) for name, row in origins.items()},
        "level": TIER.gate.level,
        "setup": (
            f"{names['target_model']} + {names['draft_model']}, {names['engine']}: simulated from measured acceptance of "
            f"{len(ADAPTERS)} adapters and measured step costs, {TIER.traffic.output_tokens} output tokens, greedy, "
            f"standing K={TIER.gate.standing_num_speculative_tokens}"
        ),
    }


def setup_in_words():
    """Return the line under every figure."""
    names = pair_names()
    own, common = TIER.prompts.own_evaluation, TIER.prompts.common_evaluation
    counted = {
        "lora": "counts by replay of texts served with LoRA, times with LoRA on",
        "merged": "counts by replay of merged weights, times with LoRA on",
    }
    return (
        f"{names['target_model']} + {names['draft_model']}, {names['engine']}, {counted[TIER.phase1_measurement.counting.weights]}, greedy, "
        f"standing K={TIER.gate.standing_num_speculative_tokens}, {own.num_prompts_per_adapter} own and {common.num_prompts_per_adapter} common prompts, "
        f"at most {own.max_tokens} tokens each"
    )


def scored_adapters():
    """Return the adapters that count where predictors are scored: no copies, no controls, no repeats."""
    return [name for name in TIER.adapter_pool.separate if name in ADAPTERS]


def scored_domains():
    """Return the domain of every adapter that counts."""
    return {name: TIER.adapter_pool.find(name).domain for name in scored_adapters()}


def comparison_settings():
    """Return what comparing predictors needs beside features, counts and step times."""
    return {
        "gate": plain(TIER.gate),
        "domains": domains(),
        "context": pair_names(),
        "scored": scored_adapters(),
        "setup": setup_in_words(),
    }


def gate_regret_settings():
    """Return what holding policies against the oracle needs beside acceptance, verdicts and step times."""
    return {
        "gate": plain(TIER.gate),
        "baselines": plain(TIER.baselines),
        "traffic": json.loads(chosen(TIER.traffic, "patterns", "output_tokens")),
        "context": pair_names(),
        "scored": scored_adapters(),
        "setup": setup_in_words(),
    }


def unseen_families_settings():
    """Return what leaving whole families out needs beside features, counts, predictions and step times."""
    return {
        "gate": plain(TIER.gate),
        "domains": domains(),
        "context": pair_names(),
        "scored": scored_adapters(),
        "families": families_of(TIER.adapter_pool, ADAPTERS),
    }


def unseen_families_results():
    """Return the evaluation of unseen families where it is made by itself: by a fresh run, or if it is shipped.

    It takes minutes of fitting, which who only redraws figures did not ask for; the rule's name does.
    """
    is_made = MEASUREMENTS == "fresh" or kept_fits("unseen_families")
    is_made = is_made and can_compare_predictors()
    return [f"results/{RUN}/predictor/unseen_families.json"] if is_made else []


def can_compare_predictors():
    """Return whether the scored adapters come from enough domains to compare predictors on."""
    num_domains = len({domains()[name] for name in scored_adapters()})
    return num_domains >= TIER.gate.comparison.min_sources


def has_probe_curve():
    """Return whether predictors are compared on adapters that are all probed: then a second one sees the probes too."""
    probed = calibration_records()
    return (
        can_compare_predictors()
        and bool(probed)
        and len(probed) == len(calibrated_adapters())
    )


def predictions_by_mode():
    """Return the held-out predictions that verdicts are made of: in the gate's mode, and with probes."""
    names = ["predictions", *(["probed/predictions"] if has_probe_curve() else [])]
    return [f"results/{{run}}/predictor/{name}.json" for name in names]


def certifications_by_mode():
    """Return the certificates of these, in the same order."""
    probed = ["predictor/probed/certification"] if has_probe_curve() else []
    return [f"results/{{run}}/{name}.json" for name in ("certification", *probed)]


def predictor_settings():
    """Return what fitting a predictor needs beside features and records."""
    return {"gate": plain(TIER.gate), "domains": domains(), "context": pair_names()}


def probe_curve_table():
    """Return the table of figure 4b, where adapters are probed."""
    return ["results/{run}/tables/probe_curve.csv"] if has_probe_curve() else []


def kept_fits(*names):
    """Return results of fits that are shipped beside the records; a fresh run makes its own."""
    paths = [f"{RECORDS}/predictor/{name}.json" for name in names]
    is_kept = MEASUREMENTS == "shipped" and all(
        (ROOT / path).exists() for path in paths
    )
    return paths if is_kept else []


def study_settings():
    """Return what the tables need beside the results."""
    return {
        "tier": TIER.name,
        "setup": setup_in_words(),
        "pool": {name: plain(TIER.adapter_pool.find(name)) for name in ADAPTERS},
        "gate": plain(TIER.gate),
    }


MODES = (
    "measured",
    TIER.gate.predictor.mode,
    *([PROBED_MODE] if has_probe_curve() else []),
)
