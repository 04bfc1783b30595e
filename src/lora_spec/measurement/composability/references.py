"""The texts that others are compared with: greedy, float32, no speculation, every adapter and the base.

They are written by the engine and judged by a plain forward pass of the target under PEFT, which shares no code with
the engine: each token must be that pass's greedy choice, ties excepted. Otherwise nothing can be judged and the run
stops. Texts under the grammar cannot be judged so: the pass knows no grammar.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lora_spec.errors import EngineError, MeasurementError
from lora_spec.measurement.composability.judge import judge_end
from lora_spec.measurement.composability.runner import CellRunner, References
from lora_spec.results import read_json, write_json_atomically

_AXES = {
    "method": "none",
    "prefix_caching": False,
    "chunked_prefill": False,
    "execution": "eager",
    "scheduling": "sync",
    "sampler": "greedy",
}
_KEPT = ("token_ids", "top_logprobs")


def make_references(runner: CellRunner, forms: Iterable[bool]) -> References:
    """Return text id to tokens and top two log-probabilities, free (False) or under the grammar (True).

    Texts of an earlier run with the same digest are reused.

    Raises
    ------
    EngineError
        The engine did not write them.
    MeasurementError
        They are not the target's greedy texts.
    """
    texts: dict[str, Mapping[str, Any]] = {}
    for is_held in sorted(forms):
        path = runner.folder / f"references_{'grammar' if is_held else 'free'}.json"
        digest = runner.digest(path.stem)
        kept = read_json(path) if path.exists() else {}
        if kept.get("digest") != digest:
            kept = {"digest": digest, **_write(runner, path.stem, is_held=is_held)}
            write_json_atomically(path, kept)
        texts |= kept["texts"]
    return texts


def _write(runner: CellRunner, name: str, *, is_held: bool) -> dict[str, Any]:
    waves = runner.load.reference_waves(is_held=is_held)
    # As many slots as adapters: here nothing is to be evicted, and the base is never in a batch with them.
    spec = runner.spec(_AXES, waves, max_loras=len(runner.load.adapters), is_scored=not is_held)
    end = runner.run(spec, name)
    failed = judge_end(end.process, end.report)
    if failed is not None or end.report is None:
        reason = failed["reason"] if failed else "no report"
        raise EngineError(f"no reference texts ({reason}); see {runner.folder / name / 'log.txt'}")
    texts = {name: {key: out[key] for key in _KEPT} for name, out in end.report["outputs"].items()}
    return {
        "check": None if is_held else _judge_scores(end.report, runner.judge_settings.near_tie_margin),
        "texts": texts,
    }


def _judge_scores(report: Mapping[str, Any], margin: float) -> dict[str, Any]:
    if "scores" not in report:
        raise EngineError(f"the reference texts could not be scored: {report['exception']}")
    return judge_references(report["scores"], margin)


def judge_references(scores: Mapping[str, Mapping[str, Any]], margin: float) -> dict[str, Any]:
    """Return how many tokens were judged and how many were ties.

    Raises
    ------
    MeasurementError
        A token is not the greedy choice of the forward pass, by more than the margin.
    """
    for name, score in scores.items():
        if max(score["gaps"]) > margin:
            at = score["gaps"].index(max(score["gaps"]))
            raise MeasurementError(
                f"reference text {name}: token {at} lies {score['gaps'][at]:.4f} below the greedy choice of a forward "
                "pass with that adapter, so the engine is wrong even without speculation and nothing can be compared"
            )
    gaps = [gap for score in scores.values() for gap in score["gaps"]]
    return {"num_tokens": len(gaps), "num_ties": sum(gap > 0 for gap in gaps), "max_gap": max(gaps)}
