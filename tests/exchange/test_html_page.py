"""The page to sort on: what is in the file, and people's hands on it in a real browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.exchange import HtmlPage, picture_frame, read_answers, write_tasks

from ..browser import CHROMIUM, Browser

PAGES = pd.DataFrame({"page": ["p"] * 4 + ["q"] * 3, "item": list("abcdefg")})
TEXTS = {item: f"</script><b>{item}</b>, \"of\" 'quotes'" for item in "abcdefg"}
PICTURES = picture_frame(np.random.default_rng(0).random((7, 8, 8)), pd.Index(list("abcdefg")))


class Parts(HTMLParser):
    """Tags with their attributes, and the text of every script."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def parts_of(text: str) -> Parts:
    parts = Parts()
    parts.feed(text)
    parts.close()
    return parts


@pytest.mark.parametrize("items", [TEXTS, PICTURES], ids=["texts", "pictures"])
def test_the_file_asks_for_no_other(items):
    text = HtmlPage(title="<Sort>").tasks(PAGES, items)
    parts = parts_of(text)
    for tag, attributes in parts.tags:
        assert tag not in ("link", "iframe", "object")
        assert not {"src", "href", "action"} & attributes.keys()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://", text)
    assert "<h1>&lt;Sort&gt;</h1>" in text
    assert "{{" not in text
    data = json.loads(parts.scripts[0])
    assert [page["page"] for page in data["pages"]] == ["p", "q"]
    assert [item["item"] for item in data["pages"][1]["items"]] == list("efg")


def test_everything_to_press_has_a_name():
    text = HtmlPage().tasks(PAGES, TEXTS)
    assert '<html lang="en">' in text
    assert 'aria-live="polite"' in text
    assert re.search(r"<label[^>]*>Your name <input", text)
    for button in re.findall(r"<button[^>]*>([^<]*)</button>", text):
        assert button.strip()
    for name in re.findall(r'byId\("([\w-]+)"\)', text):
        assert f'id="{name}"' in text


def test_another_question_is_kept_under_another_name():
    keys = {
        json.loads(parts_of(HtmlPage().tasks(table, TEXTS)).scripts[0])["key"]
        for table in (PAGES, PAGES[:4], PAGES.assign(worker="ann"), PAGES)
    }
    assert len(keys) == 3


def test_a_file_for_every_worker(tmp_path):
    asked = PAGES.assign(worker=["ann"] * 4 + ["ann?"] * 3)
    paths = write_tasks(tmp_path, HtmlPage(), asked, TEXTS)
    assert [path.name for path in paths] == ["sort-ann.html", "sort-ann-2.html"]
    found = [json.loads(parts_of(path.read_text(encoding="utf-8")).scripts[0]) for path in paths]
    assert [data["worker"] for data in found] == ["ann", "ann?"]


def test_pictures_elsewhere_are_refused():
    items = pd.DataFrame({"image": "https://example.org/a.png"}, index=list("abcdefg"))
    with pytest.raises(ValueError, match="item 'a' is at https.* but the page uses no network"):
        HtmlPage().tasks(PAGES, items)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to open the page in")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Function that opens a page in a window of some size, for fingers or a mouse."""

    def open_page(items=TEXTS, *, touch=False, questions=PAGES):
        (path,) = write_tasks(tmp_path, HtmlPage(), questions, items)
        browser.size(*((390, 844) if touch else (1200, 900)), touch=touch)
        browser.errors.clear()
        browser.requests.clear()
        browser.open(path)
        return browser

    yield open_page
    assert browser.errors == []
    assert all(address.startswith(("file:", "data:", "blob:")) for address in browser.requests)
    browser.run("localStorage.clear()")


def places(browser):
    return browser.run("state.pages.map((page) => page.places)")


def item(index):
    return f".item[data-index='{index}']"


def group(place):
    return f".place[data-place='{place}']"


def sort_by_keys(browser, keys):
    browser.run("elements[current].focus()")
    for key in keys:
        browser.key(key)


