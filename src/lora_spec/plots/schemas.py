"""The tables that figures are drawn from: column names, types and meanings, declared once."""

from typing import get_args

from lora_spec.plots.frame_schema import Column, FrameSchema
from lora_spec.plots.statuses import STATUS_STYLES, UNMEASURED
from lora_spec.records import Action, Mode

_ACTIONS = get_args(Action)

COMPOSABILITY = FrameSchema(
    "composability",
    {
        "method": Column("str", "speculation method"),
        "lora": Column("str", "adapters in a batch; any: all values, of a method that is not run"),
        "axis": Column("str", "feature whose value the row is about"),
        "value": Column("str", "its value"),
        "status": Column("str", "worst status of the cells measured there", choices=(*STATUS_STYLES, *UNMEASURED)),
        "num_measured": Column("int", "measured cells; each counts once under every feature"),
        **{f"num_{status}": Column("int", f"of them, those whose status is {status}") for status in STATUS_STYLES},
    },
    key=("method", "lora", "axis", "value"),
)

PAIRED_EFFECT = FrameSchema(
    "paired_effect",
    {
        "adapter": Column("str", "name of the adapter"),
        "stratum": Column("str", "group of adapters by expected strength, in the order of first appearance"),
        "prompt_set": Column(
            "str", "own: the adapter's traffic; common: the shared prompts", choices=("own", "common")
        ),
        "delta_acceptance_length": Column("float", "adapted minus base, tokens per draft step, same prompts"),
        "lower": Column("float", "lower bound of the difference"),
        "upper": Column("float", "upper bound of the difference"),
        "num_prompts": Column("int", "paired prompts"),
        "num_drafts": Column("int", "draft steps of both arms together"),
        "threshold": Column("float", "difference at which the pre-registered effect line lies for this row"),
        "min_accepted_loss": Column("float", "that line as a share of the base's accepted drafts, in [0, 1]"),
        "num_speculative_tokens": Column("int", "K of both acceptance lengths"),
        "conclusion": Column("str", "answer of the effect rule for the whole pool, with its numbers"),
    },
    key=("adapter", "prompt_set"),
    intervals=(("lower", "upper"),),
    one_value=("conclusion", "num_speculative_tokens", "min_accepted_loss"),
)

PREDICTED_VS_MEASURED = FrameSchema(
    "predicted_vs_measured",
    {
        "adapter": Column("str", "name of the adapter"),
        "source": Column("str", "left-out group (domain or task family) the prediction never saw"),
        "mode": Column("str", "feature mode of the predictor", choices=get_args(Mode)),
        "num_speculative_tokens": Column("int", "K of both acceptance lengths"),
        "measured": Column("float", "measured acceptance length, tokens per draft step"),
        "measured_lower": Column("float", "its lower bound"),
        "measured_upper": Column("float", "its upper bound"),
        "predicted": Column("float", "predicted acceptance length; missing where none could be made", True),
        "predicted_lower": Column("float", "its lower bound", True),
        "predicted_upper": Column("float", "its upper bound", True),
        "is_abstained": Column("bool", "the gate would not act on it; missing where it is not asked", True),
    },
    key=("adapter", "mode"),
    intervals=(("measured_lower", "measured_upper"), ("predicted_lower", "predicted_upper")),
    one_value=("num_speculative_tokens",),
)

PREDICTOR_SCORES = FrameSchema(
    "predictor_scores",
    {
        "predictor": Column("str", "name of the predictor, or of the null"),
        "mode": Column("str", "feature mode; missing for nulls", True, get_args(Mode)),
        "score": Column(
            "str",
            "spearman: guessed with measured acceptance length; auroc: of the question",
            choices=("spearman", "auroc"),
        ),
        "estimate": Column("float", "the score; missing where it is undefined or may not be given", True),
        "lower": Column("float", "its lower bound", True),
        "upper": Column("float", "its upper bound", True),
        "permutation_p": Column("float", "p of the order, one-sided; missing for AUROC", True),
        "num_adapters": Column("int", "adapters scored: separately trained, no copies and no repeats"),
        "num_sources": Column("int", "groups that they come from, each left out whole"),
        "num_speculative_tokens": Column("int", "standing depth K"),
        "question": Column("str", "what AUROC is about, in words"),
        "unscored": Column("str", "why no AUROC may be given; missing where it is", True),
    },
    key=("predictor", "mode", "score"),
    intervals=(("lower", "upper"),),
    one_value=("num_adapters", "num_sources", "num_speculative_tokens", "question", "unscored"),
)

