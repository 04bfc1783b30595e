# ruff: noqa: E501  (one case, one line)
"""Other cases of the kinds that the contract names: each says which codes a folder must get."""

import json
import os
from pathlib import Path

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, P, entry, length_only, plain, raw, sharded, values, with_config_text, with_header
from adapter_cases import with_weights as weights

from lora_spec.adapter import inspect_adapter

S1, S2 = "adapter_model-00001-of-00002.safetensors", "adapter_model-00002-of-00002.safetensors"
CONFIG = json.dumps(kit.settings())
PACKED = kit.pack(kit.name_tensors(kit.standard()))


def renamed(folder, change, **config):
    """Write the standard adapter with every tensor name changed."""
    folder.mkdir()
    named = {change(name): tensor for name, tensor in kit.name_tensors(kit.standard()).items()}
    kit.write_adapter(folder, named, kit.settings(**config))
    return folder


def only(folder, *names):
    """Make a folder of files with a little text each."""
    folder.mkdir()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(CONFIG if name.endswith("adapter_config.json") else "x")
    return folder


def linked(folder, target):
    """Replace the weights by a link."""
    plain(folder)
    (folder / kit.WEIGHTS).unlink()
    (folder / kit.WEIGHTS).symlink_to(target)
    return folder


def beside(folder, *names):
    """Write the standard adapter with other files beside it."""
    plain(folder)
    for name in names:
        (folder / name).write_text("x")
    return folder


def stacked(folder, a_shape, b_shape, **config):
    """Write factors of given shapes for a stack of experts."""
    path = "model.layers.0.mlp.experts"
    named = {f"{P}{path}.lora_A.weight": values(*a_shape), f"{P}{path}.lora_B.weight": values(*b_shape)}
    folder.mkdir()
    settings = {"target_modules": [], "target_parameters": ["mlp.experts.down_proj"], "r": 2, **config}
    kit.write_adapter(folder, named, kit.settings(**settings))
    return folder


def header_of(names_to_entries, data=b"\0" * 4):
    return lambda f: with_header(f, json.dumps(names_to_entries), data)


