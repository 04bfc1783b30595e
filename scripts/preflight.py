"""Ask before any long job whether machine, revisions, licences and disk will do, and tell all problems at once.

Ends with 2 and writes nothing where anything stands in the way.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.config.preflight_settings import PreflightSettings
from lora_spec.errors import ConfigError
from lora_spec.measurement.preflight import find_problems, look_around
from lora_spec.provenance import code_digest, collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    machine = look_around(args.serving_python, (args.output.parent, Path("resources"), Path("resources/hub")))
    problems = find_problems(args.settings, machine)
    tell("\n".join(f"- {problem}" for problem in problems) or f"tier {args.tier} can run here")
    if problems:
        raise ConfigError(
            f"{len(problems)} problems, listed above, stand in the way of tier {args.tier}; mend them all"
        )
    provenance = collect_provenance(config=args.settings, seed=None)
    write_result(
        args.output,
        kind="preflight",
        evidence="measured",
        tier=args.tier,
        provenance=provenance,
        payload={"settings": args.settings, "code": code_digest(Path(__file__)), "machine": asdict(machine)},
    )


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
add_json_flag(parser, "--settings", PreflightSettings, help="what is asked: thresholds, engine, licences; JSON")
parser.add_argument("--serving-python", type=Path, required=True, help="interpreter of the serving environment")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
