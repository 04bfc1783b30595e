"""The caption of one figure, from the file that holds them all, as plain text: for who has no report at hand."""

import textwrap
from types import SimpleNamespace

from lora_spec.errors import ResultError

_WIDTH = 100


def caption_of(template: str, stem: str) -> str:
    """Return a figure's caption, wrapped, without the marks of reStructuredText.

    Parameters
    ----------
    template
        Jinja text that shows one caption, chosen by ``snakemake.wildcards.figure``, as Snakemake's report fills it.
    stem
        The figure's file name without ending.

    Raises
    ------
    ResultError
        The template has no caption for it.
    """
    from jinja2 import Template

    workflow = SimpleNamespace(wildcards=SimpleNamespace(figure=stem))
    text = Template(template).render(snakemake=workflow).replace("**", "")
    if not text.strip():
        raise ResultError(f"no caption for {stem!r}; write one in report/figure.rst")
    return textwrap.fill(" ".join(text.split()), _WIDTH) + "\n"
