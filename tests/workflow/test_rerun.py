"""The deciding half, run for real from the shipped records: once, again, and after one change at a time."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.workflow

SHIPPED = ("--config", "tier=mini", "measurements=shipped")


@pytest.fixture
def finished(snakemake, checkout):
    """Return the copy after a whole shipped run."""
    done = snakemake("--quiet", "all", *SHIPPED)
    assert done.returncode == 0, done.stderr
    return checkout


def _edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_shipped_run_ends_with_all_figures_and_reruns_exactly(finished, snakemake, job_counts):
    run = finished / "results" / "mini-shipped"
    assert len(list((run / "figures").glob("*.pdf"))) == len(list((run / "figures").glob("*.csv"))) == 7
    assert (run / "phase0" / "fallback_policy.json").exists()
    table = (run / "verdicts.txt").read_text().split("\n\n")[0]
    assert f"```\n{table}\n```" in (ROOT / "README.md").read_text()

    again = snakemake("--dry-run", *SHIPPED)
    assert "Nothing to be done" in again.stdout + again.stderr

    gate = finished / "configs" / "mini" / "gate.yaml"
    _edit(gate, "hot_traffic_share: 0.2", "hot_traffic_share: 0.3")
    planned = set(job_counts(snakemake("--dry-run", *SHIPPED)))
    assert planned == {
        "all",
        "phase3_predictor",
        "certify_verdicts",
        "decide",
        "join_tables",
        "plot_figure",
        "policy",
        "write_verdict_table",
    }
    _edit(gate, "hot_traffic_share: 0.3", "hot_traffic_share: 0.2")
    assert "Nothing to be done" in snakemake("--dry-run", *SHIPPED).stdout

    # A change in what only the clock reads reruns nothing of the deciding half that rests on shipped times.
    _edit(finished / "configs" / "mini" / "phase1_measurement.yaml", "num_warmup_steps: 1", "num_warmup_steps: 3")
    assert "Nothing to be done" in snakemake("--dry-run", *SHIPPED).stdout

    shutil.rmtree(run / "figures")
    assert set(job_counts(snakemake("--dry-run", *SHIPPED))) == {"all", "plot_figure"}


def test_truncated_record_is_refused_and_nothing_is_written(snakemake, checkout):
    record = checkout / "reference" / "mini" / "step_times.json"
    record.write_bytes(record.read_bytes()[:1000])
    done = snakemake("--quiet", "all", *SHIPPED)
    assert done.returncode != 0
    log = (checkout / "logs" / "mini-shipped" / "fit_cost_model.log").read_text()
    assert "step_times.json: not a readable result" in log
    assert "Traceback" not in log
    assert not (checkout / "results" / "mini-shipped" / "cost_model.json").exists()
