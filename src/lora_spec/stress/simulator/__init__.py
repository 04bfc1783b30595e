"""A discrete-event model of one vLLM server and of a fleet; see :mod:`lora_spec.stress.simulator.engine`."""