PROBE_CURVE = FrameSchema(
    "probe_curve",
    {
        "num_prompts": Column("int", "calibration prompts"),
        "contender": Column(
            "str",
            "direct_probe: acceptance on them alone; predictor: fitted on all signals; difference: the second's score "
            "less the first's, on the same draws of sources",
            choices=("direct_probe", "predictor", "difference"),
        ),
        "estimate": Column("float", "Spearman with measured acceptance length; missing where undefined", True),
        "lower": Column("float", "its lower bound", True),
        "upper": Column("float", "its upper bound", True),
        "lower_wall_s": Column("float", "least cost per adapter, seconds on the wall; missing for differences", True),
        "upper_wall_s": Column("float", "most cost per adapter, seconds on the wall", True),
        "lower_cpu_s": Column("float", "least cost per adapter, seconds of all cores together", True),
        "upper_cpu_s": Column("float", "most cost per adapter, seconds of all cores together", True),
        "predictor": Column("str", "name of the predictor, fixed in gate.yaml"),
        "without_probe": Column("float", "its Spearman in the mode that verdicts rest on, without any prompt", True),
        "without_probe_mode": Column("str", "that mode", choices=get_args(Mode)),
        "mean_other_cores": Column("float", "cores that other processes used while probes ran: then wall times grow"),
        "num_adapters": Column("int", "adapters scored: separately trained, no copies and no repeats"),
        "num_sources": Column("int", "groups that they come from, each left out whole"),
        "num_speculative_tokens": Column("int", "standing depth K"),
    },
    key=("num_prompts", "contender"),
    intervals=(("lower", "upper"), ("lower_wall_s", "upper_wall_s"), ("lower_cpu_s", "upper_cpu_s")),
    one_value=(
        "predictor",
        "without_probe",
        "without_probe_mode",
        "mean_other_cores",
        "num_adapters",
        "num_sources",
        "num_speculative_tokens",
    ),
)

RANK_DISAGREEMENT = FrameSchema(
    "rank_disagreement",
    {
        "adapter": Column("str", "name of the adapter"),
        "load_batch_size": Column("int", "requests in the batch"),
        "acceptance_length": Column("float", "tokens per draft step, the same at every load"),
        "acceptance_rank": Column("float", "1 = highest acceptance length; ties share their mean rank"),
        "num_speculative_tokens": Column("int", "the adapter's best depth at this load; 0 is speculation off"),
        "speedup": Column("float", "throughput at that depth over that without speculation, a ratio"),
        "throughput_rank": Column("float", "1 = highest speedup at this load; ties share their mean rank"),
        "lower": Column("float", "lower bound of the speedup at whichever depth is best"),
        "upper": Column("float", "upper bound of the same"),
        "num_won": Column("int", "inversions: adapters that accept more and are slower at this load"),
        "num_lost": Column("int", "adapters that accept less and are faster at this load"),
        "num_clear_won": Column("int", "of those won, ratios of the two speedups that differ from 1 beyond noise"),
        "num_clear_lost": Column("int", "the same of those lost"),
        "standing_num_speculative_tokens": Column("int", "K of the acceptance length"),
    },
    key=("adapter", "load_batch_size"),
    intervals=(("lower", "upper"),),
    one_value=("standing_num_speculative_tokens",),
)

DECISION_MAP = FrameSchema(
    "decision_map",
    {
        "kind": Column(
            "str", "cell: a point of the map; adapter: one adapter at one load", choices=("cell", "adapter")
        ),
        "adapter": Column("str", "name of the adapter; missing for cells", True),
        "mode": Column("str", "where an adapter's acceptance comes from; missing for cells", True, get_args(Mode)),
        "acceptance_length": Column("float", "at the standing depth, tokens per draft step"),
        "lower": Column("float", "lower bound of the acceptance length; missing for cells", True),
        "upper": Column("float", "upper bound of the acceptance length; missing for cells", True),
        "load_batch_size": Column("int", "requests in the batch"),
        "num_speculative_tokens": Column("int", "best depth; missing where the action is abstain", True),
        "action": Column("str", "best action", choices=_ACTIONS),
        "speedup": Column("float", "best throughput over that without speculation; missing on abstain", True),
        "standing_num_speculative_tokens": Column("int", "depth that the fleet runs today"),
    },
    key=("kind", "adapter", "acceptance_length", "load_batch_size"),
    intervals=(("lower", "upper"),),
    one_value=("standing_num_speculative_tokens",),
)

