"""Marks of formats and methods that are not PEFT LoRA, and what to do about each.

Patterns stay texts here: most are never needed, and compiling them all would cost a header-only run its budget.
"""

import re

# First bytes of files that are no safetensors: (bytes, code, what it is and what to do).
MAGICS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs",
        "E_LFS_POINTER",
        "is a git-lfs pointer, the weights were not downloaded; run git lfs pull",
    ),
    (b"GGUF", "E_UNSUPPORTED_FORMAT", "is a GGUF file; inspect the PEFT adapter it was converted from"),
    (b"ggla", "E_UNSUPPORTED_FORMAT", "is an old ggml adapter; inspect the PEFT adapter it was converted from"),
    (b"algg", "E_UNSUPPORTED_FORMAT", "is an old ggml adapter; inspect the PEFT adapter it was converted from"),
    (b"ggml", "E_UNSUPPORTED_FORMAT", "is an old ggml file; inspect the PEFT adapter it was converted from"),
    (b"lmgg", "E_UNSUPPORTED_FORMAT", "is an old ggml file; inspect the PEFT adapter it was converted from"),
    (b"tjgg", "E_UNSUPPORTED_FORMAT", "is an old ggml file; inspect the PEFT adapter it was converted from"),
    (b"fmgg", "E_UNSUPPORTED_FORMAT", "is an old ggml file; inspect the PEFT adapter it was converted from"),
    (b"|TZR|", "E_UNSUPPORTED_FORMAT", "is a tensorizer file; export the adapter with PEFT's save_pretrained"),
    (b"\x89HDF", "E_UNSUPPORTED_FORMAT", "is an HDF5 file; export the adapter with PEFT's save_pretrained"),
    (b"\x93NUMPY", "E_UNSUPPORTED_FORMAT", "is a NumPy file; export the adapter with PEFT's save_pretrained"),
)
_PICKLE = (
    "is a pickle and is never opened; convert it to safetensors in a sandbox "
    "(load with weights_only=True, then save_pretrained(safe_serialization=True))"
)
# Protocol 2 and later start with 0x80 and their number; protocols 0 and 1 with a mark, a dict or a global.
_OLD_PICKLE = rb"(?:\(dp|\(lp|\}q|\]q|\(c|c[A-Za-z_.]+\n[A-Za-z_]+\n)"

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")

# File names and endings of other formats, tried in order when the folder holds no PEFT weights.
FOREIGN_FILES: tuple[tuple[str, str, str], ...] = (
    (r"(?:\d+_)?adapters\.(?:safetensors|npz)", "E_MLX_FORMAT", "is an MLX adapter; convert it to PEFT first"),
    (r".*\.gguf", "E_UNSUPPORTED_FORMAT", "is a GGUF adapter; inspect the PEFT adapter it was converted from"),
    (r"ggml-adapter.*\.bin|.*\.ggla|.*\.ggml", "E_UNSUPPORTED_FORMAT", "is an old ggml adapter; inspect its source"),
    (
        r"pytorch_lora_weights.*|lora_unet.*\.safetensors",
        "E_UNSUPPORTED_FORMAT",
        "is a diffusers LoRA; it does not change a language model",
    ),
    (r".*\.nemo", "E_UNSUPPORTED_FORMAT", "is a NeMo adapter; export it to the Hugging Face PEFT format"),
    (r".*\.distcp|common\.pt", "E_UNSUPPORTED_FORMAT", "is a NeMo or Megatron checkpoint; export it to PEFT format"),
    (r".*\.tensors", "E_UNSUPPORTED_FORMAT", "is a tensorizer file; export it with PEFT's save_pretrained"),
)

