"""The fleet page in a real browser; skipped where none is installed (Debian: apt install chromium)."""

import os
import time

import pytest
from chromium import Chromium, find_chromium
from fleet_pages import HOSTILE, page_of, verdicts_of

pytestmark = pytest.mark.browser

NAMES = [f"adapter-{i}" for i in range(12)]
SHOWN = "Array.from(document.querySelectorAll('#fleet tbody tr[data-i]')).filter(r => !r.hidden)"
FIRST = "Array.from(document.querySelectorAll('#fleet tbody tr[data-i]')).map(r => r.cells[0].textContent)"
# WCAG: relative luminance, and the contrast of a text with the page's ground.
CONTRAST = """(() => {
  const lum = (color) => {
    const part = color.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const ground = lum(getComputedStyle(document.body).backgroundColor);
  return Array.from(document.querySelectorAll("h1, p, th, td, code, summary, .ends, caption"), (e) => {
    const text = lum(getComputedStyle(e).color);
    return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
  }).reduce((a, b) => Math.min(a, b));
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine; apt install chromium")
    found = Chromium(path, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def show_text(browser, tmp_path):
    """Return what shows a page's text; what was shown is closed after the test."""
    pages = []

    def _show(text):
        path = tmp_path / "fleet.html"
        path.write_text(text)
        pages.append(browser.open(path))
        return pages[-1]

    yield _show
    for page in pages:
        page.close()


@pytest.fixture
def show(show_text):
    return lambda verdicts: show_text(page_of(verdicts))


def _type(page, field, text):
    script = f"const f = document.getElementById({field!r}); f.value = {text!r}; f.dispatchEvent(new Event('input'))"
    page.run(f"(() => {{ {script} }})()")


def _check(page, action, is_on):
    page.run(
        f"(() => {{ const b = document.querySelector('input[value={action}]');"
        f" if (b.checked !== {str(is_on).lower()}) b.click() }})()"
    )


def _names(page):
    return page.run(f"{SHOWN}.map(r => r.cells[0].textContent)")


def test_a_heading_sorts_up_then_down_and_says_so(show):
    page = show(verdicts_of(NAMES))
    heading = "document.querySelectorAll('#fleet thead th')[3]"
    page.run(f"{heading}.querySelector('button').click()")
    rising = page.run(FIRST)
    assert rising == NAMES  # acceptance rises with the place
    assert page.run(f"{heading}.getAttribute('aria-sort')") == "ascending"
    page.run(f"{heading}.querySelector('button').click()")
    assert page.run(FIRST) == NAMES[::-1]
    assert page.run("document.querySelectorAll('[aria-sort]').length") == 1
    assert page.complaints() == []


def test_missing_numbers_come_last_either_way_and_actions_sort_by_urgency(show):
    page = show(verdicts_of(NAMES))
    heading = "document.querySelectorAll('#fleet thead button')[{}].click()"
    speedup, action = heading.format(4), heading.format(1)
    for _ in range(2):
        page.run(speedup)
        last = page.run(f"{SHOWN}.slice(-3).map(r => r.dataset.action)")
        assert last == ["abstain"] * 3
    page.run(action)
    assert (
        page.run(f"{SHOWN}.map(r => r.dataset.action)") == ["abstain"] * 3 + ["red"] * 3 + ["amber"] * 3 + ["green"] * 3
    )


def test_text_actions_and_pools_filter_together_and_the_count_is_told(show):
    page = show(verdicts_of(NAMES))
    assert page.run("document.getElementById('status').textContent") == "12 of 12 adapters shown"
    _type(page, "search", "ADAPTER-1")
    assert _names(page) == ["adapter-1", "adapter-10", "adapter-11"]
    _check(page, "amber", False)
    assert _names(page) == ["adapter-10", "adapter-11"]
    assert page.run("document.querySelectorAll('.point.out').length") == 10
    _type(page, "pool", "off")
    assert _names(page) == ["adapter-10"]
    _type(page, "search", "no such adapter")
    assert _names(page) == []
    assert page.run("document.querySelector('tr.none').hidden") is False
    assert page.run("document.getElementById('status').textContent") == "0 of 12 adapters shown"
    assert page.complaints() == []


