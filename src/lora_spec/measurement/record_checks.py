"""Is an acceptance record of one adapter, whole, and of the measurement that the config describes?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.records import AcceptanceRecord, PromptRecord

_FINISHED = ("stop", "length")
_RESTORE = "measure again or restore the config"


def check_record(record: AcceptanceRecord) -> None:
    """Refuse a record whose rows are not all of its adapter, or whose arms and depths do not match.

    Raises
    ------
    ResultError
        A row is of another adapter, impossible or there twice, or a prompt lacks an arm or a depth.
    """
    seen: set[tuple[Any, ...]] = set()
    for row in record.records:
        where = f"adapter {record.adapter!r}, {row.arm} arm, prompt {row.prompt_id}"
        _check_row(row, record.adapter, where)
        cell = (*_place(row), row.counts.num_speculative_tokens)
        if cell in seen:
            raise ResultError(f"{where}: counted twice at K={cell[-1]}; measure again")
        seen.add(cell)
    _check_pairs(record)


def _place(row: PromptRecord) -> tuple[Any, ...]:
    return row.source, row.weights, row.drafter, row.context, row.arm, row.prompt_set, row.prompt_id


def _check_row(row: PromptRecord, adapter: str, where: str) -> None:
    expected = adapter if row.arm == "adapted" else None
    counts = row.counts
    if row.adapter != expected:
        raise ResultError(f"{where}: served {row.adapter!r} where {expected!r} belongs; its rows are of another record")
    if row.finish_reason not in _FINISHED:
        raise ResultError(f"{where}: ended with {row.finish_reason!r}, not stop or length; measure again")
    if counts.num_draft_tokens > counts.num_drafts * counts.num_speculative_tokens:
        raise ResultError(
            f"{where}: {counts.num_draft_tokens} tokens drafted in {counts.num_drafts} drafts of at most "
            f"{counts.num_speculative_tokens}; measure again"
        )
    if row.num_prompt_tokens < 1:
        raise ResultError(f"{where}: {row.num_prompt_tokens} prompt tokens; measure again")
    if (row.num_steps or 0) < 0 or not (row.e2el_ms is None or 0 <= row.e2el_ms < math.inf):
        raise ResultError(f"{where}: {row.num_steps} steps in {row.e2el_ms} ms; measure again")
    _check_tokens(row, where)


def _check_tokens(row: PromptRecord, where: str) -> None:
    """Hold the counts to the text: a step adds its accepted drafts and one token, the first token comes without one.

    The last step may accept up to K drafts past the end. A look-up, and a live engine near its limits, may leave steps
    without drafts; a replayed drafter drafts in every one.
    """
    counts, num_later = row.counts, len(row.output_token_ids) - 1
    past_end = counts.num_drafts + counts.num_accepted_tokens - num_later
    drafts_always = row.source == "replay" and row.drafter != "ngram"
    if past_end > counts.num_speculative_tokens or (drafts_always and past_end < 0):
        raise ResultError(
            f"{where}: {counts.num_drafts} drafts and {counts.num_accepted_tokens} accepted tokens cannot have given "
            f"{num_later + 1} tokens at K={counts.num_speculative_tokens}; measure again"
        )


def _check_pairs(record: AcceptanceRecord) -> None:
    """Both arms of the replay that verdicts rest on hold the same prompts, each at the same depths."""
    depths: dict[tuple[str, str], dict[str, set[int]]] = {}
    for row in record.chosen():
        by_arm = depths.setdefault((row.prompt_set, row.prompt_id), {"base": set(), "adapted": set()})
        by_arm[row.arm].add(row.counts.num_speculative_tokens)
    every = set().union(*(found for by_arm in depths.values() for found in by_arm.values()))
    for (prompt_set, prompt_id), by_arm in depths.items():
        for arm, found in by_arm.items():
            if found != every:
                raise ResultError(
                    f"adapter {record.adapter!r}, {prompt_set} prompt {prompt_id}: the {arm} arm is counted at K="
                    f"{sorted(found)} where K={sorted(every)} belong; measure again"
                )


def check_alike(records: Sequence[AcceptanceRecord]) -> None:
    """Refuse to compare records that were not counted in the same way.

    Raises
    ------
    ResultError
        Two differ in how the adapter was served, in the depths counted, or in the common prompts.
    """
    told = [(record.adapter, _way_of(record)) for record in records]
    for name, way in told[1:]:
        for what, expected in told[0][1].items():
            if way[what] != expected:
                raise ResultError(
                    f"adapters {told[0][0]!r} and {name!r} were counted with different {what}; pass records of one "
                    "campaign"
                )


def _way_of(record: AcceptanceRecord) -> dict[str, Any]:
    rows = record.chosen()
    return {
        "weights": {row.weights for row in rows},
        "depths": {row.counts.num_speculative_tokens for row in rows},
        "common prompts": {row.prompt_id for row in rows if row.prompt_set == "common"},
    }


@dataclass(frozen=True)
class ExpectedPrompts:
    """One evaluation entry of ``prompts.yaml``: ``num_prompts`` of every domain in ``sha256``, None until frozen."""

    prompt_set: str
    num_prompts: int
    max_tokens: int
    sha256: Mapping[str, str | None]

    def of_domain(self, domain: str) -> "ExpectedPrompts":
        """Return what one adapter is counted on: its own domain's prompts, or all common ones."""
        if self.prompt_set == "common":
            return self
        return replace(self, sha256={domain: self.sha256.get(domain)})

    def check(self, adapter: str, rows: Sequence[PromptRecord]) -> None:
        """Raise ResultError where an adapter's rows of this set are of other prompts, or longer than its cap."""
        where = f"adapter {adapter!r}, {self.prompt_set} prompts"
        self._check_ids({row.prompt_id for row in rows}, where)
        lengths = [len(row.output_token_ids) for row in rows]
        cut = [len(row.output_token_ids) for row in rows if row.finish_reason == "length"]
        if max(lengths) > self.max_tokens or set(cut) - {self.max_tokens}:
            raise ResultError(
                f"{where}: measured with at most {max(cut, default=max(lengths))} tokens, prompts.yaml has max_tokens "
                f"{self.max_tokens}; {_RESTORE}"
            )

    def _check_ids(self, found: set[str], where: str) -> None:
        num_prompts = self.num_prompts * len(self.sha256)
        if len(found) != num_prompts:
            raise ResultError(f"{where}: measured on {len(found)}, prompts.yaml has {num_prompts}; {_RESTORE}")
        hashes = [sha256 for sha256 in self.sha256.values() if sha256]
        if len(hashes) < len(self.sha256):
            return  # not frozen yet: which prompts they are is nowhere told
        wanted = {f"{sha256[:12]}-{index:04d}" for sha256 in hashes for index in range(self.num_prompts)}
        if found != wanted:
            raise ResultError(
                f"{where}: measured with other prompts ({min(found - wanted)}) than prompts.yaml freezes "
                f"({min(wanted - found)}); {_RESTORE}"
            )


