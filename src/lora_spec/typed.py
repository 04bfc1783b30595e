"""Plain data held to a declared type: the one place where payloads of files and flags are checked.

A type is a frozen dataclass, a TypedDict, or a config model; every key must be known and every scalar of its type.
"""

import json
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictStr, TypeAdapter, ValidationError

from lora_spec.config.fields import Name
from lora_spec.errors import LoraSpecError, ResultError
from lora_spec.joins import check_tier
from lora_spec.records import Evidence
from lora_spec.results import Result, read_result

AdapterName = Name
"""An adapter's name, which becomes the name of files, by the config's rule."""

FleetName = Annotated[StrictStr, Field(pattern=r"^[^\x00]+$", max_length=1000)]
"""An adapter's name in the fleet of others: any that a command line can hold, which a NUL is not."""

DepthKey = Annotated[StrictStr, Field(pattern=r"^(0|[1-9][0-9]?)$")]
"""A number of drafted tokens as the key of an object."""

TimesFaster = Annotated[float, Field(gt=0, le=1e6)]
"""A speedup, of which none is 0 or beyond all sense."""

_MAX_PROBLEMS = 3
_MAX_SHOWN_CHARACTERS = 80


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    # A tuple around the type: pydantic takes a config for it, and hands that on to dataclasses and TypedDicts inside.
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return TypeAdapter(tuple[kind], config=config)


def check_type(kind: Any, data: Any, where: str, *, error: type[LoraSpecError] = ResultError) -> Any:
    """Return plain data as a value of a type: lists become tuples and objects become dataclasses where it says so.

    Parameters
    ----------
    where
        The file or flag, for the message.
    error
        Raised where the data are of another shape.
    """
    try:
        # By way of JSON, whose strict reading knows that a tuple is written as a list.
        return _adapter(kind).validate_json(json.dumps([data]))[0]
    except ValidationError as err:
        raise error(f"{where}: {_described(err)}") from err
    except LoraSpecError as err:
        raise error(f"{where}: {err}") from err
    except RecursionError as err:
        raise error(f"{where}: nested too deep to be one of ours") from err


def read_typed_result(
    path: Path,
    kind: str,
    payload: Any,
    *,
    evidence: Collection[Evidence] = ("measured",),
    tier: str | None = None,
) -> Result:
    """Return a result whose payload, left as plain data, is of a type; raises as :func:`lora_spec.results.read_result`.

    Parameters
    ----------
    payload
        The type of the payload.
    tier
        The tier that it must have been made for, None for any.
    """
    result = read_result(path, kind, evidence=evidence)
    if tier is not None:
        check_tier(result, tier)
    check_type(payload, result.payload, str(path))
    return result


def _described(err: ValidationError) -> str:
    problems = [_problem(item) for item in err.errors(include_url=False)]
    rest = len(problems) - _MAX_PROBLEMS
    text = " | also: ".join(problems[:_MAX_PROBLEMS])
    return text + (f" | and {rest} more" if rest > 0 else "")


def _problem(item: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"][1:]).lstrip(".")
    rule = item["msg"].removeprefix("Value error, ")
    shown = ascii(item["input"])
    if len(shown) > _MAX_SHOWN_CHARACTERS:
        shown = f"{shown[: _MAX_SHOWN_CHARACTERS - 3]}..."
    where = f"{ascii(place)[1:-1][:_MAX_SHOWN_CHARACTERS]}: " if place else ""
    if item["type"] == "unknown_key":
        return f"{where}{ascii(item['ctx']['key'])[:_MAX_SHOWN_CHARACTERS]}: unknown key; {item['msg']}"
    if item["type"] == "missing":
        return f"{where}missing; this key is required"
    return f"{where}got {shown}; {rule[0].lower()}{rule[1:]}"
