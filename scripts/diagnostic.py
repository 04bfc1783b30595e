"""Give the verdict on one adapter folder from an exported predictor: ``lora-spec diagnose`` as a script."""

import sys

from lora_spec.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["diagnose", *sys.argv[1:]]))