CASES = {
    # ---- folders and files
    "missing folder": (lambda f: f / "none", "error", "E_NOT_ADAPTER"),
    "a file instead of a folder": (lambda f: only(f, "notes.txt") / "notes.txt", "error", "E_NOT_ADAPTER"),
    "a gguf file instead of a folder": (lambda f: only(f, "a.gguf") / "a.gguf", "error", "E_UNSUPPORTED_FORMAT"),
    "empty folder": (only, "error", "E_NOT_ADAPTER"),
    "config alone": (lambda f: only(f, "adapter_config.json"), "error", "E_NOT_ADAPTER"),
    "weights alone": (lambda f: drop_config(plain(f)), "error", "E_NOT_ADAPTER"),
    "tokenizer only": (lambda f: only(f, "tokenizer.json", "tokenizer_config.json"), "error", "E_NOT_ADAPTER"),
    "sub-folder": (lambda f: only(f, "v1/adapter_config.json"), "error", "E_NOT_ADAPTER", "v1"),
    "renamed config": (lambda f: only(f, "__adapter_config.json"), "error", "E_NOT_ADAPTER", "__adapter_config.json"),
    "torch file": (lambda f: only(f, "adapter_config.json", "adapter_model.pt"), "error", "E_PICKLE", "adapter_model.pt"),
    "torchtune file": (lambda f: only(f, "adapter_config.json", "adapter_0.pt"), "error", "E_PICKLE"),
    "fsdp file": (lambda f: only(f, "adapter_config.json", "pytorch_model_fsdp.bin"), "error", "E_PICKLE"),
    "pickle without config": (lambda f: only(f, "adapter_model.bin"), "error", "E_PICKLE"),
    "trainer files only": (lambda f: only(f, "adapter_config.json", "optimizer.pt"), "error", "E_NOT_ADAPTER"),
    "zip content": (lambda f: weights(f, b"PK\x03\x04" + b"\0" * 60), "error", "E_PICKLE"),
    "empty zip": (lambda f: weights(f, b"PK\x05\x06" + b"\0" * 18), "error", "E_PICKLE"),
    "pickle content": (lambda f: weights(f, b"\x80\x04\x95" + b"\0" * 90), "error", "E_PICKLE"),
    "protocol 0 pickle": (lambda f: weights(f, b"(dp0\nS'a'\np1\nI1\ns."), "error", "E_PICKLE"),
    "lfs pointer": (
        lambda f: weights(f, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        "error",
        "E_LFS_POINTER",
        "adapter_model.safetensors",
    ),
    "gguf content": (lambda f: weights(f, b"GGUF\x03\0\0\0" + b"\0" * 90), "error", "E_UNSUPPORTED_FORMAT"),
    "ggla content": (lambda f: weights(f, b"ggla\x01\0\0\0" + b"\0" * 90), "error", "E_UNSUPPORTED_FORMAT"),
    "tensorizer": (lambda f: only(f, "adapter_config.json", "adapter_model.tensors"), "error", "E_UNSUPPORTED_FORMAT"),
    "gguf name": (lambda f: only(f, "adapter_config.json", "a-lora.gguf"), "error", "E_UNSUPPORTED_FORMAT"),
    "ggml name": (lambda f: only(f, "ggml-adapter-model.bin"), "error", "E_UNSUPPORTED_FORMAT"),
    "nemo name": (lambda f: only(f, "megatron_lora.nemo"), "error", "E_UNSUPPORTED_FORMAT"),
    "diffusers": (lambda f: only(f, "pytorch_lora_weights.safetensors"), "error", "E_UNSUPPORTED_FORMAT"),
    "mlx numpy": (lambda f: only(f, "adapters.npz"), "error", "E_MLX_FORMAT"),
    "mlx without config": (lambda f: only(f, "adapters.safetensors"), "error", "E_MLX_FORMAT"),
    "old mlx config": (
        lambda f: with_config_text(f, '{"lora_layers": 8, "lora_parameters": {"rank": 8}}'),
        "error",
        "E_MLX_FORMAT",
    ),
    "web page": (lambda f: weights(f, b"<!DOCTYPE html><html>" + b" " * 99), "error", "E_HEADER"),
    "whole pickled model": (lambda f: only(f, "pytorch_model.bin", "config.json"), "error", "E_NOT_ADAPTER"),
    "ignored pickle": (lambda f: beside(f, "adapter_model.bin"), "ok", "N_IGNORED_FILE", "adapter_model.bin"),
    "ignored trainer files": (lambda f: beside(f, "optimizer.pt", "trainer_state.json"), "ok", "N_IGNORED_FILE"),
    "ignored random state": (lambda f: beside(f, "rng_state_0.pth"), "ok", "N_IGNORED_FILE"),
    "ignored merged model": (lambda f: beside(f, "model.safetensors"), "ok", "N_IGNORED_FILE"),
    "unread tokenizer is no weight file": (lambda f: beside(f, "tokenizer.json", "README.md"), "ok", ""),
    "added embeddings": (lambda f: beside(f, "new_embeddings.safetensors"), "abstain", "A_VOCAB_CHANGED"),
    "folder as weights": (lambda f: linked(f, "/tmp"), "error", "E_UNSAFE_FILE"),
    "device as weights": (lambda f: linked(f, "/dev/zero"), "error", "E_UNSAFE_FILE"),
    "link to itself": (lambda f: linked(f, kit.WEIGHTS), "error", "E_UNSAFE_FILE"),
    "link to nothing": (lambda f: linked(f, "gone"), "error", "E_NOT_ADAPTER E_UNSAFE_FILE"),
    "fifo as config": (lambda f: fifo_config(f), "error", "E_UNSAFE_FILE", "adapter_config.json"),
    # ---- config: JSON
    "repeated key": (lambda f: with_config_text(f, CONFIG[:-1] + ', "r": 8}'), "error", "E_CONFIG_JSON", '"r"'[1:2]),
    "repeated inner key": (
        lambda f: with_config_text(f, CONFIG[:-1] + ', "rank_pattern": {"a": 1, "a": 2}}'),
        "error",
        "E_CONFIG_JSON",
    ),
    "not a number": (lambda f: with_config_text(f, CONFIG.replace("8", "NaN", 1)), "error", "E_CONFIG_JSON"),
    "infinity": (lambda f: with_config_text(f, CONFIG.replace("8", "-Infinity", 1)), "error", "E_CONFIG_JSON"),
    "trailing comma": (lambda f: with_config_text(f, CONFIG[:-1] + ",}"), "error", "E_CONFIG_JSON"),
    "doubled quote": (lambda f: with_config_text(f, CONFIG.replace('"example', '""example')), "error", "E_CONFIG_JSON"),
    "byte order mark": (lambda f: with_config_text(f, "\ufeff" + CONFIG), "error", "E_CONFIG_JSON"),
    "not utf-8": (lambda f: with_config_text(f, CONFIG.encode("utf-16")), "error", "E_CONFIG_JSON"),
    "list": (lambda f: with_config_text(f, f"[{CONFIG}]"), "error", "E_CONFIG_JSON"),
    "empty config": (lambda f: with_config_text(f, ""), "error", "E_CONFIG_JSON"),
    "deep": (lambda f: with_config_text(f, '{"a": ' + "[" * 50000 + "]" * 50000 + "}"), "error", "E_CONFIG_JSON"),
    "deep objects": (lambda f: with_config_text(f, '{"a":' * 900 + "1" + "}" * 900), "error", "E_CONFIG_JSON"),
    "raw control character": (lambda f: with_config_text(f, CONFIG.replace("LORA", "LO\x1bRA")), "error", "E_CONFIG_JSON"),
    # ---- config: values
    "rank zero": (lambda f: plain(f, r=0), "error", "E_CONFIG_VALUE"),
    "rank negative": (lambda f: plain(f, r=-4), "error", "E_CONFIG_VALUE"),
    "rank text": (lambda f: plain(f, r="4"), "error", "E_CONFIG_VALUE"),
    "rank truth": (lambda f: plain(f, r=True), "error", "E_CONFIG_VALUE"),
    "rank fraction": (lambda f: plain(f, r=4.5), "error", "E_CONFIG_VALUE"),
    "rank null": (lambda f: plain(f, r=None), "error", "E_CONFIG_VALUE"),
    "rank whole float": (lambda f: plain(f, r=4.0), "ok", ""),
    "rank of five thousand digits": (lambda f: with_config_text(f, CONFIG.replace('"r": 4', '"r": ' + "9" * 5000)), "error", "E_CONFIG_VALUE"),
    "alpha text": (lambda f: plain(f, lora_alpha="16"), "error", "E_CONFIG_VALUE"),
    "alpha truth": (lambda f: plain(f, lora_alpha=True), "error", "E_CONFIG_VALUE"),
    "alpha too large": (lambda f: with_config_text(f, CONFIG.replace('alpha": 8', 'alpha": 1e999')), "error", "E_CONFIG_VALUE"),
    "alpha with 400 digits": (lambda f: with_config_text(f, CONFIG.replace('alpha": 8', f'alpha": 1{"0" * 399}')), "error", "E_CONFIG_VALUE"),
    "alpha zero": (lambda f: plain(f, lora_alpha=0), "ok", "N_RUNTIME_SCALE_DIFFERS N_ZERO_UPDATE"),
    "alpha negative": (lambda f: plain(f, lora_alpha=-8), "ok", ""),
    "alpha makes infinity": (lambda f: plain(f, lora_alpha=1e308), "ok", ""),
    "pattern is a list": (lambda f: plain(f, rank_pattern=["q_proj"]), "error", "E_CONFIG_VALUE"),
    "pattern value text": (lambda f: plain(f, alpha_pattern={"q_proj": "8"}), "error", "E_CONFIG_VALUE", "alpha_pattern"),
    "pattern value truth": (lambda f: plain(f, rank_pattern={"q_proj": True}), "error", "E_CONFIG_VALUE"),
    "pattern rank huge": (lambda f: plain(f, rank_pattern={"nothing": 10**9}), "error", "E_CONFIG_VALUE"),
    "pattern no expression": (lambda f: plain(f, rank_pattern={"q_proj(": 4}), "error", "E_CONFIG_VALUE"),
    "pattern repeats nothing": (lambda f: plain(f, alpha_pattern={"*q": 4}), "error", "E_CONFIG_VALUE"),
    "rslora text": (lambda f: plain(f, use_rslora="true"), "error", "E_CONFIG_VALUE", "use_rslora"),
    "dora number": (lambda f: plain(f, use_dora=1), "error", "E_CONFIG_VALUE", "use_dora"),
    "targets number": (lambda f: plain(f, target_modules=7), "error", "E_CONFIG_VALUE"),
    "targets mixed": (lambda f: plain(f, target_modules=["q_proj", 1]), "error", "E_CONFIG_VALUE"),
    "targets no expression": (lambda f: plain(f, target_modules="[q_proj"), "error", "E_CONFIG_VALUE"),
    "saved modules text": (lambda f: plain(f, modules_to_save="lm_head"), "error", "E_CONFIG_VALUE"),
    "token indices text": (lambda f: plain(f, trainable_token_indices="all"), "error", "E_CONFIG_VALUE"),
    "replication wrong": (lambda f: plain(f, layer_replication=[[0]]), "error", "E_CONFIG_VALUE"),
    "init number": (lambda f: plain(f, init_lora_weights=3), "error", "E_CONFIG_VALUE"),
    "method absent": (lambda f: with_config_text(f, CONFIG.replace("peft_type", "peft_tipe")), "error", "E_NOT_LORA"),
    "method null": (lambda f: plain(f, peft_type=None), "error", "E_NOT_LORA"),
    "method other": (lambda f: plain(f, peft_type="ADALORA"), "error", "E_NOT_LORA", "ADALORA"),
    "method lower case": (lambda f: plain(f, peft_type="lora"), "ok", ""),
    "harmless fields hold anything": (
        lambda f: plain(f, eva_config=7, bias=["x"], lora_dropout="no", task_type=None, fan_in_fan_out="?"),
        "ok",
        "",
    ),
    "defaults": (lambda f: defaults(f), "ok", ""),
    "unknown zero": (lambda f: plain(f, zeta={}, eta=[], theta=""), "ok", "N_UNKNOWN_NULL_FIELD", "zeta"),
    # ---- patterns
    "nested repetition": (lambda f: plain(f, alpha_pattern={"(a*)*": 1}), "error", "E_PATTERN_UNSAFE", "alpha_pattern"),
    "repeated alternative": (lambda f: plain(f, rank_pattern={"(q|v)+_proj": 4}), "error", "E_PATTERN_UNSAFE"),
    "repeated count": (lambda f: plain(f, rank_pattern={"(a{2}){3}": 4}), "error", "E_PATTERN_UNSAFE"),
    "deep alternative": (lambda f: plain(f, rank_pattern={"(?:x(?:a|b))*": 4}), "error", "E_PATTERN_UNSAFE"),
    "lazy repetition": (lambda f: plain(f, rank_pattern={"(?:a+?)+?": 4}), "error", "E_PATTERN_UNSAFE"),
    "repetition behind a comment": (lambda f: plain(f, alpha_pattern={"(a+(?#()b)+z": 1}), "error", "E_PATTERN_UNSAFE"),
    "comment between group and repetition": (lambda f: plain(f, rank_pattern={"(.+)(?#x)+!": 4}), "error", "E_PATTERN_UNSAFE"),
    "verbose space": (lambda f: plain(f, alpha_pattern={"(?x)(.+) +!": 1}), "error", "E_PATTERN_UNSAFE"),
    "verbose comment": (lambda f: plain(f, target_modules="(?x)(a+)#)\n+z"), "error", "E_PATTERN_UNSAFE", "target_modules"),
    "verbose group": (lambda f: plain(f, target_modules="(?x:(.+) +!)"), "error", "E_PATTERN_UNSAFE", "target_modules"),
    "verbose among flags": (lambda f: plain(f, target_modules="(?imx)(.|\\ w) +!"), "error", "E_PATTERN_UNSAFE"),
    "verbose without repetition": (lambda f: plain(f, alpha_pattern={"(?x) q_proj": 1}), "abstain", "A_UNKNOWN_FIELD"),
    "comment without repetition": (lambda f: plain(f, target_modules="(?#all)."), "ok", ""),
    "class that looks like a comment": (lambda f: plain(f, alpha_pattern={"[(?#]+": 1}), "ok", "N_PATTERN_UNMATCHED"),
    "escaped bracket that looks like a comment": (lambda f: plain(f, alpha_pattern={r"\(?#+": 1}), "ok", "N_PATTERN_UNMATCHED"),
    "group named x": (lambda f: plain(f, alpha_pattern={"(?P<x>q)_proj+": 8}), "ok", "N_RUNTIME_SCALE_DIFFERS"),
    "harmless fields are no patterns": (lambda f: plain(f, exclude_modules="(a+)+", layers_pattern="(?x)(a+) +"), "ok", ""),
    "A of an embedding, B of a linear": (
        lambda f: plain(f, tensors={f"{P}model.embed_tokens.lora_embedding_A": values(4, 24), f"{P}model.embed_tokens.lora_B.weight": values(16, 4)}),
        "error",
        "E_ORPHAN_FACTOR",
        "embed_tokens",
    ),
    "A of a linear, B of an embedding": (
        lambda f: plain(f, tensors={f"{P}model.embed_tokens.lora_A.weight": values(4, 24), f"{P}model.embed_tokens.lora_embedding_B": values(16, 4)}),
        "error",
        "E_ORPHAN_FACTOR",
        "embed_tokens",
    ),
    "too long": (lambda f: plain(f, rank_pattern={"a" * 1001: 4}), "error", "E_PATTERN_UNSAFE"),
    "target bomb": (lambda f: plain(f, target_modules="(.*)*x"), "error", "E_PATTERN_UNSAFE", "target_modules"),
    "optional group is safe": (lambda f: plain(f, rank_pattern={"(?:a+)?q_proj": 4}), "ok", "N_RUNTIME_SCALE_DIFFERS"),
    "class hides nothing": (lambda f: plain(f, rank_pattern={"([+*|])+q_proj": 4}), "ok", "N_PATTERN_UNMATCHED"),
    "escaped repetition": (lambda f: plain(f, rank_pattern={r"(a\+)+q_proj": 4}), "ok", "N_PATTERN_UNMATCHED"),
    "safe but slow": (lambda f: plain(f, rank_pattern={"(.*)" * 200 + "x": 4}), "abstain ok", ""),
    "many alternatives": (lambda f: plain(f, rank_pattern={"(a|a)" * 150: 4}), "abstain ok", ""),
    "lookaround": (lambda f: plain(f, rank_pattern={"(?!x)q_proj": 4}), "abstain", "A_UNKNOWN_FIELD", "rank_pattern"),
    "back reference": (lambda f: plain(f, alpha_pattern={r"(q)_proj\1?": 4}), "abstain", "A_UNKNOWN_FIELD"),
    "huge count": (lambda f: plain(f, alpha_pattern={"a{60000}": 4}), "abstain", "A_UNKNOWN_FIELD"),
    "lookaround in targets": (lambda f: plain(f, target_modules="(?!x).*"), "ok", ""),
    "unmatched anchored": (lambda f: plain(f, rank_pattern={"^q_proj": 2}), "ok", "N_PATTERN_UNMATCHED", "q_proj"),
    "unmatched alpha": (lambda f: plain(f, alpha_pattern={"k_proj": 2}), "ok", "N_PATTERN_UNMATCHED", "alpha_pattern"),
    # ---- header
    "empty file": (lambda f: weights(f, b""), "error", "E_HEADER"),
    "seven bytes": (lambda f: weights(f, b"\x08\0\0\0\0\0\0"), "error", "E_HEADER"),
    "length only": (lambda f: weights(f, length_only(64)), "error", "E_HEADER"),
    "length zero": (lambda f: weights(f, length_only(0)), "error", "E_HEADER"),
    "cut in the header": (lambda f: weights(f, PACKED[:200]), "error", "E_TRUNCATED"),
    "header is a list": (lambda f: with_header(f, "[]"), "error", "E_HEADER"),
    "header starts with a space": (lambda f: with_header(f, " {}"), "error", "E_HEADER"),
    "header not utf-8": (lambda f: weights(f, length_only(8) + b'{"\xff":1}'), "error", "E_HEADER"),
    "header with comment": (lambda f: with_header(f, '{/* */"a":{}}'), "error", "E_HEADER"),
    "type unknown": (header_of({"a": entry("F24")}), "error", "E_HEADER"),
    "type no text": (header_of({"a": entry(4)}), "error", "E_HEADER"),
    "shape negative": (header_of({"a": entry(shape=(-1,))}), "error", "E_HEADER"),
    "shape fraction": (header_of({"a": entry(shape=(1.5,))}), "error", "E_HEADER"),
    "shape truth": (header_of({"a": entry(shape=(True,))}), "error", "E_HEADER"),
    "shape text": (header_of({"a": {**entry(), "shape": "1"}}), "error", "E_HEADER"),
    "shape overflow": (header_of({"a": entry(shape=(2**40, 2**40))}), "error", "E_HEADER"),
    "shape bomb": (header_of({"a": entry(shape=(2**63,) * 500)}), "error", "E_HEADER"),
    "field missing": (header_of({"a": {"dtype": "F32", "shape": [1]}}), "error", "E_HEADER"),
    "entry no object": (header_of({"a": [1]}), "error", "E_HEADER"),
    "metadata no text": (header_of({"__metadata__": {"a": 1}, "a": entry()}), "error", "E_HEADER"),
    "header nested": (lambda f: with_header(f, '{"a":' * 3000 + "1" + "}" * 3000), "error", "E_HEADER"),
    "half a character": (lambda f: with_header(f, '{"\\ud800":' + json.dumps(entry()) + "}", b"\0" * 4), "error", "E_HEADER"),
    "twice by escape": (
        lambda f: with_header(f, '{"a":' + json.dumps(entry()) + ',"\\u0061":' + json.dumps(entry(offsets=(4, 8))) + "}", b"\0" * 8),
        "error",
        "E_DUPLICATE_KEY",
    ),
    "hole": (header_of({"a": entry(), "b": entry(offsets=(8, 12))}, b"\0" * 12), "error", "E_OFFSETS"),
    "hole at the start": (header_of({"a": entry(offsets=(4, 8))}, b"\0" * 8), "error", "E_OFFSETS"),
    "partial overlap": (header_of({"a": entry(shape=(2,), offsets=(0, 8)), "b": entry(offsets=(4, 8))}, b"\0" * 8), "error", "E_OFFSETS"),
    "offsets reversed": (header_of({"a": entry(offsets=(4, 0))}), "error", "E_OFFSETS"),
    "offsets too wide": (header_of({"a": entry(offsets=(0, 8))}, b"\0" * 8), "error", "E_OFFSETS"),
    "bytes after the data": (lambda f: weights(f, PACKED + b"\0"), "error", "E_OFFSETS"),
    "one byte short": (lambda f: weights(f, PACKED[:-1]), "error", "E_TRUNCATED"),
    "no data at all": (lambda f: weights(f, PACKED[: -sum(len(t.data) for t in kit.name_tensors(kit.standard()).values())]), "error", "E_TRUNCATED"),
    "no tensors, no metadata": (lambda f: with_header(f, "{}"), "error", "E_EMPTY_ADAPTER"),
    "only a whole matrix": (lambda f: plain(f, modules={}, tensors={f"{P}lm_head.weight": values(24, 16)}), "error", "E_EMPTY_ADAPTER"),
    "one zero dimension": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_A.weight": values(0, 16)}), "error", "E_ZERO_SIZE", "q_proj"),
    "empty buffer": (lambda f: plain(f, tensors={f"{P}model.rotary_emb.inv_freq": values(0)}), "error", "E_ZERO_SIZE"),
    # ---- shards
    "sound shards": (lambda f: sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}), "ok", ""),
    "shard missing": (lambda f: remove(sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}), S2), "error", "E_SHARDS", S2),
    "index missing": (lambda f: remove(sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}), f"{kit.WEIGHTS}.index.json"), "error", "E_SHARDS"),
    "tensor in two shards": (lambda f: sharded(f, {S1: ["layers.0", "layers.1"], S2: ["layers.1"]}), "error", "E_DUPLICATE_KEY E_SHARDS"),
    "shard holds too much": (lambda f: sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}, index={n: S1 if "layers.0" in n else S2 for n in kit.name_tensors(kit.standard()) if "0.self_attn.q_proj.lora_A" not in n}), "error", "E_SHARDS"),
    "shard holds too little": (lambda f: sharded(f, {S1: ["layers.0"], S2: ["layers.1.self_attn.q_proj"]}, index={n: S1 if "layers.0" in n else S2 for n in kit.name_tensors(kit.standard())}), "error", "E_SHARDS", "v_proj"),
    "shard not named": (lambda f: sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}, index={n: S1 for n in kit.name_tensors(kit.standard()) if "layers.0" in n}), "error", "E_SHARDS", S2),
    "shard is a pickle": (lambda f: overwrite(sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}), S2, b"\x80\x02}q\x00."), "error", "E_PICKLE"),
    "shard is a pointer": (lambda f: overwrite(sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}), S2, b"version https://git-lfs.github.com"), "error", "E_LFS_POINTER"),
    "shard cut": (lambda f: cut(sharded(f, {S1: ["layers.0"], S2: ["layers.1"]}), S2), "error", "E_TRUNCATED", S2),
    "absolute shard": (lambda f: sharded(f, {}, index={"a": "/etc/passwd"}), "error", "E_UNSAFE_FILE", "/etc/passwd"),
    "windows shard": (lambda f: sharded(f, {}, index={"a": "..\\x.safetensors"}), "error", "E_UNSAFE_FILE"),
    "drive shard": (lambda f: sharded(f, {}, index={"a": "C:x.safetensors"}), "error", "E_UNSAFE_FILE"),
    "parent shard": (lambda f: sharded(f, {}, index={"a": ".."}), "error", "E_UNSAFE_FILE"),
    "control character in shard": (lambda f: sharded(f, {}, index={"a": "x\x1b[2J"}), "error", "E_UNSAFE_FILE"),
    "index of numbers": (lambda f: sharded(f, {}, index={"a": 1}), "error", "E_SHARDS"),
    "index empty": (lambda f: sharded(f, {}, index={}), "error", "E_EMPTY_ADAPTER"),
    "index no JSON": (lambda f: overwrite(sharded(f, {}), f"{kit.WEIGHTS}.index.json", b"{"), "error", "E_SHARDS"),
    # ---- names
    "bare names": (lambda f: renamed(f, lambda n: n.removeprefix(P)), "ok", "N_KEY_NORMALISED"),
    "prefix three times": (lambda f: renamed(f, lambda n: P + P + n), "ok", "N_KEY_NORMALISED"),
    "compiled outside": (lambda f: renamed(f, lambda n: "_orig_mod." + n), "abstain", "A_PREFIX_SUSPECT"),
    "compiled inside": (lambda f: renamed(f, lambda n: n.replace("model.layers", "_orig_mod.model.layers")), "abstain", "A_PREFIX_SUSPECT"),
    "sharded by FSDP": (lambda f: renamed(f, lambda n: n.replace("layers.0.", "layers.0._fsdp_wrapped_module.")), "abstain", "A_PREFIX_SUSPECT"),
    "checkpointed": (lambda f: renamed(f, lambda n: n.replace(".self_attn", "._checkpoint_wrapped_module.self_attn")), "abstain", "A_PREFIX_SUSPECT"),
    "data parallel": (lambda f: renamed(f, lambda n: "module." + n), "abstain", "A_PREFIX_SUSPECT"),
    "data parallel inside": (lambda f: renamed(f, lambda n: n.replace(P, P + "module.")), "abstain", "A_PREFIX_SUSPECT"),
    "bare GPT-2": (lambda f: renamed(f, lambda n: n.replace("model.layers", "h", 1) if False else n.replace("model.layers", "h")), "abstain", "A_PREFIX_SUSPECT"),
    "bare model, other task": (lambda f: renamed(f, lambda n: n.replace("model.layers", "layers"), task_type="FEATURE_EXTRACTION"), "ok", ""),
    "two adapters in one file": (lambda f: two_adapters(f), "error", "E_DUPLICATE_KEY"),
    "same name after normalisation": (lambda f: plain(f, tensors={f"{Q0}.lora_A.weight": values(4, 16)}), "error", "E_DUPLICATE_KEY", "q_proj"),
    "wrapped twin": (lambda f: plain(f, tensors={f"_orig_mod.{P}{Q0}.lora_A.weight": values(4, 16)}), "error", "E_DUPLICATE_KEY"),
    "text direction": (lambda f: plain(f, tensors={f"{P}a\u202eb.lora_A.weight": values(4, 16)}), "error", "E_UNSAFE_NAME"),
    "isolate": (lambda f: plain(f, tensors={f"{P}\u2066b.inv_freq": values(4)}), "error", "E_UNSAFE_NAME"),
    "newline": (lambda f: plain(f, tensors={f"{P}a\nb.weight": values(4, 16)}), "error", "E_UNSAFE_NAME"),
    "delete": (lambda f: plain(f, tensors={f"{P}a\x7fb.weight": values(4, 16)}), "error", "E_UNSAFE_NAME"),
    "C1 control": (lambda f: plain(f, tensors={f"{P}a\x9bb.weight": values(4, 16)}), "error", "E_UNSAFE_NAME"),
    "other scripts are fine": (lambda f: plain(f, modules={"model.layers.0.école": kit.standard()[Q0]}, target_modules=["école"]), "ok", ""),
    "adapter named lora": (lambda f: renamed(f, lambda n: n.replace(".lora_", "_")), "error", "E_KEYS_MANGLED", "q_proj_A.weight"),
    "weight lost": (lambda f: renamed(f, lambda n: n.removesuffix(".weight")), "error", "E_KEYS_MANGLED"),
    "weight lost in a dump": (lambda f: renamed(f, lambda n: n.replace(".weight", ".default")), "error", "E_KEYS_MANGLED"),
    "module lost": (lambda f: plain(f, tensors={f"{P}lora_A.weight": values(4, 16)}), "error", "E_KEYS_MANGLED"),
    "adapter named model": (lambda f: renamed(f, lambda n: n.replace(".model", "")), "error", "E_KEYS_MANGLED"),
    "mlx names": (lambda f: renamed(f, lambda n: n.removeprefix(P).replace("lora_A.weight", "lora_a").replace("lora_B.weight", "lora_b")), "error", "E_MLX_FORMAT"),
    "torchtune names": (lambda f: renamed(f, lambda n: n.replace("lora_A", "lora_a").replace("lora_B", "lora_b")), "error", "E_UNSUPPORTED_FORMAT"),
    "kohya names": (lambda f: renamed(f, lambda n: n.replace("lora_A", "lora_down").replace("lora_B", "lora_up")), "error", "E_UNSUPPORTED_FORMAT"),
    "nemo names": (lambda f: renamed(f, lambda n: n.replace("lora_A", "adapter.linear_in").replace("lora_B", "adapter.linear_out")), "error", "E_UNSUPPORTED_FORMAT"),
    # ---- other methods
    "loha": (lambda f: plain(f, modules={}, tensors={f"{P}{Q0}.hada_w1_a": values(4, 16)}), "error", "E_NOT_LORA"),
    "lokr": (lambda f: plain(f, modules={}, tensors={f"{P}{Q0}.lokr_w1": values(4, 16)}), "error", "E_NOT_LORA"),
    "vera": (lambda f: plain(f, modules={}, tensors={f"{P}{Q0}.vera_lambda_b": values(16)}), "error", "E_NOT_LORA"),
    "vera projection": (lambda f: plain(f, tensors={"base_model.vera_A.default": values(4, 16)}), "error", "E_NOT_LORA"),
    "hira": (lambda f: plain(f, modules={}, tensors={f"{P}{Q0}.hira_A": values(4, 16)}), "error", "E_NOT_LORA"),
    "oft": (lambda f: plain(f, modules={}, tensors={f"{P}{Q0}.oft_r": values(4, 16)}), "error", "E_NOT_LORA"),
    "prompt": (lambda f: plain(f, modules={}, tensors={"prompt_embeddings": values(4, 16)}), "error", "E_NOT_LORA"),
    "adalora": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_E": values(4, 1)}), "error", "E_NOT_LORA"),
    "bone": (lambda f: plain(f, modules={}, tensors={f"{P}{Q0}.bone_block": values(4, 16)}), "error", "E_NOT_LORA"),
    # ---- factors
    "orphan A": (lambda f: plain(f, tensors={f"{P}model.layers.0.mlp.up_proj.lora_A.weight": values(4, 16)}, target_modules=None), "error", "E_ORPHAN_FACTOR", "up_proj"),
    "orphan embedding": (lambda f: plain(f, tensors={f"{P}model.embed_tokens.lora_embedding_A": values(4, 24)}, target_modules=None), "error", "E_ORPHAN_FACTOR"),
    "inner sizes": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_B.weight": values(16, 3)}), "error", "E_RANK_PAIR", "q_proj"),
    "rank pattern contradicts": (lambda f: plain(f, rank_pattern={"q_proj": 8}), "error", "E_RANK_CONFIG", "q_proj"),
    "default rank contradicts": (lambda f: with_config_text(f, '{"peft_type": "LORA"}'), "error", "E_RANK_CONFIG"),
    "vector as factor": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_A.weight": values(64)}), "error", "E_SHAPE", "q_proj"),
    "five dimensions": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_A.weight": values(4, 4, 2, 2, 1)}), "error", "E_SHAPE"),
    "merged linear": (lambda f: plain(f, modules={}, tensors={f"{P}h.0.c_attn.lora_A.weight": values(8, 16), f"{P}h.0.c_attn.lora_B.weight": values(32, 4, 1)}, target_modules=None), "error", "E_LEGACY_MERGED_LINEAR"),
    "merged linear by config": (lambda f: plain(f, enable_lora=[True, False, True], merge_weights=False), "error", "E_LEGACY_MERGED_LINEAR"),
    "merged linear off": (lambda f: plain(f, enable_lora=None, merge_weights=False), "ok", ""),
    "experts not whole": (lambda f: stacked(f, (7, 16), (16, 7)), "error", "E_SHAPE", "experts"),
    "experts differ": (lambda f: stacked(f, (6, 16), (16, 8)), "error", "E_RANK_PAIR"),
    "one expert": (lambda f: stacked(f, (2, 16), (16, 2)), "ok", ""),
    "experts with pattern": (lambda f: stacked(f, (6, 16), (16, 6), r=4, rank_pattern={"mlp.experts.down_proj": 3}), "ok", "N_RUNTIME_SCALE_DIFFERS"),
    "experts rank null": (lambda f: stacked(f, (6, 16), (16, 6), r=None), "error", "E_CONFIG_VALUE"),
    "whole numbers as factor": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_A.weight": raw("I8", (4, 16), b"\1" * 64)}), "abstain error", ""),
    # ---- values
    "minus infinity": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_B.weight": kit.store(np.full((16, 4), -np.inf))}), "error", "E_NONFINITE", "lora_B"),
    "nan in bf16": (lambda f: plain(f, modules=broken("BF16", np.nan)), "error", "E_NONFINITE", "layers.1"),
    "infinity in bf16": (lambda f: plain(f, modules=broken("BF16", np.inf)), "error", "E_NONFINITE"),
    "nan in f64": (lambda f: plain(f, modules=broken("F64", np.nan)), "error", "E_NONFINITE"),
    "nan beside a zero": (lambda f: plain(f, modules=broken("F32", np.nan, zero=True)), "error", "E_NONFINITE"),
    "nan in a saved module": (lambda f: plain(f, tensors={f"{P}lm_head.weight": kit.store(np.full((24, 16), np.nan))}, modules_to_save=["lm_head"]), "error", "E_NONFINITE", "lm_head"),
    "nan in a buffer": (lambda f: plain(f, tensors={f"{P}model.rotary_emb.inv_freq": kit.store(np.array([np.nan]))}), "error", "E_NONFINITE"),
    "nan in fp8": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_A.weight": raw("F8_E4M3", (4, 16), b"\x7f" + b"\x20" * 63)}), "error", "E_NONFINITE"),
    "fp8": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_A.weight": raw("F8_E5M2", (4, 16), b"\x20" * 64)}), "ok", ""),
    # ---- abstentions
    "saved module declared only": (lambda f: plain(f, modules_to_save=["score"]), "abstain", "A_MODULES_TO_SAVE"),
    "saved module in a raw dump": (lambda f: plain(f, tensors={f"{P}lm_head.modules_to_save.default.weight": values(24, 16)}), "abstain", "A_MODULES_TO_SAVE"),
    "original module": (lambda f: plain(f, tensors={f"{P}lm_head.original_module.weight": values(24, 16)}), "abstain", "A_BASE_COPY"),
    "norm weight": (lambda f: plain(f, tensors={f"{P}model.norm.weight": values(16)}), "abstain", "A_MODULES_TO_SAVE", "norm"),
    "saved embedding declared": (lambda f: plain(f, tensors={f"{P}model.embed_tokens.weight": values(28, 16)}, modules_to_save=["embed_tokens"]), "abstain", "A_MODULES_TO_SAVE"),
    "base copy of an embedding": (lambda f: plain(f, tensors={f"{P}lm_head.lora_A.weight": values(4, 16), f"{P}lm_head.lora_B.weight": values(24, 4), f"{P}lm_head.base_layer.weight": values(24, 16)}, target_modules=None), "abstain", "A_BASE_COPY", "lm_head"),
    "whole embedding beside a targeted head": (lambda f: plain(f, tensors={f"{P}lm_head.lora_A.weight": values(4, 16), f"{P}lm_head.lora_B.weight": values(24, 4), f"{P}model.embed_tokens.weight": values(24, 16)}, target_modules=None), "abstain", "A_BASE_COPY", "embed_tokens"),
    "vocabulary of GPT-2": (lambda f: plain(f, tensors={f"{P}transformer.wte.weight": values(24, 16)}), "abstain", "A_VOCAB_CHANGED", "wte"),
    "base layer of a linear": (lambda f: plain(f, tensors={f"{P}{Q0}.base_layer.weight": values(16, 16)}), "abstain", "A_BASE_COPY"),
    "dora declared": (lambda f: plain(f, use_dora=True), "abstain", "A_DORA", "use_dora"),
    "dora found": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_magnitude_vector": values(16)}), "abstain", "A_DORA", "lora_magnitude_vector"),
    "dora with weight": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_magnitude_vector.weight": values(16)}), "abstain", "A_DORA"),
    "dora in a dump": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_magnitude_vector.default.weight": values(16)}), "abstain", "A_DORA"),
    "dora too short": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_magnitude_vector": values(15)}), "error", "E_SHAPE"),
    "lora bias declared": (lambda f: plain(f, lora_bias=True), "abstain", "A_BIAS"),
    "lora bias found": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_B.bias": values(16)}), "abstain", "A_BIAS", "lora_B.bias"),
    "lora bias of another length": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_B.bias": values(9)}), "error", "E_SHAPE"),
    "old bias": (lambda f: plain(f, tensors={f"{P}{Q0}.bias": values(16)}, bias="all"), "abstain", "A_BIAS"),
    "new bias": (lambda f: plain(f, tensors={f"{P}{Q0}.base_layer.bias": values(16)}, bias="all"), "abstain", "A_BIAS"),
    "replication": (lambda f: plain(f, layer_replication=[[0, 2], [1, 2]]), "abstain", "A_LAYER_REPLICATION"),
    "pissa": (lambda f: plain(f, init_lora_weights="pissa"), "abstain", "A_BASE_MODIFIED_INIT"),
    "pissa with steps": (lambda f: plain(f, init_lora_weights="PiSSA_niter_16"), "abstain", "A_BASE_MODIFIED_INIT"),
    "olora": (lambda f: plain(f, init_lora_weights="olora"), "abstain", "A_BASE_MODIFIED_INIT"),
    "loftq": (lambda f: plain(f, init_lora_weights="loftq"), "abstain", "A_BASE_MODIFIED_INIT"),
    "corda": (lambda f: plain(f, init_lora_weights="corda"), "abstain", "A_BASE_MODIFIED_INIT"),
    "lora-ga": (lambda f: plain(f, init_lora_weights="lora_ga"), "abstain", "A_BASE_MODIFIED_INIT"),
    "unknown initialisation": (lambda f: plain(f, init_lora_weights="quantum"), "abstain", "A_UNKNOWN_FIELD", "quantum"),
    "orthogonal": (lambda f: plain(f, init_lora_weights="Orthogonal"), "ok", ""),
    "mica": (lambda f: plain(f, init_lora_weights="mica"), "ok", ""),
    "kasa": (lambda f: plain(f, kasa_config={"a": 1}), "abstain", "A_VARIANT", "kasa_config"),
    "kasa tensor": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_diag": values(4)}), "abstain", "A_VARIANT"),
    "activated lora": (lambda f: plain(f, alora_invocation_tokens=[1, 2]), "abstain", "A_VARIANT"),
    "block diagonal": (lambda f: plain(f, use_bdlora={"nblocks": 2}, tensors={f"{P}{Q0}.lora_B.weight": values(16, 2)}), "abstain", "A_VARIANT"),
    "quantisation aware": (lambda f: plain(f, use_qalora=True), "abstain", "A_VARIANT"),
    "weight tying": (lambda f: plain(f, ensure_weight_tying=True), "abstain", "A_VARIANT"),
    "arrow": (lambda f: plain(f, arrow_config={"top_k": 2}), "abstain", "A_VARIANT"),
    "unknown tensor": (lambda f: plain(f, tensors={f"{P}{Q0}.lora_gate": values(4)}), "abstain", "A_UNKNOWN_TENSOR", "lora_gate"),
    "token rows as a list": (lambda f: plain(f, tensors=rows(3), trainable_token_indices=[1, 2, 3]), "abstain", "A_TOKEN_ROWS"),
    "token rows too few": (lambda f: plain(f, tensors=rows(1), trainable_token_indices=[1, 2, 3]), "error", "E_SHAPE"),
    "token rows undeclared": (lambda f: plain(f, tensors=rows(3)), "abstain", "A_TOKEN_ROWS"),
    "token rows declared only": (lambda f: plain(f, trainable_token_indices={"embed_tokens": [1]}), "abstain", "A_TOKEN_ROWS"),
    "undeclared by expression": (lambda f: plain(f, target_modules=r".*\.q_proj"), "abstain", "A_UNDECLARED_MODULE", "v_proj"),
    "declared by expression": (lambda f: plain(f, target_modules=r"model\.layers\.\d+\.self_attn\.(q|v)_proj"), "ok", ""),
    "partial expression": (lambda f: plain(f, target_modules=r"[qv]_proj"), "abstain", "A_UNDECLARED_MODULE"),
    "declared by full name": (lambda f: plain(f, target_modules=list(kit.standard())), "ok", ""),
    "part of a word": (lambda f: plain(f, target_modules=["_proj"]), "abstain", "A_UNDECLARED_MODULE"),
    "all linear": (lambda f: plain(f, target_modules="all-linear"), "ok", ""),
    "nothing declared": (lambda f: plain(f, target_modules=[]), "abstain", "A_UNDECLARED_MODULE"),
    # ---- notes
    "frequencies": (lambda f: plain(f, tensors={f"{P}model.layers.0.self_attn.rotary_emb.inv_freq": values(4)}), "ok", "N_IGNORED_TENSOR", "inv_freq"),
    "position buffer": (lambda f: plain(f, tensors={f"{P}model.position_ids": raw("I64", (2,), b"\0" * 16)}), "ok", "N_IGNORED_TENSOR"),
    "mask buffer": (lambda f: plain(f, tensors={f"{P}transformer.h.0.attn.bias": raw("BOOL", (4,), b"\1" * 4)}), "ok", "N_IGNORED_TENSOR"),
    "rslora with rank one": (lambda f: plain(f, use_rslora=True), "ok", "N_RUNTIME_SCALE_DIFFERS"),
    "some layers only": (lambda f: plain(f, layers_to_transform=[0, 1]), "ok", ""),
}  # fmt: skip


