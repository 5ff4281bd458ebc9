"""Where popular rows lie, which of them are found open, and how long a vector waits for its bank. All broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from archmodel.memory.cache import Popularity
from archmodel.quantities import Array

_LAYOUTS, _CLASSES = 256, 8
"""Layouts of the hottest rows that are drawn, and the classes that they are averaged in by their busiest bank."""
_HOTTEST, _SINGLE, _ROWS = 128, 8, 3
"""Rows that are dealt one by one, banks of a layout that are kept apart, rows of a bank that can be found open."""


@dataclass(frozen=True, slots=True)
class Banks:
    """Loads of banks: one axis for classes of layouts, one for the banks of a layout, busiest first."""

    share: Array
    """Of all vectors, that go to a bank (..., S, B)."""
    count: Array
    """Banks that this one stands for (..., S, B)."""
    rows: Array
    """Of all vectors, that go to each of its hottest rows, and to its others together (..., S, B, H)."""
    met: Array
    """Of all vectors, that go to the row of such a vector (..., S, B, H)."""
    beside: Array
    """Of all vectors, that go to other rows of its bank (..., S, B, H)."""

    def mean(self, value: Array) -> Array:
        """Of a vector, over banks (..., S)."""
        return np.asarray((self.count * self.share * value).sum(-1))


def placed(popularity: Popularity | None, banks: Array) -> Banks:
    """Rows of a popularity dealt to `banks` banks by chance; without one all banks are alike.

    The hottest rows are drawn, always the same way, the others spread evenly. A rate that depends on the busiest bank
    is averaged over classes of layouts, within which loads are the means of the busiest bank, of the next, ...
    """
    if popularity is None:
        even = banks[..., None, None]
        one = even[..., None]
        return Banks(1.0 / even, even, 1.0 / one, np.zeros_like(one), 1.0 / one)
    shape = np.broadcast_shapes(banks.shape, popularity.probability.shape[:-1])
    banks = np.broadcast_to(banks, shape)[..., None, None]
    load, rows, squares = _layouts(popularity, banks)
    each = np.concatenate([load, rows, squares, rows * load], -1)
    each = np.take_along_axis(each, np.argsort(-load, axis=-2), -2)
    others = each[..., _SINGLE:, :].sum(-2, keepdims=True) / np.maximum(banks - _SINGLE, 1.0)[..., None]
    each = np.concatenate([each[..., :_SINGLE, :], others], -2)
    each = np.take_along_axis(each, np.argsort(each[..., 0, 0], axis=-1)[..., None, None], -3)
    each = each.reshape(*shape, _CLASSES, -1, *each.shape[-2:]).mean(-3)
    share, (rows, squares, both) = each[..., 0], np.split(each[..., 1:], 3, -1)
    single = np.where(np.arange(_SINGLE) < banks, 1.0, 0.0)
    count = np.broadcast_to(np.concatenate([single, np.maximum(banks - _SINGLE, 0.0)], -1), share.shape)
    met, bank = (np.maximum(a, 0.0) / np.maximum(rows, 1e-12) for a in (squares, both))
    return Banks(np.maximum(share, 1e-12), count, rows, met, bank - met)


def _layouts(popularity: Popularity, banks: Array) -> tuple[Array, Array, Array]:
    """Of every layout and bank: its share, those of its hottest rows and of all its others, the squares of the same."""
    shape, most = banks.shape[:-2], max(int(banks.max(initial=1.0)), _SINGLE + 1)
    upto = np.cumsum(popularity.rows, axis=-1)
    rank = (upto[..., None, :] <= np.arange(_HOTTEST)[:, None] + 0.5).sum(-1)
    top = np.take_along_axis(popularity.probability, np.minimum(rank, upto.shape[-1] - 1), -1)
    top = np.broadcast_to(np.where(rank < upto.shape[-1], top, 0.0), (*shape, _HOTTEST))[..., None, :]
    bank = np.floor(_draws() * banks).astype(np.int64)
    order = np.argsort(bank, axis=-1, kind="stable")
    bank = np.take_along_axis(bank, order, -1)
    top = np.take_along_axis(np.broadcast_to(top, bank.shape), order, -1)
    step = np.arange(_HOTTEST)
    first = np.where(np.diff(bank, axis=-1, prepend=-1) > 0, step, 0)
    place = (step - np.maximum.accumulate(first, axis=-1)).ravel()
    layouts = int(np.prod(shape)) * _LAYOUTS
    at = (np.arange(layouts).reshape(*shape, _LAYOUTS, 1) * most + bank).ravel()

    def dealt(value: Array, total: Array) -> Array:
        """Sums by bank of what the hottest rows have, and of all the other rows evenly."""
        summed = np.bincount(at, value.ravel(), layouts * most).reshape(*shape, _LAYOUTS, most)
        rest = np.maximum(total - value.sum(-1, keepdims=True), 0.0) / banks
        return np.asarray(np.where(np.arange(most) < banks, summed + rest, 0.0)[..., None])

    rows, hot = np.zeros((layouts * most, _ROWS)), place < _ROWS
    rows[at[hot], place[hot]] = top.ravel()[hot]
    rows = rows.reshape(*shape, _LAYOUTS, most, _ROWS)
    load = dealt(top, np.ones_like(banks))
    squares = dealt(top**2, (popularity.rows * popularity.probability**2).sum(-1)[..., None, None])
    rows, squares = (
        np.concatenate([each, whole - each.sum(-1, keepdims=True)], -1)
        for each, whole in ((rows, load), (rows**2, squares))
    )
    return load, rows, squares


@cache
def _draws() -> Array:
    """Uniform places of the hottest rows, (layouts, rows)."""
    return np.random.default_rng(0).random((_LAYOUTS, _HOTTEST))


def found_rows(banks: Banks, c: Array, x: Array, hit: Array, lasts: float) -> tuple[Array, Array]:
    """Shares of the vectors of a bank that find their row open or waited for, and another row open (..., S, B).

    A row of share p is opened x cycles after the first vector came for it, and stays open O cycles for all that have
    come by then, until one is there for another row of the bank; of a bank of share s, at c cycles per vector:

        found = r (1 - 1 / (1 + p / c (x + O))),   other = r - found
        O = S + c / (s - p) exp(-(s - p) / c (x + S)),   S = (1 + p x / c) hit / (1 - p hit / c)
        r = 1 - (1 - exp(-y)) / y,   y = s lasts / c

    `hit`: cycles that a vector of an open row takes. r: no refresh, every `lasts` cycles, came since the last vector.
    """
    c, hit, x = c[..., None, None], hit[..., None, None], x[..., None]
    own, beside = banks.met / c, np.maximum(banks.beside, 1e-9) / c
    serves = (1.0 + own * x) * hit / np.maximum(1.0 - own * hit, 0.05)
    stays = serves + np.exp(-beside * (x + serves)) / beside
    visits = (own + beside) * lasts
    opened = banks.rows / banks.share[..., None] * (1.0 + np.expm1(-visits) / visits)
    other = opened / (1.0 + own * (x + stays))
    return np.asarray((opened - other).sum(-1)), np.asarray(other.sum(-1))


def bank_wait(banks: Banks, c: Array, own: Array, hold: Array, others: Array) -> Array:
    """Mean cycles that a vector waits for its bank (..., S, B): behind those that are there, and for what is left of
    the hold of one that just left, `tail` cycles, and of those before it; a bank of share s, c cycles per vector:

        wait = sum_j max(0, tail - j c) s + q s / c (wait hold + own (hold - own / 2)),   tail = hold - own

    own: cycles of a vector alone. q, `others`: share of the vectors under way that are not this one (Schweitzer's
    approximation of mean value analysis).
    """
    rate, own, q = 1.0 / c[..., None], np.minimum(own[..., None], hold), others[..., None]
    tail = hold - own
    before = np.floor(tail * rate)
    tails = banks.share * ((before + 1.0) * tail - before * (before + 1.0) / (2.0 * rate))
    ahead = q * banks.share * rate * own * (hold - own / 2)
    return np.asarray((tails + ahead) / np.maximum(1.0 - q * banks.share * rate * hold, 1e-9))
