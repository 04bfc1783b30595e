"""What the caches do with adapters: each test is a process of its own, and says whose text came out.

All run on the first baseline with prefix caching on; texts are compared with the reference texts of the same prompt.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lora_spec.engines import AdapterRef
from lora_spec.engines.cell_spec import CellRequest, LoraRef, Wave
from lora_spec.errors import MeasurementError
from lora_spec.measurement.composability.workload import BASE, Workload, text_id

References = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class CacheTest:
    """One process: its waves, and for each request whose text is due (request id to writer).

    ``claims`` maps a key of the config's ``cache_semantics`` to the requests that decide it. A test that
    ``must_hit_cache`` shows nothing if the prefix cache was never hit.
    """

    name: str
    message_index: int
    waves: tuple[Wave, ...]
    due: Mapping[str, str]
    claims: Mapping[str, tuple[str, ...]]
    must_hit_cache: bool = False


def make_cache_tests(
    load: Workload, references: References, scratch: Path, names: Collection[str]
) -> tuple[CacheTest, ...]:
    """Return the named tests; ``scratch`` is a folder whose content one of them replaces while the engine runs.

    Raises
    ------
    MeasurementError
        No prompt tells the first two adapters and the base apart, so nothing could be seen.
    """
    first, second = load.adapters[:2]
    script = _Script(load, _telling_prompt(load, references, first, second))
    tests = (
        _coming_and_going(script),
        _reregistration(script, first, second, scratch),
        _rolling_update(script, first, second),
    )
    return tuple(test for test in tests if test.name in names)


def _telling_prompt(load: Workload, references: References, first: AdapterRef, second: AdapterRef) -> int:
    for index in range(len(load.messages)):
        writers = (None, first.name, second.name)
        texts = {tuple(references[text_id(writer, index, is_held=False)]["token_ids"]) for writer in writers}
        if len(texts) == len(writers):
            return index
    raise MeasurementError(
        f"no prompt tells {first.name}, {second.name} and the base apart; name other adapters in phase0_runtime.yaml"
    )


class _Script:
    """Makes requests of one prompt, numbered in the order of their making."""

    def __init__(self, load: Workload, index: int) -> None:
        self.load = load
        self.index = index
        self._num_made = 0

    def request(self, lora: LoraRef | None) -> CellRequest:
        self._num_made += 1
        (made,) = replace(self.load, messages=(self.load.messages[self.index],)).requests((None,))
        return replace(made, request_id=f"{lora.name if lora else BASE}/{self._num_made}", lora=lora)

    def wave(self, lora: LoraRef | None) -> Wave:
        return Wave((self.request(lora),))


def _ids(*waves: Wave) -> tuple[str, ...]:
    return tuple(request.request_id for wave in waves for request in wave.requests)


def _coming_and_going(script: _Script) -> CacheTest:
    """Send one prompt under the base and more adapters than there are slots, one after the other, twice.

    Whoever comes later could be served from another's cached prefix, and the second round needs evicted adapters.
    """
    writers = (None, *script.load.adapters) * 2
    waves = tuple(script.wave(writer and script.load.lora_ref(writer)) for writer in writers)
    due = {name: writer.name if writer else BASE for name, writer in zip(_ids(*waves), writers, strict=True)}
    second_round = _ids(*waves[len(waves) // 2 + 1 :])
    claims = {"prefix_cache_is_per_adapter": tuple(due), "evicted_adapter_is_reloaded": second_round}
    return CacheTest("coming_and_going", script.index, waves, due, claims, must_hit_cache=True)


def _reregistration(script: _Script, first: AdapterRef, second: AdapterRef, scratch: Path) -> CacheTest:
    """Use one LoRA name for two adapters in turn, in every way that vLLM offers."""
    old, new = first.path, second.path
    folder = str(scratch / "replaced_in_place")
    before = script.wave(LoraRef("tenant_a", 11, old))
    new_id = script.wave(LoraRef("tenant_a", 12, new))
    loaded = script.wave(LoraRef("tenant_b", 13, old))
    same_id = script.wave(LoraRef("tenant_b", 13, new))
    # A name of its own: blocks that tenant_b cached under its new path hold the old weights' prefix.
    kept = script.wave(LoraRef("tenant_c", 14, old))
    inplace = script.wave(LoraRef("tenant_c", 14, new, load_inplace=True))
    written = replace(script.wave(LoraRef("tenant_d", 15, folder)), replace=(old, folder))
    rewritten = replace(script.wave(LoraRef("tenant_d", 16, folder)), replace=(new, folder))
    waves = (before, new_id, loaded, same_id, kept, inplace, written, rewritten)
    fresh = (new_id, same_id, inplace, rewritten)
    due = {name: second.name if wave in fresh else first.name for wave in waves for name in _ids(wave)}
    claims = {
        "new_id_and_path_are_reread": _ids(new_id),
        "same_id_is_reread": _ids(same_id),
        "same_id_with_load_inplace_is_reread": _ids(inplace),
        "new_id_on_same_path_is_reread": _ids(rewritten),
    }
    return CacheTest("reregistration", script.index, waves, due, claims)


def _rolling_update(script: _Script, first: AdapterRef, second: AdapterRef) -> CacheTest:
    """Have requests of the old and of the new weights under one name in one batch, as while tenants are moved over."""
    old = script.request(LoraRef("tenant", 11, first.path))
    new = script.request(LoraRef("tenant", 12, second.path))
    wave = Wave((old, new))
    due = {old.request_id: first.name, new.request_id: second.name}
    return CacheTest("rolling_update", script.index, (wave,), due, {"weights_of_one_name_share_a_batch": _ids(wave)})
