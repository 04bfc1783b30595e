"""Record once what the base target says about any adapter: input moments, margins and their gradients."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, existing_folder, positive_count, run_script
from lora_spec.cli.settings_flags import BaseProfileSettings
from lora_spec.features.base_profile import profile_of, write_base_profile
from lora_spec.features.base_profile_header import header_of, identify_model
from lora_spec.provenance import collect_provenance
from lora_spec.training.fit_prompts import read_fit_prompts


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.engines.trace import TraceSettings, trace_base  # needs torch

    settings, context = args.settings["base_profile"], args.settings["context"]
    prompts = read_fit_prompts(args.prompts, num_prompts=settings["num_prompts"], tier=args.tier)
    amounts = {key: value for key, value in settings.items() if key != "num_prompts"}
    trace = trace_base(
        str(args.target), str(args.drafter), prompts.messages, TraceSettings(**amounts), num_threads=args.num_threads
    )
    header = header_of(
        trace,
        tier=args.tier,
        provenance=collect_provenance(config=args.settings, seed=settings["seed"]),
        target=identify_model(context["target_model"], args.target),
        drafter=identify_model(context["draft_model"], args.drafter),
        prompts_sha256=list(prompts.sha256),
        dtype="float32",
        settings=settings,
    )
    write_base_profile(args.output, profile_of(trace, header))
    tell(f"{len(trace.margins)} positions, moments over {trace.num_tokens}, {args.output.stat().st_size / 1e6:.1f} MB")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
parser.add_argument("--drafter", type=existing_folder, required=True, help="model folder of the drafter")
parser.add_argument("--prompts", type=Path, required=True, help="frozen prompts; those of role fit are read")
add_json_flag(parser, "--settings", BaseProfileSettings, help="base_profile of models.yaml and the pair, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--num-threads", type=positive_count, required=True, help="threads of torch")
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
