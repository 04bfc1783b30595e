"""One row of the adapter pool: everything that decides an adapter's weights."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from lora_spec.errors import TrainingInputError

Stratum = Literal["benign", "moderate", "aggressive", "control"]


@dataclass(frozen=True)
class AdapterRecipe:
    """How one adapter is made: trained on a domain, or derived from ``parent`` by scaling its update.

    ``license`` is the licence of the text trained on. ``scale`` multiplies the update of ``parent`` and is 1
    for a trained adapter. A ``control`` has no domain of its own and an update of exactly zero.
    """

    name: str
    domain: str
    stratum: Stratum
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    learning_rate: float
    num_steps: int
    batch_size: int
    seed: int
    license: str
    use_rslora: bool = False
    parent: str | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_modules", tuple(self.target_modules))
        if self.stratum not in get_args(Stratum):
            raise self._error("stratum", f"must be one of {', '.join(get_args(Stratum))}")
        for key in ("rank", "batch_size"):
            if getattr(self, key) < 1:
                raise self._error(key, "must be at least 1")
        if not self.target_modules:
            raise self._error("target_modules", "must name at least one module, for example q_proj")
        if self.stratum == "control" and self.num_steps != 0:
            raise self._error("num_steps", "must be 0 for a control, whose update is exactly zero")
        if self.stratum != "control" and self.parent is None:
            for key in ("num_steps", "learning_rate"):
                if getattr(self, key) <= 0:
                    raise self._error(key, "must be positive for an adapter that is trained")
        if self.parent is None and self.scale != 1.0:
            raise self._error("scale", "needs a parent, whose update it scales; name one or leave it at 1")

    def _error(self, key: str, problem: str) -> TrainingInputError:
        return TrainingInputError(f"adapter row '{self.name}': {key} = {getattr(self, key)!r} {problem}")

    @property
    def lora_scale(self) -> float:
        """Return the factor before B @ A: alpha / r, or alpha / sqrt(r) for rank-stabilised LoRA.

        References: Kalajdzievski 2023, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA".
        """
        return self.alpha / (self.rank**0.5 if self.use_rslora else self.rank)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {**asdict(self), "target_modules": list(self.target_modules)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AdapterRecipe":
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