def test_keys_sort_a_page_and_the_table_is_taken_by_a_fit(opened):
    browser = opened()
    sort_by_keys(browser, ["1", "2", "1", "0", "Enter", "n", "n", "1"])
    assert places(browser) == [[1, 2, 1, 0], [1, 2, 1]]
    browser.run("document.getElementById('worker').focus()")
    for letter in "Ann":
        browser.key(letter)
    browser.click("#save")
    answers = read_answers(browser.saved(), form=HtmlPage())
    found = answers.placements
    assert found.drop(columns="seconds").to_numpy().tolist() == [
        ["p", "a", "Ann", "1"],
        ["p", "b", "Ann", "2"],
        ["p", "c", "Ann", "1"],
        ["q", "e", "Ann", "1"],
        ["q", "f", "Ann", "2"],
        ["q", "g", "Ann", "1"],
    ]
    assert answers.unanswered[["page", "item"]].to_numpy().tolist() == [["p", "d"]]
    data = CrowdData(None, placements=found)
    assert data.placements.num_groups.tolist() == [2, 2]


def test_a_mouse_drags_and_picks(opened):
    browser = opened(PICTURES)
    # Drag the first item into a new group.
    browser.mouse("mousePressed", *browser.middle(item(0)))
    x, y = browser.middle(group(1))
    browser.mouse("mouseMoved", x - 20, y)
    browser.mouse("mouseMoved", x, y)
    assert browser.run("document.querySelector('.place.over').dataset.place") == "1"
    browser.mouse("mouseReleased", x, y)
    assert places(browser)[0] == [1, None, None, None]
    # Pick two, and press the group.
    browser.click(item(1))
    browser.click(item(3))
    assert browser.run("[...picked]") == [1, 3]
    browser.click(f"{group(2)} h2 button")
    assert places(browser)[0] == [1, 2, None, 2]
    # Drag one of two picked ones back, and let a third go where nothing is.
    browser.click(item(1))
    browser.click(item(3))
    browser.mouse("mousePressed", *browser.middle(item(3)))
    x, y = browser.middle("#tray")
    browser.mouse("mouseMoved", x, y)
    browser.mouse("mouseReleased", x, y)
    assert places(browser)[0] == [1, None, None, None]
    browser.mouse("mousePressed", *browser.middle(item(0)))
    browser.mouse("mouseMoved", 600, 3)
    browser.mouse("mouseReleased", 600, 3)
    assert places(browser)[0] == [1, None, None, None]
    assert browser.run("document.querySelectorAll('.ghost, .lifted, .over').length") == 0


def test_fingers_tap_hold_and_scroll(opened):
    browser = opened(touch=True)
    browser.tap(item(0))
    browser.tap(item(1))
    browser.tap("#bar button:nth-of-type(1)")
    assert places(browser)[0] == [1, 1, None, None]
    # Held, then moved: it drags.
    browser.touch("touchStart", browser.middle(item(2)))
    browser.until("drag && drag.ghost !== null")
    # The group itself may be out of sight, the bar is not.
    x, y = browser.middle("#bar [data-place='0']")
    browser.touch("touchMove", (x - 9, y))
    browser.touch("touchMove", (x, y))
    browser.touch("touchEnd")
    assert places(browser)[0] == [1, 1, 0, None]
    # Moved at once: it scrolls, and nothing is dragged.
    x, y = browser.middle(item(3))
    browser.touch("touchStart", (x, y))
    for step in range(1, 5):
        browser.touch("touchMove", (x, y - 30 * step))
    browser.touch("touchEnd")
    assert browser.run("drag") is None
    assert places(browser)[0] == [1, 1, 0, None]


