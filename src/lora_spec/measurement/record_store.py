"""Records of a campaign on disk, written as each adapter is done, so that a stopped run goes on where it was."""

from pathlib import Path
from typing import Any

from lora_spec.measurement.campaign import Campaign, Folders, execute_campaign
from lora_spec.measurement.record_state import keep_records
from lora_spec.measurement.record_table import KIND, read_records, write_records


def collect_into(
    output_dir: Path, campaign: Campaign, folders: Folders, *, state_dir: Path, **circumstances: Any
) -> None:
    """Measure what ``state_dir`` does not hold yet, then put the records of all adapters into ``output_dir``.

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
        measure=lambda is_done: execute_campaign(campaign, folders, is_done=is_done),
        write=lambda path, record, payload: write_records(
            path, record, payload=payload, evidence="measured", **circumstances
        ),
        read=read_records,
        doing="adapters measured",
    )
