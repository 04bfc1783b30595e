"""Rows of the adapter pool as recipes: everything that decides an adapter's weights."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from lora_spec.errors import TrainingInputError

Stratum = Literal["benign", "moderate", "aggressive", "control"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every row says of an adapter, however it is made; ``license`` is that of the text trained on."""

    name: str
    domain: str
    stratum: Stratum
    license: str

    def __post_init__(self) -> None:
        if self.stratum not in get_args(Stratum):
            raise self._error("stratum", f"must be one of {', '.join(get_args(Stratum))}")

    def _error(self, key: str, problem: str) -> TrainingInputError:
        return TrainingInputError(f"adapter row '{self.name}': {key} = {getattr(self, key)!r} {problem}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_dict` output or from a row of the pool's YAML.

        Raises
        ------
        TrainingInputError
            On an unknown or a missing key, or a value out of range.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise TrainingInputError(
                f"adapter row '{data.get('name')}': unknown keys {', '.join(unknown)}; "
                f"known: {', '.join(sorted(known))}"
            )
        try:
            return cls(**data)
        except TypeError as error:
            raise TrainingInputError(f"adapter row '{data.get('name')}': {error}; give every required key") from error


@dataclass(frozen=True, kw_only=True)
class AdapterRecipe(Recipe):
    """An adapter trained on a domain, or, as a ``control``, left with an update of exactly zero.

    ``learning_rate`` is the peak of a linear rise and fall, and the rate of A; that of B is ``lora_plus_ratio``
    times as high.
    """

    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    learning_rate: float
    num_steps: int
    batch_size: int
    seed: int
    use_rslora: bool = False
    lora_plus_ratio: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "target_modules", tuple(self.target_modules))
        for key in ("rank", "batch_size"):
            if getattr(self, key) < 1:
                raise self._error(key, "must be at least 1")
        if self.lora_plus_ratio < 1:
            raise self._error("lora_plus_ratio", "must be at least 1, where B learns at the rate of A")
        if not self.target_modules:
            raise self._error("target_modules", "must name at least one module, for example q_proj")
        if self.stratum == "control" and self.num_steps != 0:
            raise self._error("num_steps", "must be 0 for a control, whose update is exactly zero")
        if self.stratum != "control":
            for key in ("num_steps", "learning_rate"):
                if getattr(self, key) <= 0:
                    raise self._error(key, "must be positive for an adapter that is trained")

    @property
    def lora_scale(self) -> float:
        """Return the factor before B @ A: alpha / r, or alpha / sqrt(r) for rank-stabilised LoRA.

        References: Kalajdzievski 2023, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA".
        """
        return self.alpha / (self.rank**0.5 if self.use_rslora else self.rank)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {**asdict(self), "target_modules": list(self.target_modules)}


@dataclass(frozen=True, kw_only=True)
class ScaledRecipe(Recipe):
    """A copy of the adapter ``parent`` whose update is ``scale`` times as large."""

    parent: str
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale <= 0:
            raise self._error("scale", "must be positive; an update of zero is a control with num_steps 0")


@dataclass(frozen=True, kw_only=True)
class RandomRecipe(Recipe):
    """A random update as large as that of ``parent``, module by module, drawn from ``seed``."""

    parent: str
    seed: int


_RECIPES: dict[str, type[Recipe]] = {"trained": AdapterRecipe, "scaled": ScaledRecipe, "random": RandomRecipe}


def recipe_of_row(row: Mapping[str, Any]) -> Recipe:
    """Return the recipe in a row of the pool's YAML, of the kind that its ``source`` names.

    Raises
    ------
    TrainingInputError
        The workflow does not make adapters of that source, or as :meth:`Recipe.from_dict`.
    """
    if row.get("source") not in _RECIPES:
        raise TrainingInputError(
            f"adapter row '{row.get('name')}': source = {row.get('source')!r} is not made here; "
            f"the workflow makes {', '.join(_RECIPES)}"
        )
    return _RECIPES[row["source"]].from_dict({key: value for key, value in row.items() if key != "source"})