def test_one_goes_on_where_one_left_off(opened):
    browser = opened()
    sort_by_keys(browser, ["1", "1", "2", "2", "Enter", "1"])
    browser.run("byId('worker').value = 'Ben'; byId('worker').oninput()")
    browser.send("Page.reload")
    browser.until("document.readyState === 'complete' && elements.length === 3")
    assert places(browser) == [[1, 1, 2, 2], [1, None, None]]
    assert browser.run("byId('where').textContent") == "Page 2 of 2"
    assert browser.run("byId('worker').value") == "Ben"
    # What is not sorted yet is not in the file.
    browser.click("#save")
    assert read_answers(browser.saved(), form=HtmlPage()).placements["page"].unique() == ["p"]
    assert "1 page is not sorted yet" in browser.run("byId('status').textContent")


def test_another_person_starts_over(opened):
    browser = opened()
    sort_by_keys(browser, ["1", "2", "1", "2", "Enter", "1"])
    browser.run("byId('worker').value = 'Ben'; byId('worker').oninput(); byId('help').open = true")
    browser.run("window.confirm = () => true")
    browser.click("#restart")
    assert places(browser) == [[None] * 4, [None] * 3]
    browser.send("Page.reload")
    browser.until("document.readyState === 'complete' && elements.length === 4")
    assert browser.run("byId('worker').value") == ""


def test_nobody_saves_without_a_name(opened):
    browser = opened()
    browser.click("#save")
    assert browser.run("document.activeElement.id") == "worker"
    assert [*browser.downloads.glob("*.csv")] == []


def test_nothing_is_saved_before_a_page_is_sorted(opened):
    browser = opened()
    browser.run("byId('worker').value = 'Ben'; byId('worker').oninput()")
    sort_by_keys(browser, ["1", "1", "2"])
    browser.click("#save")
    assert "nothing to save" in browser.run("byId('status').textContent")
    assert [*browser.downloads.glob("*.csv")] == []


def test_a_number_makes_no_group_but_the_next(opened):
    browser = opened()
    sort_by_keys(browser, ["1", "2", "7"])
    assert places(browser)[0] == [1, 2, None, None]
    assert browser.run("byId('status').textContent") == "There is no group 7."
    sort_by_keys(browser, ["3"])
    assert places(browser)[0] == [1, 2, 3, None]


def test_keys_move_between_items_and_take_back(opened):
    browser = opened()
    sort_by_keys(browser, ["ArrowRight", "Space", "ArrowRight", "Space", "1"])
    assert places(browser)[0] == [None, 1, 1, None]
    browser.run("elements[1].focus()")
    browser.key("Backspace")
    assert places(browser)[0] == [None, None, 1, None]
    browser.run("elements[0].focus()")
    browser.key("Enter")  # not all are sorted: this picks, as on any button
    assert browser.run("state.page") == 0
    browser.key("Escape")
    assert browser.run("picked.size") == 0


def test_ids_and_names_of_all_kinds_are_saved_as_they_are(opened):
    asked = pd.DataFrame({"page": [1, 1, 1], "item": ["=1+1", 'a,"b"', "-3"]})
    browser = opened(None, questions=asked)
    sort_by_keys(browser, "111")
    browser.run("byId('worker').value = '@ann, \"b\"'; byId('worker').oninput()")
    browser.click("#save")
    found = read_answers(browser.saved(), form=HtmlPage()).placements
    assert found["item"].tolist() == ["=1+1", 'a,"b"', "-3"]
    assert found["worker"].unique() == ['@ann, "b"']


@pytest.mark.parametrize("touch", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_can_be_seen_and_read(opened, touch, dark):
    browser = opened(PICTURES, touch=touch)
    browser.dark(dark)
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    for text, ground in (("--ink", "--page"), ("--quiet", "--card"), ("--on-accent", "--accent")):
        assert contrast(browser, text, ground) >= 4.5
    small = browser.run(
        "[...document.querySelectorAll('footer button, .item')]"
        ".map((e) => e.getBoundingClientRect()).filter((b) => Math.min(b.width, b.height) < 40)"
    )
    assert small == []
    browser.dark(False)


def contrast(browser, *names):
    """Ratio of luminances of two colours of the page (WCAG 2)."""
    found = []
    for name in names:
        text = browser.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}')")
        channels = np.array([int(text.strip()[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        found.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return max(found) / min(found)
