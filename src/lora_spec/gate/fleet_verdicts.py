"""A fleet's verdicts from files: what ``decide`` wrote or ``lora-spec diagnose`` printed, one per adapter."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.gate.verdict_payload import LoadVerdict, Open, ReasonPayload, check_depths
from lora_spec.printing import printable
from lora_spec.records import Action, DrafterAction, Evidence, Interval, Mode
from lora_spec.regular_file import read_regular_file
from lora_spec.results import MAX_JSON_BYTES, naming
from lora_spec.strict_json import StrictJsonError, parse_own
from lora_spec.typed import FleetName, check_type

_LINES_SUFFIX = ".jsonl"
_SUFFIXES = (".json", _LINES_SUFFIX)
_SMOKE_CODE = "R_SYNTHETIC_SMOKE"


class _Adapter(Open):
    name: FleetName
    weights_sha256: NotRequired[str | None]


class _Context(Open):
    by_load: list[LoadVerdict]
    standing_num_speculative_tokens: int
    num_speculative_tokens: int
    batch_size: float


class _Speedup(TypedDict):
    estimate: float
    lower: float
    upper: float
    level: float
    context: _Context


class _Verdict(TypedDict):
    adapter: _Adapter
    mode: Mode
    action: Action
    num_speculative_tokens: int | None
    drafter: DrafterAction
    acceptance_length: Interval | None
    speedup: _Speedup | None
    reasons: list[ReasonPayload]
    correction: str | None
    predictor_sha256: str | None
    provenance: dict[str, Any]
    schema_version: Literal["1"]


@dataclass(frozen=True)
class LoadDepth:
    """What a verdict says at one load; no depth where it abstains there."""

    batch_size: float
    action: Action
    num_speculative_tokens: int | None
    speedups: Mapping[int, tuple[float, float, float]]


@dataclass(frozen=True)
class FleetVerdict:
    """One adapter's verdict as a policy needs it.

    Parameters
    ----------
    num_speculative_tokens
        Depth at the headline load, None where the verdict abstains.
    acceptance_length, speedup
        At the depth that the verdict reports, ``context["num_speculative_tokens"]``.
    by_load
        Empty where the verdict was given without a cost model.
    where
        Its file, and its line there, for messages.
    """

    name: str
    weights_sha256: str | None
    mode: Mode
    action: Action
    num_speculative_tokens: int | None
    drafter: DrafterAction
    acceptance_length: Interval | None
    speedup: Interval | None
    by_load: tuple[LoadDepth, ...]
    context: Mapping[str, Any]
    reasons: tuple[tuple[str, str], ...]
    predictor_sha256: str | None
    evidence: Evidence
    path: Path
    where: str = ""

    def at_load(self, batch_size: float) -> LoadDepth | None:
        """Return what it says at one load; None where it says nothing."""
        return next((load for load in self.by_load if load.batch_size == batch_size), None)


def read_fleet(
    paths: Iterable[Path], *, mode: str | None = None, evidence: Collection[Evidence] = ("measured",)
) -> list[FleetVerdict]:
    """Return one verdict per adapter, sorted by name.

    Parameters
    ----------
    paths
        Verdict files, ``.jsonl`` files with one verdict a line, or folders of both.
    mode
        Take verdicts of this mode alone; None takes the measured one where an adapter has two.

    Raises
    ------
    ResultError
        A path holds no verdict, or an adapter has two of equal standing; the message names the files.
    EvidenceError
        A verdict rests on synthetic values and ``evidence`` does not allow them.
    """
    found: dict[str, list[FleetVerdict]] = {}
    for path in _files(paths):
        for verdict in _read(path):
            if mode is not None and verdict.mode != mode:
                continue
            _check_evidence(verdict, evidence)
            found.setdefault(verdict.name, []).append(verdict)
    if not found:
        told = "" if mode is None else f" of mode {printable(mode)}"
        raise ResultError(f"no verdict{told} in {', '.join(map(str, paths))}; make some with lora-spec diagnose")
    return [_the_one(found[name]) for name in sorted(found)]


def _files(paths: Iterable[Path]) -> list[Path]:
    files = []
    for path in paths:
        if path.is_dir():
            inside = sorted(item for item in path.iterdir() if item.suffix in _SUFFIXES)
            if not inside:
                raise ResultError(f"{path}: no {' or '.join(_SUFFIXES)} file in this folder; name the verdicts' folder")
            files += inside
        else:
            files.append(path)
    return files


def _read(path: Path) -> list[FleetVerdict]:
    try:
        data = read_regular_file(path, MAX_JSON_BYTES)
    except (OSError, ValueError) as err:
        raise _unreadable(str(path), getattr(err, "strerror", None) or err) from err
    if path.suffix == _LINES_SUFFIX:
        documents = {f"{path}: line {line}": text for line, text in enumerate(data.split(b"\n"), start=1)}
    else:
        documents = {str(path): data}
    if not data.strip():
        raise ResultError(f"{path}: is empty; diagnose again")
    return [_verdict(_parsed(text, where), path, where) for where, text in documents.items() if text.strip()]


def _parsed(text: bytes, where: str) -> Any:
    try:
        return parse_own(text)
    except StrictJsonError as err:
        raise _unreadable(where, err) from err


def _unreadable(where: str, reason: object) -> ResultError:
    return ResultError(f"{where}: no readable verdict ({reason}); check the path or diagnose again")


def _verdict(data: Any, path: Path, where: str) -> FleetVerdict:
    if isinstance(data, dict) and "action" not in data and "status" in data:
        raise ResultError(
            f"{where}: no verdict but an inspection of status {printable(data['status'])}: diagnose refused this "
            "adapter; mend the adapter, or take it out of the fleet"
        )
    checked = check_type(_Verdict, data, where)
    speedup, depth = checked["speedup"], checked["num_speculative_tokens"]
    check_depths(checked, where, remedy="diagnose again")
    context = {} if speedup is None else speedup["context"]
    with naming(path):
        return FleetVerdict(
            name=checked["adapter"]["name"],
            weights_sha256=checked["adapter"].get("weights_sha256"),
            speedup=speedup and Interval(speedup["estimate"], speedup["lower"], speedup["upper"], speedup["level"]),
            by_load=tuple(_load_depth(load) for load in context.get("by_load", ())),
            context=context,
            reasons=tuple((reason["code"], reason["message"]) for reason in checked["reasons"]),
            evidence=_evidence_of(checked, context),
            path=path,
            where=where,
            **{key: checked[key] for key in ("mode", "action", "drafter", "acceptance_length", "predictor_sha256")},
            num_speculative_tokens=depth,
        )


def _load_depth(load: Mapping[str, Any]) -> LoadDepth:
    speedups = {
        int(depth): (found["estimate"], found["lower"], found["upper"])
        for depth, found in load["speedup_by_depth"].items()
    }
    return LoadDepth(load["batch_size"], load["action"], load["num_speculative_tokens"], speedups)


def _evidence_of(data: Mapping[str, Any], context: Mapping[str, Any]) -> Evidence:
    is_smoke = any(reason["code"] == _SMOKE_CODE for reason in data["reasons"])
    told = data["provenance"].get("evidence", context.get("evidence", "measured"))
    return "measured" if told == "measured" and not is_smoke else "synthetic-smoke"


def _check_evidence(verdict: FleetVerdict, evidence: Collection[Evidence]) -> None:
    if verdict.evidence not in evidence:
        raise EvidenceError(
            f"{verdict.path}: this verdict rests on synthetic values; diagnose with measured inputs, or pass "
            "--allow-smoke to try the software out"
        )


def _the_one(verdicts: Sequence[FleetVerdict]) -> FleetVerdict:
    """Return the measured one of all verdicts on an adapter, or the only one."""
    first, *others = [verdict for verdict in verdicts if verdict.mode == "measured"] or verdicts
    if not others:
        return first
    second = others[0]
    remedy = "give one" if first.mode == second.mode else "give one, or choose with --mode"
    raise ResultError(
        f"{first.where} and {second.where}: two verdicts on adapter {printable(first.name)}, of modes {first.mode} and "
        f"{second.mode}; {remedy}"
    )
