import os

from lora_spec.measurement.progress import FD_VARIABLE, tell, with_progress


def test_items_pass_through_in_order(monkeypatch, capsys):
    monkeypatch.delenv(FD_VARIABLE, raising=False)
    assert list(with_progress("abc", total=3, doing="letters", unit="letter")) == ["a", "b", "c"]
    assert "letters: 100%" in capsys.readouterr().err


def test_what_an_earlier_run_did_counts_as_done_and_took_no_time(monkeypatch, capsys):
    monkeypatch.delenv(FD_VARIABLE, raising=False)
    found = with_progress("de", total=5, doing="letters", unit="letter", num_before=lambda: 3)
    assert list(found) == ["d", "e"]
    assert "5/5" in capsys.readouterr().err


def test_the_bar_and_lines_reach_the_descriptor_that_the_rule_opened(monkeypatch, capsys):
    reading, writing = os.pipe()
    monkeypatch.setenv(FD_VARIABLE, str(writing))
    list(with_progress("ab", total=2, doing="letters", unit="letter"))
    tell("waiting")
    os.close(writing)
    with os.fdopen(reading) as seen:
        text = seen.read()
    assert "letters: 100%" in text
    assert text.endswith("waiting\n")
    assert capsys.readouterr().err == "waiting\n"


def test_a_descriptor_that_is_closed_falls_back_to_the_log(monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    monkeypatch.setenv(FD_VARIABLE, str(writing))
    tell("waiting")
    assert "waiting" in capsys.readouterr().err
