"""Draw to docs/rule-graph.svg what the rules of tier cpu wait for. Needs Graphviz, and the analysis environment.

Arrows that others already imply are left out. Rules that a cluster's profile submits are filled.
"""

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/rule-graph.svg"
HEAD = 'digraph rules { ranksep=0.3; nodesep=0.1; bgcolor="white"; edge[color="#999999", arrowsize=0.5];'
NODE = 'node[shape=box, style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize=11, height=0.3];'


def submitted_rules() -> set[str]:
    """Return the rules that the profile for Slurm does not keep on the host."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    return {rule for rule, takes in profile["set-resources"].items() if takes.get("on_host") == 0}


def run(*command: str, text: str = "") -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def drawing(planned: str) -> str:
    """Return a drawing of the graph that ``snakemake --rulegraph dot`` prints."""
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', planned))
    edges = re.findall(r"(\d+) -> (\d+)", planned)
    submitted = submitted_rules()
    nodes = [f'{name}[fillcolor="{"#b7d7f0" if name in submitted else "#f4f4f4"}"];' for name in sorted(names.values())]
    arrows = sorted(f"{names[one]} -> {names[other]};" for one, other in edges)
    return "\n".join([HEAD, NODE, *nodes, *arrows, "}"])


if __name__ == "__main__":
    config = ("--config", "tier=cpu", "measurements=fresh")
    planned = run(sys.executable, "-m", "snakemake", "--rulegraph", "dot", "--nolock", "--cores", "1", *config)
    PICTURE.write_text(run("dot", "-Tsvg", text=run("tred", text=drawing(planned))))
