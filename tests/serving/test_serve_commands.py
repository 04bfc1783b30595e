"""The command lines of a plan are taken by vLLM's own parser as they were meant."""

import json

import pytest

from lora_spec.gate.pools import Pool
from lora_spec.gate.serve_commands import Serving, merged_path, one_engine_command, pool_command

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]

NAMES = ["plain", "two words", "quo'te", "a=b,c", "--enable-lora", "{braces}", "new\nline", "-v", "ünïcode"]
SERVING = Serving(
    target="some target",
    drafter="drafter",
    adapter_paths={name: f"some dir/{name}" for name in NAMES},
    policy_path="a b/policy.json",
    merged_dir="merged",
    max_lora_rank=12,
    engine={"dtype": "bfloat16", "max_model_len": 512, "max_num_seqs": 16, "enforce_eager": True, "max_loras": 4},
)


@pytest.fixture(scope="module")
def parse():
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    return lambda words: parser.parse_args(words[2:])  # after: vllm serve


def _modules(args):
    return {module.name: module.path for module in args.lora_modules}


def test_one_engine_gets_scheduler_policy_depth_and_every_adapter(parse):
    args = parse(one_engine_command(NAMES, 3, SERVING))
    assert args.model_tag == "some target"
    assert args.scheduler_cls == "lora_spec.policy.vllm_scheduler.DepthAsyncScheduler"
    assert args.additional_config == {"lora_spec": {"policy": "a b/policy.json", "adapters": NAMES}}
    told = args.speculative_config
    told = json.loads(told) if isinstance(told, str) else told
    assert (told["model"], told["num_speculative_tokens"]) == ("drafter", 3)
    assert _modules(args) == dict(SERVING.adapter_paths)
    assert (args.max_loras, int(args.max_lora_rank), args.enforce_eager, args.dtype) == (4, 16, True, "bfloat16")


@pytest.mark.parametrize("name", NAMES)
def test_a_merged_adapter_is_served_under_its_name(parse, name):
    pool = Pool("merged-1", 0, (name,), is_merged=True)
    args = parse(pool_command(pool, SERVING, port=8003))
    assert (args.model_tag, args.served_model_name, args.port) == (merged_path(pool, SERVING), [name], 8003)
    assert not args.enable_lora


def test_the_pool_without_a_drafter_does_not_speculate(parse):
    args = parse(pool_command(Pool("off", 0, tuple(NAMES)), SERVING, port=8001))
    assert args.speculative_config is None
    assert _modules(args) == dict(SERVING.adapter_paths)
