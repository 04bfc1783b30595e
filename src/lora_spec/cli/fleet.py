"""Inspect many folders at once: parallel processes, answers in order, one bad adapter never stops the rest."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lora_spec.adapter import inspect_adapter
from lora_spec.errors import AdapterError, ConfigError, LoraSpecError
from lora_spec.printing import printable

_FEW = 8  # so few folders are done before a second process has started


class Answer(NamedTuple):
    """The JSON object for one folder and its one line for people."""

    data: dict[str, Any]
    line: str


class Options(NamedTuple):
    """What an inspection is told, in a form that travels to other processes."""

    is_header_only: bool = False
    runtime: str | None = None
    base: Path | None = None
    base_profile: Path | None = None


def inspect_one(path: Path, options: Options) -> Answer:
    """Inspect one folder; whatever goes wrong becomes its answer, so that the others go on."""
    try:
        answer = _inspect(path, options)
        json.dumps(answer.data, allow_nan=False)  # what cannot be printed is found here, not when it is printed
    except Exception as err:  # the last line of defence of a reader of hostile files: never a traceback
        return _told(path, err)
    return answer


def _inspect(path: Path, options: Options) -> Answer:
    inspection = inspect_adapter(path, header_only=options.is_header_only)
    data = {**inspection.to_dict(), "path": printable(path, 4000)}
    line = f"{printable(path, 400)}: {inspection.tell()}"
    if inspection.modules and inspection.status != "error":
        line = _extend(path, inspection, options, data, line)
    return Answer(data, line)


def _told(path: Path, err: Exception) -> Answer:
    """Return the answer that an exception stands for."""
    kind = type(err).__name__
    if isinstance(err, AdapterError) and any(code.startswith("E_") for code in err.codes):
        return failed(path, str(err), codes=[code for code in err.codes if code.startswith("E_")])
    if isinstance(err, MemoryError):
        return failed(path, "needs more memory than this process may take; inspect it alone on a larger machine")
    if isinstance(err, ArithmeticError) or "Out of range float" in str(err):
        what = "a number of it leaves the range of float64; check lora_alpha and the values"
        return failed(path, f"{kind}: {err}: {what}", codes=["E_NONFINITE"])
    if isinstance(err, LoraSpecError):
        return failed(path, str(err))
    return failed(path, f"{kind}: {err}; this is a fault of lora-spec, please report it")


def check_options(options: Options) -> None:
    """Raise where the base model or its profile cannot be read: it is one for all, so that is wrong usage.

    Raises
    ------
    ConfigError
        A profile is asked for together with an inspection of headers alone, which reads no factors.
    """
    if options.base is not None:
        from lora_spec.adapter.base_model import BaseModel

        with BaseModel(options.base):
            pass
    if options.base_profile is not None:
        from lora_spec.features import read_base_profile

        if options.is_header_only:
            raise ConfigError("--base-profile needs the factors, which --header-only does not read; leave one out")
        profile = read_base_profile(options.base_profile)
        if options.base is not None:
            profile.refuse_other_base(options.base)


def _extend(path: Path, inspection: Any, options: Options, data: dict[str, Any], line: str) -> str:
    if options.runtime is not None:
        from lora_spec.adapter.runtimes import served_update

        served = served_update(inspection, options.runtime)
        data["served"] = served.to_dict()
        for what in (f"{served.tell()} ({served.basis})", *served.refusals, *served.warnings):
            line += f"\n  {options.runtime}: {what}"
    if options.base is not None:
        from lora_spec.features.relative import relative_to_base

        relative = relative_to_base(path, inspection, options.base)
        data["base"] = relative.to_dict()
        line += _tell_base(relative)
    if options.base_profile is not None:
        from lora_spec.features.effect import effect_on_base

        effect = effect_on_base(path, inspection, options.base_profile)
        data["base_profile"] = effect
        line += _tell_effect(effect["columns"])
    return line


def _tell_base(relative: Any) -> str:
    text = ""
    for what, names in (("names unknown to the base", relative.unmatched), ("other sizes", relative.misfits)):
        if names:
            text += f"\n  base: {len(names)} modules have {what}, such as {names[0]}: is this the right base?"
    if relative.columns is not None:
        size = 100 * math.exp(relative.columns.values["base_log_relative_fro"])
        text += f"\n  base: the update is {size:.3g} % of the adapted weights (Frobenius)"
    return text


def _tell_effect(columns: Mapping[str, float]) -> str:
    moved = math.exp(columns["base_act_log_relative_largest"])
    flips, lost = (100 * columns[f"base_margin_flip_share{part}"] for part in ("", "_agreed"))
    return (
        f"\n  base profile: outputs move by up to {100 * moved:.3g} % of their own size; to first order {flips:.3g} % "
        f"of the base's choices flip, {lost:.3g} % of those that the drafter shares"
    )


def failed(path: Path, reason: str, *, codes: Sequence[str] = ("E_UNSAFE_FILE",)) -> Answer:
    """Return the answer for a folder whose inspection itself failed."""
    message = printable(reason, 400)
    data = {"schema_version": "1", "status": "error", "codes": list(codes), "message": message, "adapter": None}
    return Answer({**data, "path": printable(path, 4000)}, f"{printable(path, 400)}: error: {message}")


def inspect_many(paths: Sequence[Path], options: Options, num_processes: int) -> Iterator[Answer]:
    """Yield the answers in the order of the paths."""
    if len(paths) <= _FEW or num_processes == 1:
        for path in paths:
            yield inspect_one(path, options)
        return
    # A worker that dies (out of memory) breaks its pool: go on behind the folder it died on, in a new pool.
    done = 0
    while done < len(paths):
        for answer in _in_pool(paths[done:], options, num_processes):
            done += 1
            yield answer
        if done < len(paths):
            yield _alone(paths[done], options)
            done += 1


def _in_pool(paths: Sequence[Path], options: Options, num_processes: int) -> Iterator[Answer]:
    """Yield answers until all are done or the pool breaks."""
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    window = 8 * num_processes  # answers wait for the slowest before them; more would only fill memory
    with ProcessPoolExecutor(num_processes, mp_context=get_context("spawn")) as pool:
        waiting: list[Future[Answer]] = []
        rest = iter(paths)
        try:
            for path in rest:
                waiting.append(pool.submit(inspect_one, path, options))
                if len(waiting) >= window:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        except BrokenProcessPool:
            return


def _alone(path: Path, options: Options) -> Answer:
    """Inspect one suspect folder in a process of its own."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(inspect_one, path, options).result()
        except BrokenProcessPool:
            return failed(path, "the process that read it died (out of memory?)")


def default_num_processes() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Progress:
    """Counts answers, with a bar on stderr while it is a terminal; silent otherwise."""

    def __init__(self, total: int) -> None:
        self._counts = {"ok": 0, "abstain": 0, "error": 0}
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty() and total > 1:
            # Imported here: one adapter, or a pipe, needs no bar.
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="adapter", dynamic_ncols=True)

    def advance(self, status: str) -> None:
        """Count one more answer."""
        self._counts[status] += 1
        if self._bar is not None:
            self._bar.set_postfix(self._counts, refresh=False)
            self._bar.update()

    def finish(self) -> None:
        """Leave the bar's line."""
        if self._bar is not None:
            self._bar.close()

    def summary(self) -> str:
        """Return the counts as one line."""
        counts = ", ".join(f"{count} {name}" for name, count in self._counts.items())
        return f"{sum(self._counts.values())} adapters: {counts}"
