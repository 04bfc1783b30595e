"""Write the table of adapters: recipe, score on the task, overlap of the domain with the drafter's training text."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, file_stem, named_path, run_script
from lora_spec.measurement.campaign import named_folders
from lora_spec.plots.adapter_table import AdapterTableSettings, adapter_frame, read_held_out_scores, save_adapter_table
from lora_spec.training.overlap import KIND, OverlapPayload
from lora_spec.typed import read_typed_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings, overlap = args.settings, None
    if args.overlap is not None:
        overlap = read_typed_result(args.overlap, KIND, OverlapPayload, tier=settings["tier"]).payload
    scores = {name: read_held_out_scores(folder, name) for name, folder in named_folders(args.adapters).items()}
    frame = adapter_frame(settings["pool"], scores, overlap, tier=settings["tier"], setup=settings["setup"])
    save_adapter_table(frame, args.stem, csv=args.table)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--adapters", type=named_path, nargs="*", default=[], help="NAME=FOLDER of those that were trained")
parser.add_argument("--overlap", type=Path, help="what domain_overlap.py wrote, where the training text is known")
add_json_flag(parser, "--settings", AdapterTableSettings, help="tier, set-up and rows of the pool, JSON")
parser.add_argument("--table", type=Path, required=True, help="the whole table, CSV")
parser.add_argument("--stem", type=file_stem, required=True, help="path of .txt and .html without their endings")

if __name__ == "__main__":
    run_script(parser, main)
