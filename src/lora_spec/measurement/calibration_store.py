"""Calibration records on disk, written as each adapter is done, so that a stopped run goes on where it was."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.measurement.calibration_campaign import execute_calibration
from lora_spec.measurement.calibration_table import KIND, read_calibration, write_calibration
from lora_spec.measurement.campaign import Campaign, Folders
from lora_spec.measurement.lock import folder_lock
from lora_spec.measurement.progress import with_progress
from lora_spec.results import read_table_result, write_bytes_atomically


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
    names = [row["name"] for row in campaign.rows]
    found: list[str] = []
    asked: list[str] = []
    held = ExitStack()

    def is_done(name: str, inputs_sha256: str) -> bool:
        # Asked once every input is known to be sound: before, a refused run would leave a folder.
        if not asked:
            held.enter_context(folder_lock(state_dir))
        asked.append(name)
        is_there = _inputs_of(state_dir / f"{name}.parquet") == inputs_sha256
        found.extend([name] * is_there)
        return is_there

    probed = execute_calibration(campaign, folders, num_prompts=num_prompts, is_done=is_done)
    shown = {"total": len(names), "doing": "adapters probed", "unit": "adapter"}
    with held:
        for record, payload in with_progress(probed, **shown, num_before=lambda: len(found)):
            path = state_dir / f"{record.adapter}.parquet"
            write_calibration(path, record, payload=payload, evidence="measured", **circumstances)
    for name in names:
        source, path = state_dir / f"{name}.parquet", output_dir / f"{name}.parquet"
        read_calibration(source)
        if source != path:
            write_bytes_atomically(path, source.read_bytes())


def _inputs_of(path: Path) -> str | None:
    """Return the digest of the inputs that a record was made from, None where there is no whole record."""
    try:
        result, _ = read_table_result(path, KIND)
    except ResultError:
        return None
    return result.payload.get("inputs_sha256") if isinstance(result.payload, dict) else None
