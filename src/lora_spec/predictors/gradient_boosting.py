"""Gradient-boosted trees, one ensemble per draft position: steps and interactions that no line follows.

References: Friedman 2001; Ke et al. 2017, LightGBM.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.predictors.base import Logits
from lora_spec.predictors.positions import fit_positions, read_options, source_folds

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GradientBoostingOptions:
    """The shape of the trees, and how their number is chosen.

    Parameters
    ----------
    num_trees
        Candidates for the number of trees; few adapters want few.
    learning_rate
        Share of each tree that is added, in (0, 1].
    num_leaves
        Of a tree, at most: 4 leaves hold interactions of two columns.
    min_adapters_per_leaf
        A leaf says nothing about fewer adapters.
    column_share
        Share of the columns that each tree may look at, in (0, 1].
    num_folds
        Of the inner cross-validation, at most; a fold holds whole sources.
    min_sources_for_search
        With fewer sources nothing is searched: the fewest trees are the cautious choice.
    seed
        Of the columns that the trees look at.
    """

    num_trees: tuple[int, ...] = (10, 30, 100)
    learning_rate: float = 0.1
    num_leaves: int = 4
    min_adapters_per_leaf: int = 4
    column_share: float = 0.5
    num_folds: int = 5
    min_sources_for_search: int = 4
    seed: int = 0


def _train(x: Array, y: Array, options: GradientBoostingOptions, num_trees: int) -> Any:
    import lightgbm

    parameters = {
        "objective": "regression",
        "learning_rate": options.learning_rate,
        "num_leaves": options.num_leaves,
        "min_data_in_leaf": options.min_adapters_per_leaf,
        "feature_fraction": options.column_share,
        "feature_pre_filter": False,
        "min_data_in_bin": 1,
        "seed": options.seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    return lightgbm.train(parameters, lightgbm.Dataset(x, y, params=parameters), num_boost_round=num_trees)


def _choose_num_trees(x: Array, y: Array, sources: Sequence[str], options: GradientBoostingOptions) -> int:
    """Return the number of trees with the least squared error on sources held out."""
    if len(options.num_trees) == 1 or len(set(sources)) < options.min_sources_for_search:
        return min(options.num_trees)
    errors = np.zeros(len(options.num_trees))
    for inside, outside in source_folds(x, sources, options.num_folds):
        model = _train(x[inside], y[inside], options, max(options.num_trees))
        for place, num_trees in enumerate(options.num_trees):
            errors[place] += ((model.predict(x[outside], num_iteration=num_trees) - y[outside]) ** 2).sum()
    return options.num_trees[int(np.argmin(errors))]


def _flat_tree(node: Mapping[str, Any], nodes: list[list[float]]) -> int:
    """Append a tree's nodes as [column, threshold, left, right, value] and return the place of its root.

    A leaf points to itself, so that walking on from it stays there.
    """
    place = len(nodes)
    nodes.append([0, 0.0, place, place, float(node.get("leaf_value", 0.0))])
    if "split_feature" in node:
        left, right = (_flat_tree(node[f"{side}_child"], nodes) for side in ("left", "right"))
        nodes[place] = [node["split_feature"], float(node["threshold"]), left, right, 0.0]
    return place


def _exported(model: Any, num_leaves: int) -> dict[str, Any]:
    """Return all trees in one list of nodes, with the places of the roots."""
    nodes: list[list[float]] = []
    roots = [_flat_tree(tree["tree_structure"], nodes) for tree in model.dump_model()["tree_info"]]
    names = ("column", "threshold", "left", "right", "value")
    columns = {name: [node[place] for node in nodes] for place, name in enumerate(names)}
    return {"roots": roots, "depth": num_leaves - 1, **columns}


@dataclass(frozen=True)
class _Forest:
    """The trees of some positions in one list of nodes; ``places`` tells the position of each root."""

    places: NDArray[np.intp]
    roots: NDArray[np.intp]
    column: NDArray[np.intp]
    threshold: Array
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    value: Array
    depth: int

    @classmethod
    def of(cls, positions: Sequence[Mapping[str, Any]]) -> "_Forest":
        starts = np.concatenate([[0], np.cumsum([len(trees["value"]) for trees in positions])])

        def joined(name: str, kind: type, *, is_place: bool = False) -> NDArray[Any]:
            shifts = starts if is_place else np.zeros_like(starts)
            parts = [np.array(t[name], dtype=kind) + kind(s) for t, s in zip(positions, shifts, strict=False)]
            return np.concatenate(parts)

        return cls(
            places=np.repeat(np.arange(len(positions)), [len(trees["roots"]) for trees in positions]),
            roots=joined("roots", np.intp, is_place=True),
            column=joined("column", np.intp),
            threshold=joined("threshold", np.float64),
            left=joined("left", np.intp, is_place=True),
            right=joined("right", np.intp, is_place=True),
            value=joined("value", np.float64),
            depth=max(trees["depth"] for trees in positions),
        )

    def sums(self, x: Array, num_positions: int) -> Array:
        """Return the sum of each position's leaves at ``x``; who has reached a leaf stays there."""
        at = self.roots
        for _ in range(self.depth):
            at = np.where(x[self.column[at]] <= self.threshold[at], self.left[at], self.right[at])
        return np.bincount(self.places, weights=self.value[at], minlength=num_positions)


class GradientBoostingVariant:
    """See :class:`lora_spec.predictors.base.Variant`."""

    def fit(self, x: Array, y: Array, *, sources: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Fit each position on the adapters that say something about it."""
        chosen = read_options(GradientBoostingOptions, options, name="gradient_boosting")

        def fit_one(rows: Array, values: Array, names: list[str]) -> dict[str, Any]:
            num_trees = _choose_num_trees(rows, values, names, chosen)
            # Around the mean: where there are too few adapters for any split, the mean is the answer.
            mean = float(values.mean())
            model = _train(rows, values - mean, chosen, num_trees)
            return {"mean": mean, "num_trees": num_trees, "trees": _exported(model, chosen.num_leaves)}

        return {"num_columns": x.shape[1], "positions": fit_positions(x, y, sources, fit_one)}

    def logits(self, fitted: Mapping[str, Any], x: Array) -> Array:
        """Return mean + sum over trees of the leaf that ``x`` falls into, per position; all trees walk at once."""
        return self.stacked([fitted])(x)[0]

    def stacked(self, models: Sequence[Mapping[str, Any]]) -> Logits:
        """Return the same of many models."""
        means = np.array([[p["mean"] for p in model["positions"]] for model in models])
        forest = _Forest.of([position["trees"] for model in models for position in model["positions"]])
        return lambda x: means + forest.sums(x, means.size).reshape(means.shape)

    def used_columns(self, fitted: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the columns on which any tree splits."""
        used = np.zeros(fitted["num_columns"], dtype=bool)
        for position in fitted["positions"]:
            trees = position["trees"]
            is_split = np.array(trees["left"]) != np.arange(len(trees["left"]))
            used[np.array(trees["column"], dtype=int)[is_split]] = True
        return used
