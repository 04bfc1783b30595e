"""The base of all config models and the value types that they share.

Scalars are strict, so that ``seed: true`` or ``rank: "8"`` is an error and not a silent conversion.
"""

import difflib
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lora_spec.printing import printable


def _stay_inside_repository(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("must be a path below the repository root, without '..'")
    if not re.fullmatch(r"[A-Za-z0-9._][A-Za-z0-9._/-]*", text):
        raise ValueError("a path may hold letters, digits and ._/- alone: it goes into shells and wildcards")
    return text


def _is_shown_as_written(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    return text


def stands_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a value that stands twice."""
    if len(set(values)) < len(values):
        raise ValueError("values must be distinct")
    return values


Flag = StrictBool
Text = Annotated[StrictStr, Field(min_length=1, max_length=1000), AfterValidator(_is_shown_as_written)]
# File names end at 255 bytes, and results add an ending, a mode and a temporary suffix.
Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
Version = Annotated[StrictStr, Field(pattern=r"^[0-9][A-Za-z0-9.+!_-]*$", max_length=40)]
Sha256 = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{40}$")]
RepoId = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*$")]
RelativePath = Annotated[StrictStr, AfterValidator(_stay_inside_repository)]
# Upper bounds keep a slip of the pen from filling the memory or running for a year.
PointInTime = AwareDatetime
Count = Annotated[StrictInt, Field(ge=0, le=10_000_000)]
PositiveCount = Annotated[StrictInt, Field(ge=1, le=10_000_000)]
NumPrompts = Annotated[StrictInt, Field(ge=1, le=100_000)]
NumDraws = Annotated[StrictInt, Field(ge=10, le=1_000_000)]
NumTrials = Annotated[StrictInt, Field(ge=3, le=1000)]
NumFolds = Annotated[StrictInt, Field(ge=2, le=1000)]
BatchSize = Annotated[StrictInt, Field(ge=1, le=4096)]
BatchSizes = Annotated[tuple[BatchSize, ...], AfterValidator(stands_once)]
Seed = Annotated[StrictInt, Field(ge=0, le=2**32 - 1)]
Depth = Annotated[StrictInt, Field(ge=0, le=16)]
PositiveDepth = Annotated[StrictInt, Field(ge=1, le=16)]
Fraction = Annotated[StrictFloat, Field(ge=0, le=1)]
OpenFraction = Annotated[StrictFloat, Field(gt=0, lt=1)]
NonNegative = Annotated[StrictFloat, Field(ge=0)]
AtLeastOne = Annotated[StrictFloat, Field(ge=1)]
Positive = Annotated[StrictFloat, Field(gt=0)]
Dtype = Literal["bfloat16", "float16", "float32"]


def nearest_key_hint(key: object, valid: list[str]) -> str:
    """Return what to write instead of an unknown word: the nearest valid one, or all of them."""
    # A key of a whole file's length resembles none, and comparing it takes long.
    close = difflib.get_close_matches(str(key)[:200], valid, n=1, cutoff=0.5)
    if close:
        return f"the nearest valid key is {close[0]!r}"
    return f"valid keys are {', '.join(sorted(valid))}"


class ConfigModel(BaseModel):
    """A part of a config file: frozen, every key known, every field described with unit and reason."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    hint = nearest_key_hint(key, list(cls.model_fields))
                    # The text goes in as values: a brace in a user's key must not be read as a template.
                    raise PydanticCustomError("unknown_key", "{hint}", {"key": printable(key), "hint": hint})
        return data

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, for a provenance record or a Snakemake parameter."""
        return self.model_dump(mode="json")
