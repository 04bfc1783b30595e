"""Fits that are shipped are taken over where records, features and settings are the same, and made again where not."""

import subprocess
import sys
from pathlib import Path

import pytest

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
