"""Learning rates and constants of the optimizers, the same for the executor and the reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """`dense_rate` and `sparse_rate`: learning rates of dense layers and of tables; `epsilon` is added to square
    roots (FBGEMM's 1e-8); `beta1`, `beta2` are Adam's decay rates (Kingma and Ba, arXiv 1412.6980)."""

    dense_rate: float = 0.005
    sparse_rate: float = 0.005
    epsilon: float = 1e-8
    beta1: float = 0.9
    beta2: float = 0.999
