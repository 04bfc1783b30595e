"""What a cell's process is told, as plain data: engine options, waves of requests, what to score afterwards.

Knows no vLLM, so that a run can be planned and judged without it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LoraRef:
    """An adapter as one request names it; the same name may stand for other ids, paths and weights over time."""

    name: str
    int_id: int
    path: str
    load_inplace: bool = False


@dataclass(frozen=True)
class CellRequest:
    """One chat message to be answered; ``request_id`` is unique within a cell.

    ``pattern`` is a regular expression that the output is held to; ``num_logprobs`` tokens per position are reported.
    """

    request_id: str
    message: str
    max_tokens: int
    lora: LoraRef | None = None
    temperature: float = 0.0
    pattern: str | None = None
    num_logprobs: int | None = None


@dataclass(frozen=True)
class Wave:
    """Requests sent together, after the waves before have ended; ``replace`` copies one folder over another first."""

    requests: tuple[CellRequest, ...]
    replace: tuple[str, str] | None = None


@dataclass(frozen=True)
class CellSpec:
    """The whole task of a cell's process.

    ``scored_adapters`` (name to folder) is set where the texts are to be scored by a plain forward pass of the target
    at ``target``; requests then are scored under the adapter of their ``LoraRef.name``.
    """

    engine_options: Mapping[str, Any]
    kv_cache_gib: int
    waves: tuple[Wave, ...]
    scored_adapters: Mapping[str, str] | None = None
    num_threads: int = 1

    @property
    def requests(self) -> dict[str, CellRequest]:
        """Return all requests by their ids."""
        return {request.request_id: request for wave in self.waves for request in wave.requests}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CellSpec":
        """Rebuild from :meth:`to_dict` output read back from JSON."""
        return cls(**{**data, "waves": tuple(_wave(wave) for wave in data["waves"])})


def _wave(data: Mapping[str, Any]) -> Wave:
    requests = tuple(
        CellRequest(**{**request, "lora": request["lora"] and LoraRef(**request["lora"])})
        for request in data["requests"]
    )
    return Wave(requests, data["replace"] and tuple(data["replace"]))
