"""One optimizer step, as equations on arrays: (weights, gradient, state) -> (weights, state).

The same equations step dense parameters, the touched rows of a table, and all rows of a replicated table. Symbols: w
weights, g gradient, h sum of squares, m and v Adam's moments, t the step from 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from archmodel.execute.settings import Settings
from archmodel.quantities import Array

State = dict[str, Array]
Step = Callable[[Array, Array, State, float, int, Settings], tuple[Array, State]]
STATE_NAMES: dict[str, tuple[str, ...]] = {
    "sgd": (),
    "rowwise_adagrad": ("row_square_sum",),
    "adagrad": ("square_sum",),
    "adam": ("first_moment", "second_moment"),
}


def new_state(optimizer: str, shape: tuple[int, ...]) -> State:
    """Zero state for weights of `shape`; row-wise Adagrad keeps one number per row."""
    size = (shape[0], 1) if optimizer == "rowwise_adagrad" else shape
    return {name: np.zeros(size) for name in STATE_NAMES[optimizer]}


def sgd(w: Array, g: Array, state: State, rate: float, t: int, s: Settings) -> tuple[Array, State]:
    """w - rate g."""
    return w - rate * g, state


def adagrad(w: Array, g: Array, state: State, rate: float, t: int, s: Settings) -> tuple[Array, State]:
    """h += g^2; w -= rate g / (sqrt(h) + epsilon). Duchi, Hazan, Singer, JMLR 12 (2011)."""
    h = state["square_sum"] + g * g
    return w - rate * g / (np.sqrt(h) + s.epsilon), {"square_sum": h}


def rowwise_adagrad(w: Array, g: Array, state: State, rate: float, t: int, s: Settings) -> tuple[Array, State]:
    """h += mean over the row of g^2; w -= rate / (sqrt(h) + epsilon) g. FBGEMM's EXACT_ROWWISE_ADAGRAD."""
    h = state["row_square_sum"] + np.add.reduce(g * g, axis=1, keepdims=True) / g.shape[1]
    return w - rate / (np.sqrt(h) + s.epsilon) * g, {"row_square_sum": h}


def adam(w: Array, g: Array, state: State, rate: float, t: int, s: Settings) -> tuple[Array, State]:
    """Kingma and Ba, arXiv 1412.6980, algorithm 1 in the order that section 2 recommends: bias corrections go into the
    rate and epsilon, which are scalars."""
    m = s.beta1 * state["first_moment"] + (1 - s.beta1) * g
    v = s.beta2 * state["second_moment"] + (1 - s.beta2) * (g * g)
    root = float(np.sqrt(1 - s.beta2**t))
    corrected = rate * root / (1 - s.beta1**t)
    return w - corrected * m / (np.sqrt(v) + s.epsilon * root), {"first_moment": m, "second_moment": v}


STEPS: dict[str, Step] = {"sgd": sgd, "rowwise_adagrad": rowwise_adagrad, "adagrad": adagrad, "adam": adam}
