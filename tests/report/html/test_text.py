"""Text from files cannot become markup, in HTML, in plotly's labels, or in a script."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.report.html.text import label, labels, markup, rounded, script_json, short


class Tags(HTMLParser):
    """Collects what is an element, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_markup_is_one_text_node_that_says_the_same(text: str) -> None:
    parser = Tags()
    parser.feed(f'<p title="{markup(text)}">{markup(text)}</p>')
    parser.close()
    assert parser.found == ["p"]
    assert parser.text.replace("\r", "") == text.replace("\r", "") or "\x00" in text


@given(st.text())
def test_labels_hold_no_tag_and_one_line(text: str) -> None:
    shown = label(text)
    assert "<" not in shown and ">" not in shown and "\n" not in shown


@given(st.recursive(st.text() | st.integers() | st.none() | st.booleans(), st.lists))
def test_json_in_a_script_ends_nothing_and_reads_back(value: object) -> None:
    text = script_json(value)
    assert "<" not in text and ">" not in text and "&" not in text and "\u2028" not in text
    assert json.loads(text) == value


def test_not_a_number_is_refused_by_json_and_null_after_rounding() -> None:
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))
    assert rounded({"a": np.array([1.0, np.nan, 1 / 3, np.inf])}) == {"a": [1, None, 0.33333, None]}


@given(st.lists(st.text(max_size=80), max_size=20))
def test_labels_stay_different(texts: list[str]) -> None:
    made = labels(texts, 12)
    assert len(made) == len(texts)
    if len({label(text, 12) for text in texts}) == len(texts):
        assert made == [label(text, 12) for text in texts]


def test_equal_labels_are_told_apart() -> None:
    assert len(set(labels(["a" * 50 + str(i) + "b" * 50 for i in range(3)], 20))) == 3


@given(st.text(), st.integers(min_value=4, max_value=60))
def test_short_is_short(text: str, most: int) -> None:
    cut = short(text, most)
    assert len(cut) <= max(most, 0) and (cut == text or "…" in cut)


def test_plotly_shows_quotes_as_they_are() -> None:
    assert label("a \"b\" 'c' & <d>") == "a \"b\" 'c' &amp; &lt;d&gt;"
