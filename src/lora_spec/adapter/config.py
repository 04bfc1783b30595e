"""``adapter_config.json``: strict JSON into settings that later rooms can rely on, faults into codes.

Nothing that a config names (paths, classes, models) is opened, downloaded or imported.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from lora_spec.adapter import config_fields as fields
from lora_spec.adapter.files import RegularFile
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.folder import CONFIG_NAME
from lora_spec.adapter.limits import MAX_CONFIG_BYTES, MAX_JSON_VALUES
from lora_spec.adapter.names import module_type, name_ends
from lora_spec.adapter.patterns import PatternTable
from lora_spec.errors import AdapterError
from lora_spec.printing import printable
from lora_spec.strict_json import StrictJsonError, parse_strict

DEFAULT_RANK = 8
DEFAULT_ALPHA = 8


class _Settings(NamedTuple):
    rank: int | None
    alpha: float | None
    use_rslora: bool
    rank_pattern: PatternTable
    alpha_pattern: PatternTable
    target_modules: str | tuple[str, ...] | None
    target_parameters: tuple[str, ...]
    modules_to_save: tuple[str, ...]
    token_indices: Mapping[str, int]
    task_type: str
    is_block_diagonal: bool
    raw: Mapping[str, Any]


class LoraSettings(_Settings):
    """What a config says about ranks, scales and modules; None where it says something impossible."""

    @cached_property
    def parameters_by_parent(self) -> dict[str, tuple[str, ...]]:
        """Return by each parent in ``target_parameters`` what a module that ends in it holds, in the config's order.

        That are the last words of the entries with this parent, with an end of it, and, for ``experts``, with none;
        those with none stand under "".
        """
        found: dict[str, dict[str, int]] = {}
        for place, entry in enumerate(self.target_parameters):
            parent, _, parameter = entry.rpartition(".")
            found.setdefault(parent, {}).setdefault(parameter, place)
        held = {}
        for parent in found:
            ends = [end for end in name_ends(parent) if end in found and (end or not parent)]
            ends += [""] if module_type(parent) == "experts" and "" in found else []
            pairs = sorted((place, word) for end in ends for word, place in found[end].items())
            held[parent] = tuple(dict.fromkeys(word for _, word in pairs))
        return held

    @cached_property
    def last_saved_words(self) -> frozenset[str]:
        """Return the last word of each entry of ``modules_to_save``."""
        return frozenset(entry.rpartition(".")[2] for entry in self.modules_to_save if entry)

    @cached_property
    def saved_by_length(self) -> dict[int, set[tuple[str, ...]]]:
        """Return the entries of ``modules_to_save`` as words, by the number of them; of long ones the last four.

        A few words tell a saved module from others, and with so few lengths a name is compared in a few look-ups.
        """
        found: dict[int, set[tuple[str, ...]]] = {}
        for entry in self.modules_to_save:
            words = tuple(entry.split(".")[-4:])
            if entry:
                found.setdefault(len(words), set()).add(words)
        return found


def read_config(file: RegularFile) -> dict[str, Any]:
    """Return the object that a config file holds.

    Raises
    ------
    AdapterError
        ``E_CONFIG_JSON`` if it is not strict JSON.
    """
    data = bytes(file.read_at(0, min(file.size, MAX_CONFIG_BYTES)))
    try:
        if file.size > MAX_CONFIG_BYTES:
            raise StrictJsonError(f"{file.size} bytes are more than any config needs")
        if data.startswith(b"version https://git-lfs"):
            raise StrictJsonError("it is a git-lfs pointer; run git lfs pull")
        config = parse_strict(data, MAX_JSON_VALUES)
    except StrictJsonError as err:
        raise AdapterError(
            f"{CONFIG_NAME}: not strict JSON: {printable(err)}; correct the file", codes=["E_CONFIG_JSON"]
        ) from err
    if not isinstance(config, dict):
        raise AdapterError(f"{CONFIG_NAME}: holds no JSON object; correct the file", codes=["E_CONFIG_JSON"])
    return config


def is_mlx_config(config: Mapping[str, Any]) -> bool:
    """Tell whether MLX wrote a config: its own fields, and no PEFT method."""
    return "peft_type" not in config and any(
        key in config for key in ("fine_tune_type", "lora_parameters", "lora_layers")
    )


def interpret_config(config: Mapping[str, Any], findings: Findings) -> LoraSettings:
    """Return the settings of a config; record every field that is wrong, unknown, or changes the mathematics."""
    fields.check_method(config, findings)
    fields.check_switches(config, findings)
    fields.check_initialisation(config, findings)
    fields.check_unknown(config, findings)
    use_rslora = fields.truth(config, "use_rslora", findings)
    return LoraSettings(
        rank=fields.rank(config.get("r", DEFAULT_RANK), "r", findings),
        alpha=fields.number(config.get("lora_alpha", DEFAULT_ALPHA), "lora_alpha", findings),
        use_rslora=use_rslora,
        rank_pattern=fields.pattern_table(config, "rank_pattern", fields.rank, findings),
        alpha_pattern=fields.pattern_table(config, "alpha_pattern", fields.number, findings),
        target_modules=fields.target_modules(config, findings),
        target_parameters=fields.target_parameters(config, findings),
        modules_to_save=fields.modules_to_save(config, findings),
        token_indices=fields.token_indices(config, findings),
        task_type=str(config.get("task_type") or "").upper(),
        is_block_diagonal=bool(config.get("use_bdlora")),
        raw=config,
    )
