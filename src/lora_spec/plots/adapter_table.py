"""The table of adapters: how each was made, how well it does its task, what of its domain the drafter has seen."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from typing_extensions import TypedDict

from lora_spec.config.adapter_pool import Adapter
from lora_spec.config.fields import Text
from lora_spec.errors import ResultError
from lora_spec.joins import by_adapter
from lora_spec.plots.frame_schema import Column, FrameSchema
from lora_spec.results import read_json, write_all_atomically
from lora_spec.training.overlap import OverlapPayload, answer_share
from lora_spec.typed import check_type

_ORDER = 4
"""Length of the n-grams that the table shows: phrases, and not yet whole sentences."""
_MISSING = "-"
_CSS = """
body { font: 14px/1.4 sans-serif; margin: 1.5em; color: #222 }
table { border-collapse: collapse } th, td { padding: .2em .7em; text-align: left; border-bottom: 1px solid #ddd }
"""


class AdapterTableSettings(TypedDict):
    """What the table needs beside results; ``pool`` holds the rows of the adapters, in order."""

    tier: Text
    setup: Text
    pool: list[Adapter]


class HeldOutScore(TypedDict):
    """Raw sums over held-out pairs, of which :class:`lora_spec.training.task_score.TaskScore` says what they mean."""

    num_pairs: int
    num_exact_pairs: int
    num_answer_tokens: int
    num_correct_tokens: int
    sum_loss_nats: float


class HeldOutScores(TypedDict):
    """The same pairs before and after training."""

    before: HeldOutScore
    after: HeldOutScore


ADAPTER_TABLE = FrameSchema(
    "adapters",
    {
        "adapter": Column("str", "name of the adapter"),
        "domain": Column("str", "task whose text it is trained on and whose prompts are its own traffic"),
        "stratum": Column("str", "expected shift, fixed by design before anything was measured"),
        "made": Column("str", "trained, shipped (trained before), scaled or random (from its parent), hub (published)"),
        "parent": Column("str", "adapter that a scaled or random one comes from", True),
        "method": Column("str", "LoRA, rsLoRA or LoRA+; of the parent where there is one", True),
        "rank": Column("int", "LoRA rank r", True),
        "alpha": Column("float", "LoRA alpha", True),
        "target_modules": Column("str", "modules with an update, joined by +", True),
        "learning_rate": Column("float", "peak learning rate of A", True),
        "num_steps": Column("int", "optimiser steps", True),
        "batch_size": Column("int", "pairs per step", True),
        "seed": Column("int", "seed of initialisation and data order", True),
        "license": Column("str", "licence of the training text, or of a published adapter"),
        "num_pairs": Column("int", "held-out pairs that the task is scored on", True),
        "num_answer_tokens": Column("int", "their answer tokens", True),
        "loss_nats_before": Column("float", "loss per answer token before training, nats", True),
        "loss_nats_after": Column("float", "the same after training", True),
        "token_accuracy_before": Column("float", "share of answer tokens that are the base's first choice", True),
        "token_accuracy_after": Column("float", "share that are the adapted model's first choice", True),
        "exact_share_after": Column("float", "share of pairs whose whole answer greedy decoding gives", True),
        "seen_ngram_share": Column("float", f"share of wanted {_ORDER}-grams in the drafter's training text", True),
        "num_seen_prompts": Column("int", "own evaluation prompts that were prompts of the drafter's training", True),
    },
    key=("adapter",),
)


def read_held_out_scores(folder: Path, name: str) -> HeldOutScores:
    """Return what an adapter's ``recipe.json`` says of its task.

    Raises
    ------
    ResultError
        It says nothing of it, is of another adapter, or its sums cannot be.
    """
    path = folder / "recipe.json"
    recipe, kept = read_json(path), HeldOutScore.__annotations__
    told = {when: recipe.get(f"held_out_{when}") if isinstance(recipe, dict) else None for when in ("before", "after")}
    scores = {
        when: {key: score.get(key) for key in kept} if isinstance(score, dict) else score
        for when, score in told.items()
    }
    found = check_type(HeldOutScores, scores, str(path))
    row = recipe.get("row")
    if isinstance(row, dict) and row.get("name", name) != name:
        raise ResultError(f"{path}: is of adapter {row['name']!r}, asked for {name!r}; give that adapter's folder")
    if not all(map(_can_be, found.values())) or len({_sizes(score) for score in found.values()}) > 1:
        raise ResultError(f"{path}: its held-out sums contradict each other; train the adapter again")
    return found


def _sizes(score: HeldOutScore) -> tuple[int, int]:
    return score["num_pairs"], score["num_answer_tokens"]


def _can_be(score: HeldOutScore) -> bool:
    pairs, tokens = _sizes(score)
    parts = ((score["num_exact_pairs"], pairs), (score["num_correct_tokens"], tokens))
    return score["sum_loss_nats"] >= 0 and all(0 <= part <= whole != 0 for part, whole in parts)


def adapter_frame(
    pool: Sequence[Mapping[str, Any]],
    scores: Mapping[str, HeldOutScores],
    overlap: OverlapPayload | None,
    *,
    tier: str,
    setup: str,
) -> pd.DataFrame:
    """Return the checked table, in the order of the pool.

    Parameters
    ----------
    pool
        Rows of adapters; a derived one whose parent is not among them has no method, rank and alpha.
    scores
        Task scores by name, of the adapters that have a training record.
    overlap
        None where nobody knows the drafter's training text.

    Raises
    ------
    ResultError
        A row stands twice, or scores are of an adapter without a row.
    """
    rows = by_adapter(pool, lambda row: row["name"], what="rows of the pool")
    if strange := sorted(set(scores) - set(rows)):
        raise ResultError(f"adapter {strange[0]!r} has task scores and no row in the pool; leave it out")
    seen = {} if overlap is None else {domain["domain"]: domain for domain in overlap["domains"]}
    context = {
        "tier": tier,
        "evidence": "measured",
        "setup": setup,
        "interval_level": None,
        "num_rows": len(rows),
    }
    table = [
        {**_design(row, rows), **_score(scores.get(name)), **_seen(seen.get(row["domain"])), **context}
        for name, row in rows.items()
    ]
    return ADAPTER_TABLE.check(pd.DataFrame(table, columns=list(ADAPTER_TABLE.columns)))


def _design(row: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    recipe = rows.get(row.get("parent") or row["name"], {})
    modules = recipe.get("target_modules")
    copied = ("rank", "alpha")
    trained = ("learning_rate", "num_steps", "batch_size", "seed")
    return {
        "adapter": row["name"],
        "made": row["source"],
        "parent": row.get("parent"),
        "method": _method(recipe),
        "target_modules": "+".join(modules) if modules else None,
        **{key: row[key] for key in ("domain", "stratum", "license")},
        **{key: recipe.get(key) for key in copied},
        **{key: row.get(key) for key in trained},
    }


def _method(recipe: Mapping[str, Any]) -> str | None:
    if "use_rslora" not in recipe:
        return None
    plain = "rsLoRA" if recipe["use_rslora"] else "LoRA"
    return f"{plain}+" if recipe.get("lora_plus_ratio", 1) > 1 else plain


def _score(scores: HeldOutScores | None) -> dict[str, Any]:
    if scores is None:
        return {}
    before, after = scores["before"], scores["after"]
    num_tokens = after["num_answer_tokens"]
    return {
        "num_pairs": after["num_pairs"],
        "num_answer_tokens": num_tokens,
        "loss_nats_before": before["sum_loss_nats"] / num_tokens,
        "loss_nats_after": after["sum_loss_nats"] / num_tokens,
        "token_accuracy_before": before["num_correct_tokens"] / num_tokens,
        "token_accuracy_after": after["num_correct_tokens"] / num_tokens,
        "exact_share_after": after["num_exact_pairs"] / after["num_pairs"],
    }


def _seen(domain: Any) -> dict[str, Any]:
    if domain is None:
        return {}
    share = answer_share(domain, split="eval", n=_ORDER)
    return {"seen_ngram_share": share, "num_seen_prompts": domain["evaluation_prompts"]["num_exact"]}


def save_adapter_table(frame: pd.DataFrame, stem: Path, *, csv: Path) -> None:
    """Write the table as ``csv``, and the columns that fit a screen as ``stem``.txt and .html."""
    table, shown = ADAPTER_TABLE.check(frame), _shown(frame)
    footer = f"tier {frame['tier'].iloc[0]}; task scores on held-out pairs, teacher-forced; {frame['setup'].iloc[0]}"
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Adapters</title>'
        f"<style>{_CSS}</style></head><body>\n{shown.to_html(index=False, border=0)}\n"
        f"<footer>{html.escape(footer)}</footer></body></html>\n"
    )
    files = {
        csv: table.to_csv(index=False, lineterminator="\n"),
        stem.parent / f"{stem.name}.txt": f"{shown.to_string(index=False)}\n\n{footer}\n",
        stem.parent / f"{stem.name}.html": page,
    }
    write_all_atomically({path: text.encode() for path, text in files.items()})


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    def numbers(name: str, form: str = "{:.2f}") -> list[str]:
        return [_MISSING if pd.isna(value) else form.format(value) for value in frame[name]]

    def change(name: str) -> list[str]:
        pairs = zip(numbers(f"{name}_before"), numbers(f"{name}_after"), strict=True)
        return [_MISSING if before == _MISSING else f"{before} > {after}" for before, after in pairs]

    columns = {
        "adapter": frame["adapter"],
        "stratum": frame["stratum"],
        "method": frame["method"].fillna(_MISSING),
        "r": numbers("rank", "{}"),
        "rate": numbers("learning_rate", "{:g}"),
        "steps": numbers("num_steps", "{}"),
        "loss (nats)": change("loss_nats"),
        "tokens right": change("token_accuracy"),
        "exact": numbers("exact_share_after"),
        f"{_ORDER}-grams seen": numbers("seen_ngram_share"),
        "prompts seen": numbers("num_seen_prompts", "{}"),
    }
    return pd.DataFrame(columns)
