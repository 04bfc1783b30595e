"""Families of modules and thirds of the depth: the fixed places that norms are summed in, whatever the architecture."""

from collections.abc import Iterable, Mapping

from lora_spec.adapter import InspectedModule

FAMILIES = ("query_key", "value", "attention_output", "mlp_input", "mlp_output", "other")
THIRDS = ("early", "middle", "late")

_WORDS: Mapping[str, str] = {
    "query_key": "q_proj k_proj query key q k wq wk query_key_value qkv_proj c_attn Wqkv in_proj qkv "
    "q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj to_q to_k linear_qkv",
    "value": "v_proj value v wv to_v",
    "attention_output": "o_proj out_proj wo attn_out to_out dense linear_proj",
    "mlp_input": "gate_proj up_proj fc1 w1 w3 gate_up_proj dense_h_to_4h c_fc fc_in linear_fc1 wi wi_0 wi_1",
    "mlp_output": "down_proj fc2 w2 dense_4h_to_h fc_out linear_fc2 experts",
}
_FAMILY_OF_WORD = {word: family for family, words in _WORDS.items() for word in words.split()}


def family_of(module: InspectedModule) -> str:
    """Return the family of a module from the last words of its name; ``other`` where no rule knows it."""
    if module.type == "c_proj":  # GPT-2 uses one name for two things
        return "mlp_output" if ".mlp." in f".{module.name}." else "attention_output"
    if module.type == "experts" and ".base_layer" in module.name:
        return "mlp_input"  # the inner wrapper of a stack of experts is gate_up_proj
    return _FAMILY_OF_WORD.get(module.type, "other")


def depth_of_stacks(modules: Iterable[InspectedModule]) -> dict[str, int]:
    """Return the number of layers of each layer list, as far as the adapter shows: its largest index plus one."""
    depths: dict[str, int] = {}
    for module in modules:
        if module.stack is not None and module.layer is not None:
            depths[module.stack] = max(depths.get(module.stack, 0), module.layer + 1)
    return depths


def third_of(module: InspectedModule, depths: Mapping[str, int]) -> str | None:
    """Return the third of the depth that a module stands in, None outside of layers."""
    if module.stack is None or module.layer is None:
        return None
    return THIRDS[min(2, 3 * module.layer // depths[module.stack])]