def check_engine(engine: Mapping[str, Any], expected: Mapping[str, Any], *, what: str) -> None:
    """Refuse numbers of another engine than the config names, since captions repeat the config.

    Parameters
    ----------
    engine
        The engine's own description, from a payload.
    expected
        ``vllm`` and ``dtype`` by the config, ``target`` and ``drafter`` by name; older payloads lack the names, which
        are then not checked.

    Raises
    ------
    ResultError
        With what was measured and what the config says.
    """
    for key, wanted in expected.items():
        is_told = key in engine or key == "vllm"
        if is_told and engine.get(key) != wanted:
            raise ResultError(f"{what}: measured with {key} {engine.get(key)}, the config has {wanted}; {_RESTORE}")


@dataclass(frozen=True)
class ExpectedMeasurement:
    """What the config says that a record was measured with; figures and captions repeat it.

    Parameters
    ----------
    engine
        As :func:`check_engine` takes it.
    domains
        Domain of each adapter by name, whose prompts are its own traffic.
    """

    engine: Mapping[str, Any]
    max_depth: int
    weights: str
    domains: Mapping[str, str]
    prompts: tuple[ExpectedPrompts, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ExpectedMeasurement":
        """Rebuild from a script's JSON flag."""
        return cls(**{**data, "prompts": tuple(ExpectedPrompts(**prompts) for prompts in data["prompts"])})

    def check(self, record: AcceptanceRecord, engine: Mapping[str, Any]) -> None:
        """Refuse a record of another engine version, depth, way of serving, or of other prompts.

        Parameters
        ----------
        engine
            The engine's own description, from the record's payload.

        Raises
        ------
        ResultError
            With what was measured and what the config says.
        """
        name = record.adapter
        if name not in self.domains:
            raise ResultError(f"adapter {name!r} has a record but no row in adapter_pool.yaml; {_RESTORE}")
        check_engine(engine, self.engine, what=f"adapter {name!r}")
        served = {row.weights for row in record.chosen()}
        facts = (
            ("replay to K", record.max_depth, self.max_depth),
            ("weights", "+".join(sorted(served)), self.weights),
        )
        for what, found, wanted in facts:
            if found != wanted:
                raise ResultError(
                    f"adapter {name!r}: measured with {what} {found}, the config has {wanted}; {_RESTORE}"
                )
        self._check_prompts(record)

    def _check_prompts(self, record: AcceptanceRecord) -> None:
        rows = _by_set(record.records)
        for prompts in self.prompts:
            expected = prompts.of_domain(self.domains[record.adapter])
            expected.check(record.adapter, rows.pop(prompts.prompt_set, []))
        if rows:
            raise ResultError(
                f"adapter {record.adapter!r}: measured on prompt set {min(rows)!r} too, which prompts.yaml does not "
                f"have; {_RESTORE}"
            )


def _by_set(rows: Iterable[PromptRecord]) -> dict[str, list[PromptRecord]]:
    found: dict[str, list[PromptRecord]] = {}
    for row in rows:
        found.setdefault(row.prompt_set, []).append(row)
    return found
