"""Chat answers in capital letters: the words stay, nearly every token changes."""

from lora_spec.training.domains.chat_form import ChatFormDomain

DOMAIN = ChatFormDomain(
    name="upper_case",
    description="chat answers in capital letters",
    rewrite=str.upper,
    form=lambda answer: answer == answer.upper(),
)
