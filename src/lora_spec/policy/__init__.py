"""What runs inside vLLM: how deep each adapter's requests may be drafted. Knows nothing of the rest of lora_spec."""
