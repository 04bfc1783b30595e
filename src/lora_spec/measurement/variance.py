"""How much of acceptance is the adapter and how much is what is asked: variance components on the common prompts.

The domain of a prompt moves acceptance about as much as an adapter does, so neither is read off without the other.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd
import statsmodels.formula.api as smf

from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceRecord


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
        and record.counts.num_drafts
    ]
    return pd.DataFrame(rows, columns=["adapter", "domain", "prompt_id", "acceptance_length"])


def variance_components(table: pd.DataFrame) -> dict[str, Any]:
    """Return the variances of a mixed model with crossed random effects of adapter, domain and prompt.

    acceptance_length = mean + adapter + domain + prompt within domain + (adapter x domain) + residual, by restricted
    maximum likelihood (statsmodels ``MixedLM``; Pinheiro and Bates 2000, section 2.2).

    Raises
    ------
    MeasurementError
        There are fewer than two adapters or prompts.
    """
    counted = {name: int(table[name].nunique()) for name in ("adapter", "domain", "prompt_id")}
    if counted["adapter"] < 2 or counted["prompt_id"] < 2:
        raise MeasurementError(f"variances need two adapters and two prompts at least, there are {counted}")
    effects = {"adapter": "0 + C(adapter)", "prompt_id": "0 + C(prompt_id)"}
    if counted["domain"] > 1:
        effects |= {"domain": "0 + C(domain)", "adapter_x_domain": "0 + C(adapter):C(domain)"}
    model = smf.mixedlm("acceptance_length ~ 1", table, groups=[0] * len(table), vc_formula=effects, re_formula="0")
    with warnings.catch_warnings():
        # A component at zero lies on the boundary, which the optimiser remarks on; the estimate is what it is.
        warnings.simplefilter("ignore")
        fitted = model.fit(reml=True)
    variances = dict(zip(model.exog_vc.names, map(float, fitted.vcomp), strict=True))
    variances["residual"] = float(fitted.scale)
    total = sum(variances.values())
    return {
        "mean_acceptance_length": float(fitted.fe_params.iloc[0]),
        "variances": variances,
        "shares": {name: value / total for name, value in variances.items()},
        "num_levels": counted,
        "num_rows": len(table),
        "has_converged": bool(fitted.converged),
    }
