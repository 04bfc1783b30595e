"""The nulls by name, and their guesses with whole sources left out."""

from collections.abc import Sequence

from lora_spec.errors import PredictorError
from lora_spec.predictors.examples import TrainingExample, each_source_left_out
from lora_spec.predictors.nulls.base import Null
from lora_spec.predictors.nulls.direct_probe import DirectProbeNull
from lora_spec.predictors.nulls.mean import MeanNull
from lora_spec.predictors.nulls.own_traffic import OwnTrafficNull
from lora_spec.predictors.nulls.ridge import RidgeNull

_RECIPE = ("meta_rank_mean", "meta_alpha", "meta_log_scale_mean", "meta_use_rslora", "meta_log_num_parameters")

NULLS: dict[str, Null] = {
    "mean": MeanNull(),
    "own_traffic": OwnTrafficNull(),
    "norm_ridge": RidgeNull(["log_fro_total"], "the Frobenius norm of the whole update"),
    "metadata_ridge": RidgeNull(_RECIPE, "rank, alpha, scale and size, as the config tells them"),
    "direct_probe": DirectProbeNull(),
}


def held_out_by_null(name: str, examples: Sequence[TrainingExample], *, depth: int) -> dict[str, float]:
    """Return each adapter's E_K at K = ``depth`` as guessed by a null that saw nothing of its source.

    Raises
    ------
    PredictorError
        There is no such null, one source only, or the examples' columns lack what the null looks at.
    """
    if name not in NULLS:
        raise PredictorError(f"no null is called {name!r}; there are {', '.join(sorted(NULLS))}")
    guesses = {}
    for _, inside, outside in each_source_left_out(examples):
        guess = NULLS[name].fit(inside, depth)
        guesses.update({example.adapter: guess(example) for example in outside})
    return {example.adapter: guesses[example.adapter] for example in examples}
