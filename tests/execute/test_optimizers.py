"""Optimizer steps against scalar loops, and the operations that the lowering charges for them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from archmodel.execute.arithmetic import Tally, counted
from archmodel.execute.optimizers import STEPS, new_state
from archmodel.execute.settings import Settings
from archmodel.parallel.dense import OPTIMIZER_MOMENTS, OPTIMIZER_OPERATIONS
from archmodel.parallel.sparse import STEP_OPERATIONS, STEP_OPERATIONS_PER_ROW

S = Settings()
RATE = 0.1


def by_hand(optimizer: str, w: np.ndarray, gradients: list[np.ndarray]) -> np.ndarray:
    """The textbook update, number by number."""
    w = w.copy()
    rows, columns = w.shape
    h, m, v, r = (np.zeros_like(w) for _ in range(4))
    for t, g in enumerate(gradients, 1):
        for i in range(rows):
            r[i, 0] += sum(x * x for x in g[i]) / columns
            for j in range(columns):
                x = g[i, j]
                if optimizer == "sgd":
                    w[i, j] -= RATE * x
                elif optimizer == "adagrad":
                    h[i, j] += x * x
                    w[i, j] -= RATE * x / (math.sqrt(h[i, j]) + S.epsilon)
                elif optimizer == "rowwise_adagrad":
                    w[i, j] -= RATE * x / (math.sqrt(r[i, 0]) + S.epsilon)
                else:
                    m[i, j] = S.beta1 * m[i, j] + (1 - S.beta1) * x
                    v[i, j] = S.beta2 * v[i, j] + (1 - S.beta2) * x * x
                    m_hat, v_hat = m[i, j] / (1 - S.beta1**t), v[i, j] / (1 - S.beta2**t)
                    w[i, j] -= RATE * m_hat / (math.sqrt(v_hat) + S.epsilon)
    return w


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_equal_to_the_textbook(optimizer: str) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(3, 4))
    gradients = [rng.normal(size=(3, 4)) for _ in range(3)]
    values, state = w, new_state(optimizer, w.shape)
    for t, g in enumerate(gradients, 1):
        values, state = STEPS[optimizer](values, g, state, RATE, t, S)
    assert np.allclose(values, by_hand(optimizer, w, gradients), rtol=1e-13, atol=0)
    assert not np.allclose(values, w)


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_operations_are_those_of_the_lowering(optimizer: str) -> None:
    rows, columns, tally = 5, 7, Tally()
    w, g = (counted(np.ones((rows, columns)), tally) for _ in range(2))
    state = {name: counted(s, tally) for name, s in new_state(optimizer, w.shape).items()}
    STEPS[optimizer](w, g, dict(state), RATE, 1, S)
    assert tally.operations == rows * (columns * STEP_OPERATIONS[optimizer] + STEP_OPERATIONS_PER_ROW[optimizer])
    if optimizer in OPTIMIZER_OPERATIONS:
        assert tally.operations == rows * columns * OPTIMIZER_OPERATIONS[optimizer]
        assert len(state) == OPTIMIZER_MOMENTS[optimizer]


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_a_gradient_of_zero_from_rest_moves_nothing(optimizer: str) -> None:
    w = np.arange(6.0).reshape(2, 3)
    values, _ = STEPS[optimizer](w, np.zeros((2, 3)), new_state(optimizer, w.shape), RATE, 1, S)
    assert np.array_equal(values, w)
