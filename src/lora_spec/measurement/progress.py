"""A progress bar for long measurements that a person sees although the job's output goes to a log."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

T = TypeVar("T")

FD_VARIABLE = "LORA_SPEC_PROGRESS_FD"
"""Names the descriptor that a rule opened to the terminal before it sent everything else to its log."""


@contextmanager
def _stream() -> Iterator[TextIO]:
    descriptor = os.environ.get(FD_VARIABLE, "")
    try:
        opened = os.fdopen(os.dup(int(descriptor)), "w") if descriptor.isdecimal() else None
    except OSError:
        opened = None
    try:
        yield opened or sys.stderr
    finally:
        if opened is not None:
            opened.close()


def with_progress(
    items: Iterable[T], *, total: int, doing: str, unit: str, num_before: Callable[[], int] = lambda: 0
) -> Iterator[T]:
    """Yield the items and show how many are done and how long the rest will take, at most every ten seconds.

    Parameters
    ----------
    num_before
        How many of ``total`` an earlier run has done, asked once the first item is there; they took no time.
    """
    from tqdm import tqdm

    with _stream() as stream, tqdm(total=total, desc=doing, unit=unit, file=stream, mininterval=10, ncols=80) as bar:
        for index, item in enumerate(items):
            if index == 0:
                bar.n = bar.initial = num_before()
            yield item
            bar.update()


def tell(line: str) -> None:
    """Write one line to the person who waits, and to the log."""
    with _stream() as stream:
        for place in {id(sys.stderr): sys.stderr, id(stream): stream}.values():
            place.write(f"{line}\n")
