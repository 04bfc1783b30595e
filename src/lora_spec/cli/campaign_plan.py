"""What a campaign will take, told by the resources that its rules declare: nothing is run, and no estimate is made.

Hours are limits: a job is given ``runtime`` minutes and ends when it is done. Disk is what outputs and the state of
resumable jobs leave behind.
"""

import logging
import re
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lora_spec.errors import ConfigError
from lora_spec.printing import printable

_MAX_SHOWN_CHARACTERS = 240


@dataclass(frozen=True)
class PlannedJob:
    """One job as the workflow plans it."""

    rule: str
    num_threads: int
    num_gpus: int
    runtime_min: int
    disk_mb: int


@dataclass(frozen=True)
class PlannedRule:
    """All jobs of one rule; ``gpu_hours`` counts every GPU of a job, ``cpu_hours`` every core."""

    rule: str
    num_jobs: int
    gpu_hours: float
    cpu_hours: float
    disk_gb: float


class _Listener(logging.Filter):
    """Takes down the jobs that Snakemake tells of, and lets nothing but errors through to the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[PlannedJob] = []
        self.problem: ConfigError | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        # A rule without a command gathers files and takes nothing.
        if getattr(record, "event", None) == "job_info" and record.shellcmd is not None:
            try:
                self.jobs.append(_job_of(record))
            except ConfigError as error:
                self.problem = error  # raised here, it would be told by Snakemake, as a fault of its own
        return record.levelno >= logging.ERROR


def _job_of(record: Any) -> PlannedJob:
    amounts = {key: record.resources.get(key, 0) for key in ("gpu", "runtime", "disk_mb")}
    amounts["gpu"] = amounts["gpu"] or _gpus_in(str(record.resources.get("gres", "")))
    for key, value in amounts.items():
        if not isinstance(value, int):
            raise ConfigError(
                f"rule {record.rule_name}: resource {key} is {value!r}, no number before it runs; give one"
            )
    return PlannedJob(record.rule_name, record.threads, amounts["gpu"], amounts["runtime"], amounts["disk_mb"])


def _gpus_in(gres: str) -> int:
    """Return the devices that Slurm's other way to ask for them names: ``gpu``, ``gpu:2``, ``gpu:h100:2``."""
    found = re.fullmatch(r"gpu(?::[A-Za-z_][\w.]*)?(?::(\d+))?", gres, re.ASCII)
    return 0 if found is None else int(found[1] or 1)


def plan_jobs(*flags: str) -> list[PlannedJob]:
    """Return the jobs of a dry run with some flags of Snakemake, made in this process in the current folder.

    Raises
    ------
    ConfigError
        Snakemake refuses, and what it says is on stderr; or a job declares what is no number.
    """
    from snakemake.cli import main
    from snakemake.logging import logger

    listener, on_order_to_end = _Listener(), signal.getsignal(signal.SIGTERM)
    logger.addFilter(listener)
    try:
        main(["--dry-run", *flags])
    except SystemExit as done:
        if done.code:
            said = printable(shlex.join(flags), _MAX_SHOWN_CHARACTERS)
            raise ConfigError(f"{said}: refused by snakemake --dry-run, as said above") from done
    finally:
        logger.removeFilter(listener)
        signal.signal(signal.SIGTERM, on_order_to_end)  # Snakemake leaves its own there
    if listener.problem is not None:
        raise listener.problem
    return listener.jobs


def plan_rules(jobs: Sequence[PlannedJob]) -> list[PlannedRule]:
    """Return the rules of some jobs, by name."""
    names = sorted({job.rule for job in jobs})
    return [_added_up(name, [job for job in jobs if job.rule == name]) for name in names]


def _added_up(name: str, jobs: Sequence[PlannedJob]) -> PlannedRule:
    return PlannedRule(
        rule=name,
        num_jobs=len(jobs),
        gpu_hours=sum(job.num_gpus * job.runtime_min for job in jobs) / 60,
        cpu_hours=sum(job.num_threads * job.runtime_min for job in jobs) / 60,
        disk_gb=sum(job.disk_mb for job in jobs) / 1000,
    )


def plan_lines(jobs: Sequence[PlannedJob]) -> list[str]:
    """Return the plan as a table: a rule per line, rules with GPUs first, and all of them added up last."""
    rules = sorted(plan_rules(jobs), key=lambda rule: (-rule.gpu_hours, -rule.cpu_hours, rule.rule))
    width = max((len(rule.rule) for rule in rules), default=5)
    head = f"{'rule':<{width}}  {'jobs':>5}  {'GPU hours':>9}  {'CPU hours':>9}  {'disk GB':>8}"
    total = _added_up("total", jobs)
    lines = [
        f"{one.rule:<{width}}  {one.num_jobs:>5}  {one.gpu_hours:>9.1f}  {one.cpu_hours:>9.1f}  {one.disk_gb:>8.2f}"
        for one in (*rules, total)
    ]
    rule_line = "-" * len(head)
    return [head, rule_line, *lines[:-1], rule_line, lines[-1]]