COST_MODEL_FIT = FrameSchema(
    "cost_model_fit",
    {
        "num_speculative_tokens": Column("int", "drafted tokens per step"),
        "batch_size": Column("int", "requests in the batch"),
        "num_context_tokens": Column("int", "tokens of context per request"),
        "lora_rank": Column("int", "rank served; 0 without LoRA"),
        "measured_ms": Column("float", "step time over all trials"),
        "lower_ms": Column("float", "smallest step time of a trial"),
        "upper_ms": Column("float", "largest step time of a trial"),
        "predicted_ms": Column("float", "step time of the cost model"),
        "num_trials": Column("int", "interleaved trials"),
        "num_steps": Column("int", "timed steps over all trials"),
        "is_held_out": Column("bool", "the prediction comes from a fit without this cell"),
    },
    key=("num_speculative_tokens", "batch_size", "num_context_tokens", "lora_rank"),
    intervals=(("lower_ms", "upper_ms"),),
)

RISK_COVERAGE = FrameSchema(
    "risk_coverage",
    {
        "kind": Column(
            "str",
            "curve: all judged adapters up to one doubt; certified: one half of the sources, at the limit that the "
            "other half chose; together: both halves",
            choices=("curve", "certified", "together"),
        ),
        "direction": Column("int", "1 or 2: which half certified; missing elsewhere", True),
        "threshold": Column("float", "largest doubt committed; missing where none is, or where there are two", True),
        "num_judged": Column("int", "adapters judged"),
        "num_judged_sources": Column("int", "their sources"),
        "num_committed": Column("int", "of them within the limit"),
        "num_wrong": Column("int", "committed verdicts whose depth loses more than max_loss of goodput"),
        "coverage": Column("float", "share of the judged that is committed"),
        "risk": Column("float", "share of the committed that is wrong; missing where none is committed", True),
        "upper": Column("float", "one-sided upper bound of the risk, adapters taken as independent", True),
        "num_committed_sources": Column("int", "sources with a committed verdict; missing on the curve", True),
        "num_wrong_sources": Column("int", "of them with a wrong one; missing on the curve", True),
        "upper_by_source": Column("float", "one-sided upper bound of the share of sources with a wrong one", True),
        "confidence": Column("float", "of the bounds"),
        "max_risk": Column("float", "risk at which the limit is chosen"),
        "max_loss": Column("float", "share of goodput that a verdict may lose without being wrong"),
        "load_batch_size": Column("float", "load of the verdicts, requests in the batch"),
        "mode": Column("str", "feature mode of the predictions", choices=get_args(Mode)),
    },
    key=("mode", "kind", "direction", "threshold"),
    one_value=("confidence", "max_risk", "max_loss", "load_batch_size"),
)

VERDICT_TABLE = FrameSchema(
    "verdict_table",
    {
        "adapter": Column("str", "name of the adapter"),
        "stratum": Column("str", "group of adapters by expected strength"),
        "acceptance_length": Column("float", "measured, tokens per draft step", True),
        "lower": Column("float", "its lower bound", True),
        "upper": Column("float", "its upper bound", True),
        "base_acceptance_length": Column("float", "the same of the unadapted target on the same prompts", True),
        "measured_action": Column("str", "verdict from measured acceptance", choices=_ACTIONS),
        "measured_num_speculative_tokens": Column("int", "depth of that verdict", True),
        "speedup": Column("float", "modelled throughput over that without speculation", True),
        "speedup_lower": Column("float", "its lower bound", True),
        "speedup_upper": Column("float", "its upper bound", True),
        "speedup_level": Column("float", "least level of that interval: a product of bounds holds at less", True),
        "speedup_num_speculative_tokens": Column(
            "int", "depth of the speedup: the verdict's, or the standing one where that is 0 or none", True
        ),
        "predicted_action": Column("str", "verdict from the checkpoint", True, _ACTIONS),
        "probed_action": Column("str", "the same with a calibration probe", True, _ACTIONS),
        "reason_code": Column("str", "kind of the first reason of the predicted verdict", True),
        "reason": Column("str", "that reason in words", True),
        "processor": Column("str", "what the timed processor has of avx2, avx512f, amx_tile; missing: unknown", True),
    },
    key=("adapter",),
    intervals=(("lower", "upper"), ("speedup_lower", "speedup_upper")),
    one_value=("processor",),
)
