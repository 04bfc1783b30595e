"""Which prompts a calibration campaign takes, and that a stopped one goes on where it was."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from test_calibration_probe import ACCEPTANCE, FakeReader

from lora_spec.config import load_tier
from lora_spec.engines.fake import FakeEngine
from lora_spec.errors import MeasurementError
from lora_spec.measurement import calibration_campaign
from lora_spec.measurement.calibration_campaign import execute_calibration, plan_calibration, prompts_of
from lora_spec.measurement.calibration_store import probe_into
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.campaign import Folders
from lora_spec.measurement.tier_campaign import campaign_of

ROOT = Path(__file__).parents[2]
NAMES = ("upper_case_r4_qv", "self_chat_r4_attn")


@pytest.fixture(scope="module")
def cpu():
    return campaign_of(load_tier(ROOT, "cpu"), names=NAMES)


@pytest.fixture
def folders(tmp_path):
    adapters = {name: ROOT / "reference" / "cpu" / "adapters" / name for name in NAMES}
    return Folders(tmp_path / "target", tmp_path / "drafter", adapters)


@pytest.fixture
def fake_models(monkeypatch):
    """Let the campaign open a fake engine and reader; return how often it did."""
    opened = []
    acceptance = {None: 0.8, **dict.fromkeys(NAMES, ACCEPTANCE["shifted"])}
    monkeypatch.setattr("test_calibration_probe.ACCEPTANCE", acceptance)

    def open_engine(*_, **__):
        opened.append(1)
        return FakeEngine(acceptance, num_speculative_tokens=4)

    monkeypatch.setattr(calibration_campaign, "open_engine", open_engine)
    monkeypatch.setattr(calibration_campaign, "_open_reader", lambda *_: FakeReader())
    monkeypatch.setattr(calibration_campaign, "_merged", lambda _, adapter: iter([("merged", adapter)]))
    return opened


@pytest.mark.parametrize("tier", ["cpu", "paper"])
def test_prompts_are_of_role_calibration_and_of_no_other(tier):
    loaded = load_tier(ROOT, tier)
    campaign = campaign_of(loaded)
    evaluated = {prompt for p in campaign.prompts if p.role == "evaluation" for prompt in p.prompts}
    for row in campaign.rows:
        frozen = prompts_of(campaign, row)
        assert (frozen.role, frozen.prompt_set, frozen.domain) == ("calibration", "own", row["domain"])
        assert not evaluated & set(frozen.prompts)


@pytest.mark.parametrize("tier", ["cpu", "paper"])
def test_a_probe_is_of_at_most_32_prompts_and_64_tokens(tier):
    entry = load_tier(ROOT, tier).prompts.find("own", "calibration")
    assert entry.num_prompts <= 32
    assert entry.max_tokens <= 64
    assert entry.temperature == 0


def test_a_prompt_that_is_evaluated_too_is_refused(cpu):
    own = next(p for p in cpu.prompts if (p.prompt_set, p.role, p.domain) == ("own", "evaluation", "upper_case"))
    leak = [
        dataclasses.replace(p, prompts=(*p.prompts[:-1], own.prompts[5])) if p.role == "calibration" else p
        for p in cpu.prompts
    ]
    with pytest.raises(MeasurementError, match="is a calibration prompt and an evaluation prompt"):
        prompts_of(dataclasses.replace(cpu, prompts=tuple(leak)), cpu.rows[0])


def test_evaluation_prompts_never_stand_in_for_calibration_prompts(cpu):
    without = dataclasses.replace(cpu, prompts=tuple(p for p in cpu.prompts if p.role != "calibration"))
    with pytest.raises(MeasurementError, match="no own prompts of role 'calibration'"):
        plan_calibration(without)
    mini = load_tier(ROOT, "mini")
    with pytest.raises(MeasurementError, match="no own prompts of role 'calibration'"):
        plan_calibration(campaign_of(mini))


def test_a_smaller_probe_takes_the_first_prompts(cpu):
    whole, some = prompts_of(cpu, cpu.rows[0]), prompts_of(cpu, cpu.rows[0], num_prompts=4)
    assert some.prompts == whole.prompts[:4]
    with pytest.raises(MeasurementError, match="33 calibration prompts asked for"):
        prompts_of(cpu, cpu.rows[0], num_prompts=33)


def test_a_stopped_campaign_goes_on_where_it_was(cpu, folders, fake_models, tmp_path):
    def run(**changes):
        how = {"state_dir": tmp_path / "state", "tier": "cpu", "provenance": {}, "num_prompts": 6} | changes
        probe_into(tmp_path / "out", cpu, folders, **how)

    run()
    records = {name: read_calibration(tmp_path / "out" / f"{name}.parquet", tier="cpu") for name in NAMES}
    assert {len(record.prompts) for record in records.values()} == {6}
    assert {record.role for record in records.values()} == {"calibration"}
    run()
    assert len(fake_models) == 1  # all was done: no engine was started
    (tmp_path / "state" / f"{NAMES[0]}.parquet").unlink()
    kept = (tmp_path / "state" / f"{NAMES[1]}.parquet").stat().st_mtime_ns
    run()
    assert len(fake_models) == 2
    assert (tmp_path / "state" / f"{NAMES[1]}.parquet").stat().st_mtime_ns == kept
    run(num_prompts=5)
    assert len(read_calibration(tmp_path / "out" / f"{NAMES[0]}.parquet").prompts) == 5


def test_a_record_depends_on_prompts_engine_and_code(cpu, folders, monkeypatch):
    one = dataclasses.replace(cpu, rows=cpu.rows[:1])

    def digest(campaign=one, **options):
        asked = []
        ask = {"is_done": lambda *question: asked.append(question) or True}
        assert list(execute_calibration(campaign, folders, **ask, **options)) == []
        return asked[0][1]

    first = digest()
    assert digest() == first
    assert digest(num_prompts=8) != first
    assert digest(dataclasses.replace(one, engine={**one.engine, "dtype": "float32"})) != first
    assert digest(dataclasses.replace(one, phase1={**one.phase1, "max_depth": 3})) != first
    # Counting settings that the probe does not read may change without probing again.
    assert digest(dataclasses.replace(one, phase1={**one.phase1, "min_drafts": 1})) == first
    monkeypatch.setattr(calibration_campaign, "code_digest", lambda path: "of other code")
    assert digest() != first


def test_an_unpinned_pair_is_planned_and_not_run(cpu):
    hub = {"kind": "hub", "repo": "owner/model", "revision": None}
    loose = dataclasses.replace(cpu, pair={**cpu.pair, "target": {**cpu.pair["target"], "source": hub}})
    assert plan_calibration(loose)["unpinned"] == ["target"]
    with pytest.raises(MeasurementError, match="40 hex digits"):
        next(execute_calibration(loose, Folders(Path("t"), Path("d"), {})))


@pytest.mark.parametrize("folder", ["configs", "configs/cpu"])
def test_script_plans_without_an_engine(tmp_path, folder):
    command = [sys.executable, str(ROOT / "scripts" / "calibration_probe.py")]
    command += ["--config", str(ROOT / folder / "phase1_measurement.yaml"), "--output-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"evidence": "contract-only"' in (tmp_path / "plan.json").read_text()
