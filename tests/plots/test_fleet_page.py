import dataclasses
import re
from html.parser import HTMLParser

import pytest
from fleet_pages import HOSTILE, page_of, verdicts_of


class _Parsed(HTMLParser):
    """Elements with attributes, and the text of the page outside script and style."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._skip = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._skip = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._skip = False

    def handle_data(self, data):
        if not self._skip:
            self.text.append(data)


def test_hostile_names_and_reasons_add_no_element_and_no_attribute():
    tame = _Parsed(page_of(verdicts_of([f"n{i}" for i in range(len(HOSTILE))])))
    wild = _Parsed(page_of(verdicts_of(HOSTILE)))
    assert [(tag, sorted(attrs)) for tag, attrs in wild.tags] == [(tag, sorted(attrs)) for tag, attrs in tame.tags]


def test_control_and_direction_characters_are_shown_escaped():
    page = page_of(verdicts_of(HOSTILE))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", page)
    assert "\\u202egnp.live\\u2066" in page
    assert "new\\x0aline\\x09tab\\x1b[31m" in page


def test_the_page_needs_nothing_from_anywhere_else():
    page = page_of(verdicts_of(["a", "b"]))
    for tag, attrs in _Parsed(page).tags:
        assert not {"src", "href", "srcset", "style", "action", "background"} & set(attrs), tag
        assert not any(name.startswith("on") for name in attrs)
    assert not re.search(r"url\(|@import|https?://", page)
    assert "default-src 'none'" in page


def test_every_adapter_stands_in_the_table_with_its_numbers():
    page = page_of(verdicts_of(["first", "second"]))
    text = " ".join(" ".join(_Parsed(page).text).split())
    speedup = "1.25\N{MULTIPLICATION SIGN} [0.10, 3.00] K=3"
    assert f"first green, K=3 3 · 3 2.00 [1.80, 2.10] {speedup} predicted, weights k3" in text
    assert "second amber, K=1 1 · 0 3.00 [2.80, 3.10]" in text
    assert "second of first R_SECOND" in text


def test_a_number_that_is_missing_is_a_dash():
    (verdict,) = verdicts_of(["x"], reasons=())
    blind = {"action": "abstain", "num_speculative_tokens": None, "acceptance_length": None, "speedup": None}
    page = page_of([dataclasses.replace(verdict, by_load=(), context={}, **blind)])
    assert page.count(">\N{EN DASH}<") == 3


@pytest.mark.parametrize("evidence", ["measured", "synthetic-smoke"])
def test_synthetic_values_are_marked(evidence):
    page = page_of(verdicts_of(["a"]), evidence=evidence)
    assert ('class="watermark"' in page) == (evidence != "measured")


def test_an_empty_fleet_and_one_of_a_thousand_are_pages_too():
    assert "0 adapters" in page_of([])
    page = page_of(verdicts_of([f"adapter-{i:04d}" for i in range(1000)]))
    assert len(page) < 3_000_000
    assert page.count('class="point ') == 1000
