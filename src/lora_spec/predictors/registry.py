"""The predictor variants by name: a new one is a file and a line here."""

from lora_spec.errors import PredictorError
from lora_spec.predictors.base import Variant
from lora_spec.predictors.elastic_net import ElasticNetVariant
from lora_spec.predictors.gam import GamVariant
from lora_spec.predictors.gradient_boosting import GradientBoostingVariant

VARIANTS: dict[str, Variant] = {
    "elastic_net": ElasticNetVariant(),
    "gam": GamVariant(),
    "gradient_boosting": GradientBoostingVariant(),
}


def variant_of(name: str) -> Variant:
    """Return the variant of this name.

    Raises
    ------
    PredictorError
        There is none.
    """
    if name not in VARIANTS:
        raise PredictorError(f"no predictor is called {name!r}; there are {', '.join(sorted(VARIANTS))}")
    return VARIANTS[name]
