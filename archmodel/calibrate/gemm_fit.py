"""Fits the constants of the GEMM law (`archmodel.components.gemm`) of one GPU to measured products: all ten, or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archmodel.components import gemm
from archmodel.components.gemm import Chip, Constants, Product
from archmodel.quantities import Array

START = Constants(
    peak_fraction=0.9,
    read_fraction=0.9,
    write_fraction=0.7,
    load_width=50.0,
    start_cycles=2000.0,
    fill_cycles=800.0,
    wave_cycles=2500.0,
    split_cycles=3000.0,
    tail=0.5,
    exposed=0.3,
)
"""Where the search begins: between a library on A100 and one on H100."""

SHARES = ("peak_fraction", "read_fraction", "write_fraction", "tail", "exposed")
"""Constants that cannot exceed 1."""
CYCLES = ("start_cycles", "fill_cycles", "wave_cycles", "split_cycles")
"""Constants that are latencies, which differ together from one generation to the next."""
LEAST = 1e-3
"""Smallest value of any constant; a fit that ends there says that its cost is not seen in the measurements."""
SCALE = 0.03
"""Relative error beyond which a row pulls less than its square: near the mean absolute error, little for outliers."""


@dataclass(frozen=True, slots=True)
class Products:
    """Measured products of one precision: shapes (rows,), `seconds` (rows,) of the kernel, launch included."""

    m: Array
    n: Array
    k: Array
    batch: Array
    itemsize: int
    seconds: Array

    @property
    def product(self) -> Product:
        return Product(self.m, self.n, self.k, self.batch, self.itemsize)

    def where(self, keep: npt.NDArray[np.bool_]) -> Products:
        """The rows that `keep` marks."""
        m, n, k, batch = (x[keep] for x in (self.m, self.n, self.k, self.batch))
        return Products(m, n, k, batch, self.itemsize, self.seconds[keep])


def predict(products: Products, chip: Chip, constants: Constants, launch: float) -> Array:
    """Seconds (rows,), as the measured tables mean them: repeated in a graph, activations warm (`gemm.memory_time`)."""
    return np.asarray(launch + gemm.gemm_time(products.product, chip, constants, warm=True))


def errors(products: Products, chip: Chip, constants: Constants, launch: float) -> Array:
    """predicted / measured - 1, (rows,)."""
    return np.asarray(predict(products, chip, constants, launch) / products.seconds - 1.0)


def fit(
    parts: list[tuple[Products, Chip]], launch: float, *, start: Constants = START, evaluations: int = 60
) -> Constants:
    """Constants with the least robust squared log error over `parts`: products of one GPU, each with the chip as its
    precision sees it. Deterministic; about 5 s per 2,500 rows.
    """
    most = np.array([0.0 if name in SHARES else np.inf for name in Constants._fields])
    first = np.minimum(np.log(np.array(start)), most - 1e-3)

    def constants(x: Array) -> Constants:
        return Constants(*np.exp(x).tolist())

    return constants(_least(parts, launch, constants, first, np.full(len(start), np.log(LEAST)), most, evaluations))


def fit_two(parts: list[tuple[Products, Chip]], launch: float, base: Constants, *, evaluations: int = 60) -> Constants:
    """`base`, the constants of another GPU, with `load_width` and one factor of all `CYCLES` fitted as in `fit`.

    For a few hundred rows, which do not determine ten constants: those that their shapes hardly depend on would end
    anywhere, and decide the times of other shapes.
    """

    def constants(x: Array) -> Constants:
        width, factor = np.exp(x).tolist()
        return base._replace(load_width=width, **{name: getattr(base, name) * factor for name in CYCLES})

    first = np.array([np.log(float(np.asarray(base.load_width))), 0.0])
    return constants(_least(parts, launch, constants, first, first - 3.0, first + 3.0, evaluations))


def _least(
    parts: list[tuple[Products, Chip]],
    launch: float,
    constants: Callable[[Array], Constants],
    first: Array,
    lowest: Array,
    highest: Array,
    evaluations: int,
) -> Array:
    """The x between bounds, from `first` on, whose `constants` have the least robust squared log error."""
    from scipy.optimize import least_squares

    def residuals(x: Array) -> Array:
        c = constants(x)
        return np.concatenate([np.log(predict(p, chip, c, launch) / p.seconds) for p, chip in parts])

    bounds = lowest, highest
    found = least_squares(
        residuals, first, bounds=bounds, loss="soft_l1", f_scale=SCALE, diff_step=[2e-3], max_nfev=evaluations
    )
    return np.asarray(found.x)


def halves(rows: int, seed: int) -> npt.NDArray[np.bool_]:
    """A random half of `rows` rows, marked, the same for the same seed."""
    marked = np.zeros(rows, dtype=bool)
    marked[np.random.default_rng(seed).permutation(rows)[: rows - rows // 2]] = True
    return marked
