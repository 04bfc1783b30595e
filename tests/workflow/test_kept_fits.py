"""Fits that are shipped are taken over where records, features and settings are the same, and made again where not."""

import subprocess
import sys
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.gate.unseen_families import KINDS
from lora_spec.gate.unseen_families_payload import read_unseen_families

ROOT = Path(__file__).parents[2]
MINI = ("--config", "tier=mini", "measurements=shipped", "--", "results/mini-shipped/predictor/predictions.json")
pytestmark = pytest.mark.workflow


def _log(checkout, rule="phase3_predictor", run="mini-shipped"):
    return (checkout / "logs" / run / f"{rule}.log").read_text()


def _run(snakemake, *flags):
    done = snakemake(*flags)
    assert done.returncode == 0, done.stderr


def test_shipped_fits_spare_the_fitting_until_a_setting_changes(snakemake, checkout):
    _run(snakemake, *MINI)
    assert "nothing is kept: fitting" in _log(checkout)
    shipped = subprocess.run(
        [sys.executable, "scripts/ship_fits.py", "--tier", "mini"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shipped.returncode == 0, shipped.stderr
    kept, made = (checkout / place / "predictor" for place in ("reference/mini", "results/mini-shipped"))
    assert sorted(path.name for path in kept.iterdir()) == ["predictions.json", "predictor.json"]

    _run(snakemake, *MINI)
    assert _log(checkout) == ""
    assert (made / "predictions.json").read_bytes() == (kept / "predictions.json").read_bytes()

    gate = checkout / "configs" / "mini" / "gate.yaml"
    text = gate.read_text()
    assert "max_ood_quantile: 0.95" in text
    gate.write_text(text.replace("max_ood_quantile: 0.95", "max_ood_quantile: 0.9"))
    _run(snakemake, *MINI)
    assert "made from other records, features or settings than these: fitting" in _log(checkout)
    assert (made / "predictions.json").read_bytes() != (kept / "predictions.json").read_bytes()


SHIPPED = sorted(path.name for path in (ROOT / "reference" / "cpu" / "predictor").glob("*.json"))


@pytest.mark.skipif(not SHIPPED, reason="tier cpu ships no fits")
def test_the_fits_that_the_repository_ships_are_those_of_its_records_and_settings(snakemake, checkout):
    kept, run = ROOT / "reference" / "cpu" / "predictor", "results/cpu-shipped/predictor"
    _run(snakemake, "--config", "tier=cpu", "measurements=shipped", "--", *(f"{run}/{name}" for name in SHIPPED))
    for name in SHIPPED:
        # If not: run make figures TIER=cpu, then scripts/ship_fits.py --tier cpu.
        assert (checkout / run / name).read_bytes() == (kept / name).read_bytes(), f"{name}: of other inputs"


@pytest.mark.skipif("unseen_families.json" not in SHIPPED, reason="tier cpu ships no such report")
def test_the_shipped_report_on_unseen_families_judges_every_scored_adapter_once_per_kind():
    payload = read_unseen_families(
        ROOT / "reference" / "cpu" / "predictor" / "unseen_families.json", tier="cpu"
    ).payload
    records = {path.stem for path in (ROOT / "reference" / "cpu" / "acceptance").glob("*.parquet")}
    scored = records & set(load_tier(ROOT, "cpu").adapter_pool.separate)
    for kind in KINDS:
        rows = [row for row in payload["adapters"] if row["kind"] == kind]
        assert sorted(row["adapter"] for row in rows) == sorted(scored)
        (total,) = [item for item in payload["kinds"] if item["kind"] == kind]
        parts = [item for item in payload["families"] if item["kind"] == kind]
        assert total["num_adapters"] + total["num_not_fitted"] == len(rows)
        for arm in ("ordinary", "unseen"):
            for count in total[arm]:
                assert sum(part[arm][count] for part in parts) == total[arm][count]
        changes = total["num_newly_abstained"] - total["num_no_longer_abstained"]
        assert total["unseen"]["num_abstained"] - total["ordinary"]["num_abstained"] == changes
