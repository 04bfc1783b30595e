"""Fixtures shared by the figures' tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import frames
import pandas as pd
import pytest
from matplotlib.figure import Figure

from lora_spec.plots.registry import FIGURES, FigureSpec
from lora_spec.plots.saving import save_figure


@dataclass(frozen=True)
class DrawnFigure:
    """A figure drawn and saved once for all tests, since drawing takes most of their time."""

    spec: FigureSpec
    frame: pd.DataFrame
    fig: Figure
    paths: tuple[Path, ...]


@pytest.fixture(params=sorted(FIGURES))
def figure_case(request) -> tuple[FigureSpec, Callable[..., pd.DataFrame]]:
    """Return each figure with the maker of its table."""
    return FIGURES[request.param], getattr(frames, request.param)


@pytest.fixture(scope="session", params=sorted(FIGURES))
def drawn_figure(request, tmp_path_factory) -> DrawnFigure:
    """Return each figure of six adapters, drawn and saved."""
    spec, frame = FIGURES[request.param], getattr(frames, request.param)()
    fig = spec.draw(frame)
    paths = save_figure(fig, frame, tmp_path_factory.mktemp("v1.2") / "new" / spec.stem)
    return DrawnFigure(spec, frame, fig, paths)
