"""One cluster for all tests of this folder, and one job that hangs from the first of them to the last."""

from threading import Thread

import pytest
from one_node import alone, leftovers, one_node, why_not
from tiny_tier import build_models, can_serve, make_checkout
from workflow_run import WorkflowRun, change_profile


@pytest.fixture(scope="session")
def cluster():
    """Return a running Slurm of one node with two devices; skipped where none can be started."""
    if reason := why_not():
        pytest.skip(reason)
    with alone() as is_alone:
        if not is_alone:
            pytest.skip("another run of these tests has a cluster on this machine; start them one after the other")
        with one_node() as started:
            yield started
        assert leftovers() == []


@pytest.fixture(scope="session")
def models(cluster, tmp_path_factory):
    if not can_serve():
        pytest.skip("submitted rules run in .venv-serving, which is not there: make env")
    return build_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def checkout(models, tmp_path_factory):
    """Return the checkout of the campaign that is interrupted and goes on."""
    return make_checkout(tmp_path_factory.mktemp("campaign") / "checkout", models)


@pytest.fixture(scope="session")
def hanging(models, tmp_path_factory):
    """Return a run whose one job is stopped in its tracks: its time limit takes a minute, which other tests use."""
    folder = make_checkout(tmp_path_factory.mktemp("hanging") / "checkout", models)
    # No device, so that both are left to the other runs.
    change_profile(folder, "phase1_collect", gpu=0, runtime=1, gpu_model=None)
    run = WorkflowRun(folder, "results/tiny/measured.json", options=("--retries", "0"))
    stopping = Thread(target=run.freeze, args=("phase1_collect",))
    stopping.start()
    try:
        yield run
    finally:
        run.end()
        stopping.join()
