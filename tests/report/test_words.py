from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.report.words import NO_BREAK, money, on, one_line, percent, plural, shares, signed


@given(st.text())
def test_text_from_a_file_stays_on_one_line(text: str) -> None:
    line = one_line(text)
    assert "\n" not in line
    assert "\x1b" not in line
    assert NO_BREAK not in line


def test_streams_have_names() -> None:
    assert on("scale_up+scale_out") == "scale-up + NIC"
    assert on("a\x1bb") == r"a\x1bb"


@pytest.mark.parametrize(("share", "text"), [(0.052, "+5 %"), (-0.0001, "+0 %"), (0.0, "+0 %"), (-0.5, "-50 %")])
def test_a_sign_is_never_that_of_a_negative_zero(share: float, text: str) -> None:
    assert signed(share) == text


def test_shares_name_the_largest_parts() -> None:
    parts = {"a": 0.9, "b": 0.08, "c": 0.02}
    assert shares(parts).replace(NO_BREAK, " ") == "a 90 %, b 8 %"
    assert shares({"a": 3.0}) == "a"
    assert shares({}) == shares({"a": 0.0}) == "nothing"


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e6), max_size=6))
def test_shares_never_exceed_the_whole(parts: dict[str, float]) -> None:
    shown = [int(word) for word in shares(parts).replace(NO_BREAK, " ").replace("%", "").split() if word.isdigit()]
    assert sum(shown) <= 101


def test_small_words() -> None:
    assert percent(0.716) == "72 %"
    assert money(12345.6) == "$12,345.60"
    assert money(0.000312) == "$0.000312"
    assert (plural(1, "rank"), plural(4096, "rank")) == ("1 rank", "4,096 ranks")