def drop_config(folder):
    (folder / kit.CONFIG).unlink()
    return folder


def fifo_config(folder):
    plain(folder)
    (folder / kit.CONFIG).unlink()
    os.mkfifo(folder / kit.CONFIG)
    return folder


def defaults(folder):
    folder.mkdir()
    kit.write_adapter(folder, kit.name_tensors(kit.standard(rank=8)), {"peft_type": "LORA"})
    return folder


def remove(folder, name):
    (folder / name).unlink()
    return folder


def overwrite(folder, name, data):
    (folder / name).write_bytes(data)
    return folder


def cut(folder, name):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-10])
    return folder


def two_adapters(folder):
    folder.mkdir()
    modules = kit.standard()
    named = {**kit.name_tensors(modules, infix=".one"), **kit.name_tensors(modules, infix=".two")}
    kit.write_adapter(folder, named, kit.settings())
    return folder


def broken(dtype, value, zero=False):
    modules = kit.standard(dtype=dtype)
    path = "model.layers.1.self_attn.v_proj"
    a, b = modules[path]
    spoiled = a.values.copy()
    spoiled[-1, -1] = value
    modules[path] = (kit.store(spoiled, dtype), kit.store(0 * b.values, dtype) if zero else b)
    return modules


def rows(count):
    return {f"{P}model.embed_tokens.token_adapter.trainable_tokens_delta": values(count, 16)}


@pytest.mark.parametrize("name", CASES)
def test_other_faults_of_a_kind_get_its_code(name, tmp_path: Path):
    build, status, codes, *words = CASES[name]
    inspection = inspect_adapter(build(tmp_path / "adapter"))
    assert inspection.status in status.split(), inspection.message
    assert set(codes.split()) <= set(inspection.codes), inspection.message
    assert all(word in inspection.message for word in words), inspection.message
    if status == "ok" and not codes:
        assert inspection.codes == ()


def test_a_nonfinite_update_of_finite_values_is_an_error(tmp_path):
    modules = {Q0: (kit.store(np.full((4, 16), 1e38)), kit.store(np.full((16, 4), 1e38)))}
    inspection = inspect_adapter(plain(tmp_path / "a", modules=modules, lora_alpha=1e300))
    assert inspection.codes == ("E_NONFINITE",)
