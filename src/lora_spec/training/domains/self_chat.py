"""The target's own chat answers, unchanged: an adapter that learns what the target already does."""

from lora_spec.training.domains.chat_form import ChatFormDomain

DOMAIN = ChatFormDomain(
    name="self_chat",
    description="the target's own greedy answers to chat prompts, unchanged",
    rewrite=str,
    form=bool,
)
