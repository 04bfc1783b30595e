"""A tiny random Llama with a byte tokenizer and a chat template, built on the fly."""

import pytest

HIDDEN, NUM_LAYERS = 32, 3


def _tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<unk>", "<s>", "</s>", *letters])}
    inner = Tokenizer(models.BPE(vocabulary, merges=[], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.chat_template = "<s>{% for message in messages %}{{ message['content'] }}{% endfor %}\n"
    return tokenizer


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory):
    """Return the folder of the tiny target: bf16 files, tied embeddings, as the real one."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        initializer_range=0.1,
        tie_word_embeddings=True,
    )
    folder = tmp_path_factory.mktemp("target")
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