# Endings of tensor names that other methods write: (pattern, method). Searched in the normalised name.
OTHER_METHODS: tuple[tuple[str, str], ...] = tuple(
    (rf"(?:^|\.)(?:{pattern})", method)
    for pattern, method in (
        (r"lora_E(?:\.|$)|ranknum(?:\.|$)", "AdaLoRA"),
        (r"ia3_\w", "IA3"),
        (r"hada_\w", "LoHa"),
        (r"lokr_\w", "LoKr"),
        (r"p?vera_\w", "VeRA"),
        (r"vblora_\w", "VB-LoRA"),
        (r"(?:oft_\w|boft_\w)", "OFT or BOFT"),
        (r"randlora_\w", "RandLoRA"),
        (r"hira_\w", "HiRA"),
        (r"delora_\w", "DeLoRA"),
        (r"gralora_\w", "GraLoRA"),
        (r"(?:miss_|bone_)\w", "MiSS or Bone"),
        (
            r"(?:fourierft_|waveft_|c3a_|road_|shira_|hra_|poly_|osf_|psoft_|adamss_|beft_|deft_)\w",
            "another PEFT method",
        ),
        (r"(?:frod_|glora_|lily_|peanut_|shadow_|supertuning_|tinylora_|unilora_|ln_tuning_)\w", "another PEFT method"),
        (r"(?:prompt_embeddings|prompt_encoder|adaption_prompt|adaption_gate)(?:\.|$)", "prompt tuning"),
        (r"xlora_classifier|internal_xlora", "X-LoRA"),
    )
)

# Tensor names of other LoRA formats: (pattern, code, what it is and what to do).
OTHER_FORMATS: tuple[tuple[str, str, str], ...] = (
    (r"\.lora_[ab]$", "E_MLX_FORMAT", "MLX factors (transposed, scale not divided by the rank); convert to PEFT"),
    (
        r"\.lora_[ab]\.weight$|\.lora_[ab]\.[^.]+\.weight$",
        "E_UNSUPPORTED_FORMAT",
        "torchtune factors; export with torchtune's Hugging Face checkpointer",
    ),
    (
        r"^lora_(?:unet|te\d?|transformer|prior)_|\.lora_(?:down|up)(?:\.|$)|\.lora\.(?:down|up)(?:\.|$)"
        r"|_lora\.(?:down|up)(?:\.|$)",
        "E_UNSUPPORTED_FORMAT",
        "kohya or diffusers factors; convert to PEFT names",
    ),
    (
        r"\.adapter\.linear_(?:in|out)(?:\.|$)|\.lora_(?:kqv|dense|unfused_kqv|hto4h|4htoh)_adapter\.",
        "E_UNSUPPORTED_FORMAT",
        "NeMo factors; export to the Hugging Face PEFT format",
    ),
)

ANY_OTHER = "|".join(pattern for pattern, *_ in (*OTHER_FORMATS, *OTHER_METHODS))

TRAINER_FILES = (
    r"optimizer\.pt|optimizer\.bin|scheduler\.pt|scaler\.pt|rng_state.*\.pth|trainer_state\.json|training_args\.bin"
    r"|global_step\d+|zero_to_fp32\.py|latest"
)
WEIGHT_FILES = (
    r".*\.(?:safetensors|bin|pt|pth|pkl|pickle|ckpt|joblib|gguf|ggml|ggla|npz|npy|h5|msgpack|onnx|nemo|tensors|distcp)"
    r"|.*\.safetensors\.index\.json|.*\.bin\.index\.json"
)


def recognise_content(head: bytes) -> tuple[str, str]:
    """Return the code for a file that is no safetensors, and what it is, from its first 512 bytes."""
    for magic, code, what in MAGICS:
        if head.startswith(magic):
            return code, what
    is_modern_pickle = head[:1] == b"\x80" and head[1:2] in (b"\x01", b"\x02", b"\x03", b"\x04", b"\x05")
    if is_modern_pickle or head.startswith(b"PK") or re.match(_OLD_PICKLE, head):
        return "E_PICKLE", _PICKLE
    if head[257:262] == b"ustar":
        return "E_UNSUPPORTED_FORMAT", "is a tar archive, as NeMo and old checkpoints are; export it to PEFT format"
    return "E_HEADER", "is not a safetensors file; download or export the adapter again"


def recognise_name(name: str) -> tuple[str, str] | None:
    """Return the code for a file of another format, and what it is, from its name alone."""
    for pattern, code, what in FOREIGN_FILES:
        if re.fullmatch(pattern, name):
            return code, what
    if name.endswith(PICKLE_SUFFIXES) and not re.fullmatch(TRAINER_FILES, name):
        return "E_PICKLE", _PICKLE
    return None
