"""Paths as they are typed."""

import argparse
from pathlib import Path


def given_path(text: str) -> Path:
    """Return a path that was given: an empty text would stand for the current folder, which nobody named."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path; give a folder")
    return Path(text)
