"""Fits that do not depend on each other, on several processes at once: what comes out is the same with any number."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def run_all(calls: Iterable[tuple[Callable[..., Answer], tuple[Any, ...]]], *, num_workers: int = 1) -> list[Answer]:
    """Return what each (function, arguments) gives, in order; an error of a worker is raised here as it was there.

    One worker is this process. joblib comes with scikit-learn; its processes start afresh, since a fork of a process
    that has run OpenMP may hang.
    """
    if num_workers == 1:
        return [function(*arguments) for function, arguments in calls]
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=num_workers)(delayed(function)(*arguments) for function, arguments in calls))
