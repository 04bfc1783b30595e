"""Results are joined by the adapter's name and held together by its weights; a name alone proves nothing."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from lora_spec.errors import ResultError
from lora_spec.results import Result

Item = TypeVar("Item")
_SHOWN = 12


def by_adapter(items: Iterable[Item], name_of: Callable[[Item], str], *, what: str) -> dict[str, Item]:
    """Return items by adapter name, in the order given.

    Parameters
    ----------
    what
        What the items are, in the plural, for the message.

    Raises
    ------
    ResultError
        A name stands twice: neither entry is more right than the other.
    """
    found: dict[str, Item] = {}
    for item in items:
        name = name_of(item)
        if name in found:
            raise ResultError(f"adapter {name!r} stands twice among the {what}; give one entry per adapter")
        found[name] = item
    return found


def check_same_weights(name: str, weights: Mapping[str, str | None]) -> None:
    """Refuse to join what was made from different weights under one name.

    Parameters
    ----------
    weights
        SHA-256 of the adapter's weights by what it was read from, such as ``{"features": ..., "measured": ...}``.

    Raises
    ------
    ResultError
        Two differ; both are named.
    """
    (first, expected), *others = weights.items()
    for what, found in others:
        if found != expected:
            raise ResultError(
                f"adapter {name!r}: the {first} are of weights {str(expected)[:_SHOWN]}, the {what} of "
                f"{str(found)[:_SHOWN]}; make both again from the same adapter"
            )


def check_named_for(path: Path, adapter: str) -> None:
    """Refuse a file of one adapter under the name of another; ResultError names both."""
    if path.stem != adapter:
        raise ResultError(
            f"{path}: holds adapter {adapter!r}; make that of {path.stem!r} again, or name the file for it"
        )


def check_tier(result: Result, tier: str) -> Result:
    """Return a result of a tier; ResultError if it was made for another one, whose numbers hold elsewhere."""
    if result.tier != tier:
        raise ResultError(
            f"{result.path}: made for tier {result.tier!r}, asked for tier {tier!r}; pass the file of that tier"
        )
    return result
