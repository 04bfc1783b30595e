"""A plan adds up what rules declare: hours of every GPU and core, disk in units of 10^9 bytes."""

import pytest

from lora_spec.cli.campaign_plan import PlannedJob, plan_jobs, plan_lines, plan_rules
from lora_spec.errors import ConfigError

JOBS = [
    PlannedJob("count", num_threads=2, num_gpus=1, runtime_min=90, disk_mb=500),
    PlannedJob("count", num_threads=2, num_gpus=1, runtime_min=30, disk_mb=500),
    PlannedJob("draw", num_threads=1, num_gpus=0, runtime_min=60, disk_mb=1),
]
SNAKEFILE = """
rule all:
    input: "a.txt"

rule make_a:
    output: "a.txt"
    threads: 4
    resources: gpu=2, runtime=30, disk_mb={disk}
    message: "a message, which hides resources from what is printed"
    shell: "touch {{output}}"
"""


def test_hours_count_every_gpu_and_core_and_rules_with_gpus_come_first():
    count, draw = plan_rules(JOBS)
    assert (count.num_jobs, count.gpu_hours, count.cpu_hours, count.disk_gb) == (2, 2.0, 4.0, 1.0)
    assert (draw.num_jobs, draw.gpu_hours, draw.cpu_hours, draw.disk_gb) == (1, 0.0, 1.0, 0.001)
    lines = plan_lines(JOBS)
    assert [line.split()[0] for line in lines[2:4]] == ["count", "draw"]
    assert lines[-1].split() == ["total", "3", "2.0", "5.0", "1.00"]


def test_an_empty_plan_is_a_table_of_nothing():
    assert plan_lines([])[-1].split() == ["total", "0", "0.0", "0.0", "0.00"]


def test_times_and_sizes_with_units_are_read_as_snakemake_reads_them(tmp_path, monkeypatch):
    (tmp_path / "Snakefile").write_text(
        SNAKEFILE.format(disk="'10GB'").replace("disk_mb", "disk").replace("30", "'2h'")
    )
    monkeypatch.chdir(tmp_path)
    assert plan_jobs("--cores", "8") == [PlannedJob("make_a", 4, 2, 120, 10000)]


@pytest.mark.parametrize(
    ("gres", "num_gpus"), [("gpu", 1), ("gpu:2", 2), ("gpu:h100:4", 4), ("gpu:h100", 1), ("nic:1", 0)]
)
def test_devices_that_are_asked_for_as_gres_are_counted(tmp_path, monkeypatch, gres, num_gpus):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(disk=7).replace("gpu=2", f"gpu=0, gres='{gres}'"))
    monkeypatch.chdir(tmp_path)
    assert plan_jobs("--cores", "8") == [PlannedJob("make_a", 4, num_gpus, 30, 7)]


def test_jobs_are_those_that_snakemake_plans_with_what_they_declare(tmp_path, monkeypatch):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(disk=7))
    monkeypatch.chdir(tmp_path)
    assert plan_jobs("--cores", "8") == [PlannedJob("make_a", 4, 2, 30, 7)]


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (SNAKEFILE.format(disk="'much'"), (), "refused by snakemake"),
        (SNAKEFILE.format(disk=1), ("no_such_target",), "^--cores 8 no_such_target: refused by snakemake"),
        (SNAKEFILE.format(disk=1), ("x" * 9000,), r"^.{1,300}$"),
        (SNAKEFILE.format(disk=1), ("--set-resources", "make_a:gpu='one'"), "rule make_a: resource gpu is 'one'"),
    ],
)
def test_what_declares_no_number_or_cannot_be_planned_is_refused(tmp_path, monkeypatch, text, flags, message):
    (tmp_path / "Snakefile").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        plan_jobs("--cores", "8", *flags)
