"""Calibration records on disk, written as each adapter is done, so that a stopped run goes on where it was."""

from pathlib import Path
from typing import Any

from lora_spec.measurement.calibration_campaign import execute_calibration
from lora_spec.measurement.calibration_table import KIND, read_calibration, write_calibration
from lora_spec.measurement.campaign import Campaign, Folders
from lora_spec.measurement.record_state import keep_records


def probe_into(
    output_dir: Path,
    campaign: Campaign,
    folders: Folders,
    *,
    state_dir: Path,
    num_prompts: int | None = None,
    **circumstances: Any,
) -> None:
    """Probe what ``state_dir`` does not hold yet, then put the records of all adapters into ``output_dir``.

    Parameters
    ----------
    circumstances
        Tier and provenance, as of :func:`~lora_spec.results.write_table_result`.
    """
    keep_records(
        state_dir,
        output_dir,
        [row["name"] for row in campaign.rows],
        kind=KIND,
        measure=lambda is_done: execute_calibration(campaign, folders, num_prompts=num_prompts, is_done=is_done),
        write=lambda path, record, payload: write_calibration(
            path, record, payload=payload, evidence="measured", **circumstances
        ),
        read=read_calibration,
        doing="adapters probed",
    )
