"""How much of acceptance is the adapter and how much is what is asked: variance components on the common prompts.

The domain of a prompt moves acceptance about as much as an adapter does, so neither is read off without the other.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceRecord

Array = NDArray[np.float64]


def prompt_table(records: Sequence[AcceptanceRecord], *, depth: int, prompt_set: str = "common") -> pd.DataFrame:
    """Return one row per adapter and prompt of the adapted arm: ``adapter, domain, prompt_id, acceptance_length``."""
    rows = [
        {
            "adapter": measured.adapter,
            "domain": record.domain,
            "prompt_id": record.prompt_id,
            "acceptance_length": record.counts.acceptance_length,
        }
        for measured in records
        for record in measured.chosen("replay")
        if (record.arm, record.prompt_set, record.counts.num_speculative_tokens) == ("adapted", prompt_set, depth)
    ]
    return pd.DataFrame(rows, columns=["adapter", "domain", "prompt_id", "acceptance_length"])


def variance_components(table: pd.DataFrame) -> dict[str, Any]:
    """Return the variances of y = mean + adapter + domain + prompt in domain + adapter x domain + residual.

    All effects are random. The estimates equate mean squares to their expectations, which is unbiased in a balanced
    design: prompts that some adapter gave no draft on are left out, and domains are cut to equally many prompts. (A
    likelihood fit by statsmodels ``MixedLM`` took half a minute for 30 adapters and did not converge.)

    References: Searle, Casella and McCulloch 1992, "Variance Components", section 4.3.

    Raises
    ------
    MeasurementError
        There are fewer than two adapters or prompts in common.
    """
    y, num_dropped = _balanced(table)
    num_adapters, num_domains, num_prompts = y.shape
    if num_adapters < 2 or num_domains * num_prompts < 2:
        raise MeasurementError(
            f"variances need two adapters and two prompts that all answered, there are {num_adapters} adapters and "
            f"{num_domains * num_prompts} prompts; measure more"
        )
    variances = _variances(y)
    total = sum(variances.values())
    return {
        "mean_acceptance_length": float(y.mean()),
        "variances": variances,
        "shares": {name: value / total if total else 0.0 for name, value in variances.items()},
        "num_adapters": num_adapters,
        "num_domains": num_domains,
        "num_prompts_per_domain": num_prompts,
        "num_prompts_left_out": num_dropped,
    }


def _balanced(table: pd.DataFrame) -> tuple[Array, int]:
    """Return y of shape ``(adapters, domains, prompts)`` and the number of prompts left out."""
    wide = table.pivot_table(
        index="adapter", columns=["domain", "prompt_id"], values="acceptance_length", dropna=False
    ).dropna(axis="columns")
    by_domain = [wide[domain].to_numpy(float) for domain in wide.columns.unique("domain")]
    num_prompts = min((part.shape[1] for part in by_domain), default=0)
    y = np.array([part[:, :num_prompts] for part in by_domain], float).reshape(len(by_domain), len(wide), num_prompts)
    return y.transpose(1, 0, 2), table["prompt_id"].nunique() - len(by_domain) * num_prompts


def _variances(y: Array) -> dict[str, float]:
    """Solve the expected mean squares from the residual upwards; what comes out negative is zero."""
    a, d, p = y.shape
    cell, adapter, domain, prompt = y.mean(axis=2), y.mean(axis=(1, 2)), y.mean(axis=(0, 2)), y.mean(axis=0)
    mean = y.mean()
    residuals = y - cell[:, :, None] - prompt[None] + domain[None, :, None]
    ms_residual = float((residuals**2).sum()) / max(1, (a - 1) * d * (p - 1))
    ms_prompt = a * float(((prompt - domain[:, None]) ** 2).sum()) / max(1, d * (p - 1))
    ms_adapter = d * p * float(((adapter - mean) ** 2).sum()) / (a - 1)
    found = {"prompt": (ms_prompt - ms_residual) / a, "residual": ms_residual}
    ms_crossed = ms_residual
    if d > 1:
        crossed = cell - adapter[:, None] - domain[None] + mean
        ms_crossed = p * float((crossed**2).sum()) / ((a - 1) * (d - 1))
        ms_domain = a * p * float(((domain - mean) ** 2).sum()) / (d - 1)
        found["adapter_x_domain"] = (ms_crossed - ms_residual) / p
        found["domain"] = (ms_domain - ms_crossed - ms_prompt + ms_residual) / (a * p)
    found["adapter"] = (ms_adapter - ms_crossed) / (d * p)
    return {name: max(0.0, value) for name, value in found.items()}
