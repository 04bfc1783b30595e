"""What a tier asks of machine, weights and licences before any long job starts: the block ``preflight``."""

from typing import Annotated

from pydantic import AfterValidator, Field

from lora_spec.config.fields import ConfigModel, PositiveCount, Text, stands_once

UNSTATED = "NOASSERTION"
"""SPDX for a licence that nobody states."""

# SPDX's word for none at all, and what hubs write where they know of no licence.
_NO_LICENSES = {UNSTATED.casefold(), "none", "null", "other", "unknown"}


def is_unstated(text: str) -> bool:
    """Return whether this names no licence, in whatever case: SPDX knows none."""
    return text.strip().casefold() in _NO_LICENSES


def _can_be_accepted(licenses: tuple[str, ...]) -> tuple[str, ...]:
    for text in filter(is_unstated, licenses):
        raise ValueError(f"{text} is no licence: ask the owner for one, or leave the adapter out")
    return licenses


AcceptedLicenses = Annotated[tuple[Text, ...], AfterValidator(stands_once), AfterValidator(_can_be_accepted)]


class PreflightConfig(ConfigModel):
    """Thresholds of the preflight; a tier without this block starts its long jobs unasked."""

    min_gpu_memory_gib: PositiveCount = Field(
        description="Memory of one GPU, whole GiB, that the largest job needs: one GPU per job."
    )
    min_free_disk_gib: PositiveCount = Field(
        description="Space where results and resources lie, whole GiB, for all that the tier leaves there, what it has "
        "left there before included; at least what scripts/plan_campaign.py adds up."
    )
    accepted_licenses: AcceptedLicenses = Field(
        description="Licences (SPDX, or LicenseRef-) that whoever runs the tier has read and agreed to; weights and "
        "adapters under others are not fetched."
    )
