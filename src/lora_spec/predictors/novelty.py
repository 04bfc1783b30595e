"""How far an adapter is from those a predictor was fitted on: neighbours, ranges, constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Reason = tuple[str, str]


def neighbour_distance(point: Array, points: Array, num_neighbours: int) -> float:
    """Return the mean root-mean-square distance per column to the nearest points.

    Parameters
    ----------
    point
        Standardised columns, shape ``(num_columns,)``.
    points
        Shape ``(n, num_columns)``; with fewer points than neighbours wanted, all are used.
    """
    distances = np.sqrt(np.mean((points - point) ** 2, axis=1))
    return float(np.mean(np.sort(distances)[:num_neighbours]))


def fit_reference(points: Array, sources: Sequence[str], *, num_neighbours: int, level: float) -> dict[str, Any]:
    """Return the reference that :func:`novelty_reasons` compares with.

    The threshold is the ``level`` quantile of the distances that the training adapters themselves have to the
    adapters of all other sources, as a new adapter also comes from a source not yet seen.
    """
    names = np.array(sources)
    distances = [
        neighbour_distance(point, points[names != source], num_neighbours)
        for point, source in zip(points, sources, strict=True)
    ]
    threshold = float(np.quantile(distances, level, method="higher"))
    return {"points": points.tolist(), "num_neighbours": num_neighbours, "level": level, "threshold": threshold}


def distance_reasons(point: Array, points: Array, reference: Mapping[str, Any], names: Sequence[str]) -> list[Reason]:
    """Return a reason if the adapter lies farther from its neighbours than training adapters do."""
    distance = neighbour_distance(point, points, reference["num_neighbours"])
    if distance <= reference["threshold"]:
        return []
    nearest = names[int(np.argmin(np.sum((points - point) ** 2, axis=1)))]
    return [
        (
            "R_OUT_OF_DISTRIBUTION",
            f"standardised distance {distance:.3g} to the nearest training adapters (closest: {nearest}) exceeds "
            f"{reference['threshold']:.3g}, the {reference['level']:.0%} quantile among the training adapters",
        )
    ]


def range_reasons(
    values: Mapping[str, float], ranges: Mapping[str, Sequence[float]], used: Sequence[str], *, margin: float
) -> list[Reason]:
    """Return a reason if a column with a coefficient lies outside its training range by more than the margin.

    Parameters
    ----------
    margin
        As a fraction of the width of the range.
    """
    outside = []
    for name in used:
        low, high = ranges[name]
        slack = margin * (high - low)
        if not low - slack <= values[name] <= high + slack:
            outside.append(f"{name} = {values[name]:.4g} (training range {low:.4g} to {high:.4g})")
    if not outside:
        return []
    return [("R_FEATURE_OUT_OF_RANGE", f"the model would extrapolate in {len(outside)} columns: {_listed(outside)}")]


def constant_reasons(values: Mapping[str, float], constants: Mapping[str, float]) -> list[Reason]:
    """Return a reason if a column that never varied in training has another value here: its effect is unknown."""
    changed = [
        f"{name} = {values[name]:.4g} (always {value:.4g} in training)"
        for name, value in constants.items()
        if not np.isclose(values[name], value, rtol=1e-6, atol=1e-9)
    ]
    if not changed:
        return []
    return [("R_FEATURE_NEVER_VARIED", f"{len(changed)} columns never varied in training: {_listed(changed)}")]


def _listed(items: Sequence[str], limit: int = 3) -> str:
    return "; ".join(items[:limit]) + (f"; and {len(items) - limit} more" if len(items) > limit else "")