def test_the_keyboard_alone_sorts_and_filters(show):
    page = show(verdicts_of(NAMES))
    page.run("document.querySelectorAll('#fleet thead button')[0].focus()")
    page.press("Enter", 13, "\r")
    assert page.run(FIRST)[:2] == ["adapter-11", "adapter-10"]  # it was sorted upwards, by number within the name
    page.run("document.querySelector('input[value=green]').focus()")
    page.press(" ", 32, " ")
    assert len(_names(page)) == 9


def test_hostile_names_do_nothing_and_are_shown_as_written(show):
    page = show(verdicts_of(HOSTILE))
    assert page.run("window.pwned ?? null") is None
    assert page.run("document.scripts.length") == 1
    assert page.run("document.querySelectorAll('img, iframe, a, svg svg').length") == 0
    names = page.run(FIRST)
    assert set(HOSTILE[:7]) < set(names)
    for hostile in HOSTILE[:4]:
        _type(page, "search", hostile)
        assert hostile in _names(page)
    assert page.run("window.pwned ?? null") is None
    assert page.complaints() == []


def test_a_script_that_got_in_would_not_run(show_text):
    wrong = "<script>window.pwned = 1</script><b onclick=pwned=1>x</b>"
    text = page_of(verdicts_of(["a"])).replace("<h2>Pools</h2>", wrong)
    page = show_text(text)
    page.run("document.querySelector('b[onclick]').click()")
    assert page.run("window.pwned ?? null") is None
    assert any("Content Security Policy" in complaint for complaint in page.complaints())


def test_nothing_is_asked_of_the_network(show):
    page = show(verdicts_of(NAMES))
    assert [url.partition(":")[0] for url in page.requests()] == ["file"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(show, scheme):
    page = show(verdicts_of(NAMES))
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    assert page.run(CONTRAST) >= 4.5


def test_a_screen_reader_finds_names_for_fields_map_and_headings(show):
    page = show(verdicts_of(NAMES))
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    found = {(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]}
    found = {(role, name.strip()) for role, name in found}
    assert {("searchbox", "Find"), ("combobox", "Pool"), ("checkbox", "green"), ("group", "Actions")} <= found
    assert ("rowheader", "adapter-0") in found
    assert any(role in ("image", "img") and name.startswith("Decision map") for role, name in found)
    assert any(role == "status" for role, _ in found)
    assert all(name for role, name in found if role in ("button", "checkbox", "searchbox", "combobox"))


def test_it_prints_with_all_reasons_and_without_controls(show):
    page = show(verdicts_of(NAMES))
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.getElementById('filters')).display") == "none"
    page.send("Emulation.setEmulatedMedia", media="")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") == 0
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.querySelectorAll('details[open]').length") == 0
    assert len(page.send("Page.printToPDF")["data"]) > 10_000


def test_a_thousand_adapters_sort_and_filter_at_once(show):
    page = show(verdicts_of([f"adapter-{i:04d}" for i in range(1000)]))
    begin = time.process_time()
    took_ms = page.run(
        "(() => { const begin = performance.now();"
        "document.querySelectorAll('#fleet thead th')[3].querySelector('button').click();"
        "const f = document.getElementById('search'); f.value = '-099'; f.dispatchEvent(new Event('input'));"
        "document.body.offsetHeight; return performance.now() - begin })()"
    )
    assert len(_names(page)) == 10
    assert took_ms < 5000 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), time.process_time() - begin


def test_a_narrow_screen_scrolls_the_table_and_not_the_page(show):
    page = show(verdicts_of(NAMES))
    page.send("Emulation.setDeviceMetricsOverride", width=380, height=800, deviceScaleFactor=1, mobile=False)
    assert page.run("document.documentElement.scrollWidth <= innerWidth") is True
