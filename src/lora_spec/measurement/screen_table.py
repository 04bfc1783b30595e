"""The table of a screening: adapter to acceptance per draft position, its base beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lora_spec.config import Tier
from lora_spec.errors import ResultError
from lora_spec.joins import by_adapter
from lora_spec.measurement.progress import tell
from lora_spec.measurement.record_table import read_records
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.provenance import collect_provenance
from lora_spec.records import AcceptanceRecord
from lora_spec.results import naming, write_result

_ESTIMATING = ("num_speculative_tokens", "min_drafts", "level", "num_bootstrap_draws", "seed")


def write_screen_table(path: Path, records: Sequence[Path], tier: Tier) -> None:
    """Write the table of some records as a result, in the order of the pool, and show it.

    Raises
    ------
    ResultError
        As of :func:`read_screened`.
    """
    phase1 = tier.phase1_measurement
    settings = SummarySettings(**{key: getattr(phase1, key) for key in _ESTIMATING})
    rows = []
    for file, record in read_screened(records, tier):
        with naming(file):
            rows.append(screen_row(record, settings, domain=tier.adapter_pool.find(record.adapter).domain))
    rows.sort(key=lambda row: tier.adapter_pool.names.index(row["adapter"]))
    config = {key: getattr(phase1, key) for key in _ESTIMATING}
    write_result(
        path,
        kind="screen_table",
        evidence="measured",
        tier=tier.name,
        provenance=collect_provenance(config=config, seed=phase1.seed),
        payload={"pair": tier.models.primary.name, "rows": rows},
    )
    tell("\n".join(screen_lines(rows)))


def read_screened(
    files: Sequence[Path], tier: Tier, *, to_come: Sequence[str] = ()
) -> list[tuple[Path, AcceptanceRecord]]:
    """Return records by file, each of another adapter of the tier's pool.

    Parameters
    ----------
    to_come
        Adapters that are measured next, and so must not be among these.

    Raises
    ------
    ResultError
        A record is missing, of another tier, of an adapter that the pool lacks, or of one that stands twice.
    """
    read = [(file, read_records(file, tier=tier.name)) for file in files]
    by_adapter([*(record.adapter for _, record in read), *to_come], str, what="acceptance records")
    for file, record in read:
        if record.adapter not in tier.adapter_pool.names:
            raise ResultError(f"{file}: holds adapter {record.adapter!r}, which the pool lacks; leave it out")
    return read


def screen_row(record: AcceptanceRecord, settings: SummarySettings, *, domain: str) -> dict[str, Any]:
    """Return one adapter's a_1..a_K and E_K at the standing depth K, and those of its base, on its own traffic."""
    summary = summarise_record(record, settings)
    depth = settings.num_speculative_tokens
    own = next(effect for effect in summary["effects"] if effect["prompt_set"] == "own")

    def arm(name: str) -> dict[str, Any]:
        counts = own["counts"][name]
        per_pos = [accepted / counts["num_drafts"] for accepted in counts["num_accepted_tokens_per_pos"]]
        return {
            "num_drafts": counts["num_drafts"],
            "acceptance_rate_per_pos": per_pos,
            "acceptance_length": 1 + sum(per_pos),
        }

    return {
        "adapter": record.adapter,
        "domain": domain,
        "num_speculative_tokens": depth,
        "adapted": arm("adapted"),
        "base": arm("base"),
        "acceptance_length_difference": own["acceptance_length_difference"],
        "mismatch": own["mismatch"],
    }


def screen_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table as lines of text, the strongest loss of acceptance length first."""
    width = max((len(row["adapter"]) for row in rows), default=7)
    lines = [f"{'adapter':{width}}  E_K   base  a_1..a_K"]
    for row in sorted(rows, key=lambda row: row["acceptance_length_difference"]["estimate"]):
        adapted, base = row["adapted"], row["base"]
        rates = " ".join(f"{rate:.2f}" for rate in adapted["acceptance_rate_per_pos"])
        lines.append(
            f"{row['adapter']:{width}}  {adapted['acceptance_length']:.2f}  {base['acceptance_length']:.2f}  {rates}"
        )
    return lines
