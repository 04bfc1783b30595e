"""The deciding half, run for real from the shipped records: once, again, and after one change at a time."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from checkout_copies import copy_checkout, run_snakemake

import lora_spec
from lora_spec.code_files import code_files

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.workflow

SHIPPED = ("--config", "tier=mini", "measurements=shipped")


# Put before the library, so that every script of the run notes in which files of the library it ran a function: not
# what was only read because a package beside it was imported.
TRACER = """
import atexit, os, sys, threading
PACKAGE, CO_OPTIMIZED, ran = os.sep + "lora_spec" + os.sep, 1, set()

def is_being_imported(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return PACKAGE in frame.f_code.co_filename
        frame = frame.f_back
    return False

def watch(frame, event, arg):
    name = frame.f_code.co_filename
    if name not in ran and PACKAGE in name and frame.f_code.co_flags & CO_OPTIMIZED and not is_being_imported(frame):
        ran.add(name)

def note():
    sys.settrace(None)
    main = os.path.basename(sys.argv[0])
    with open(os.path.join(os.environ["TRACE_DIR"], f"{main}-{os.getpid()}"), "w") as file:
        file.write("\\n".join(ran))

# Drawing takes a minute when every call of matplotlib is looked at.
if sys.argv[:1] and sys.argv[0].startswith("scripts/") and not sys.argv[0].endswith("plot_figure.py"):
    atexit.register(note)
    threading.settrace(watch)
    sys.settrace(watch)
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Return the folder where the processes of the finished run note what they ran."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, traces):
    """Return a copy after a whole shipped run."""
    root, guard = copy_checkout(tmp_path_factory.mktemp("finished")), tmp_path_factory.mktemp("guard")
    (guard / "sitecustomize.py").write_text(TRACER)
    path = os.pathsep.join([str(guard), str(Path(lora_spec.__file__).parents[1])])
    done = run_snakemake(root, "--quiet", "all", *SHIPPED, PYTHONPATH=path, TRACE_DIR=str(traces))
    assert done.returncode == 0, done.stderr
    return root


def _edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_a_script_ran_is_in_the_digest_by_which_its_rule_reruns(finished, traces):
    ran = {}
    for trace in traces.iterdir():
        script = trace.name.rpartition("-")[0]
        ran[script] = ran.get(script, set()) | {Path(line) for line in trace.read_text().splitlines()}
    scripts = {name: files for name, files in ran.items() if (finished / "scripts" / name).is_file()}
    assert {"decide.py", "join_tables.py", "phase3_predictor.py", "write_policy.py"} <= set(scripts)
    for name, files in scripts.items():
        assert len(files) > 5, name
        assert files <= set(code_files(finished / "scripts" / name)), name


def test_shipped_run_ends_with_all_figures_and_reruns_exactly(finished, job_counts):
    snakemake = partial(run_snakemake, finished)
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

    # Records and configs that are as new as a checkout makes them, but say the same, rerun nothing.
    for path in (*(finished / "reference" / "mini").rglob("*.*"), *(finished / "configs").rglob("*.yaml")):
        path.touch()
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
