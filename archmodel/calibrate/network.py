"""Fits the constants of fabrics to measured collectives (tables such as nccl-tests gives).

One set of constants serves all-reduce, all-gather, reduce-scatter and all-to-all at every number of GPUs. For
a switch: an efficiency, a latency per step and per peer, the rate of local copies, a pipeline fill, and a
start-up and a bandwidth share per protocol: 12 numbers and a limit, and 2 more where the switch reduces. What
is fitted is the law that is used: residuals come from `collectives.estimate` itself. The limit of the
low-latency protocols only decides which messages they may carry, so it is tried at a few values instead of
searched.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel import collectives
from archmodel.errors import ArchmodelError
from archmodel.network import Nic, RailClos, Switch, Topology, build_topology
from archmodel.quantities import Array, show

KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
}
"""Operations as tables of measurements spell them."""

COLUMNS = (("op", "coll"), ("num_gpus", "gpus"), ("size_bytes",), ("time_us", "time_us_oop"))
"""Spellings of the columns: operation, ranks, bytes of the full buffer, microseconds."""

DIRECT_LIMIT = 16384.0
"""Bytes to one peer up to which NCCL sends by its low-latency protocol (its NCCL_P2P_LL_THRESHOLD)."""

LIMITS = tuple(0.75 * 2.0**k for k in (18, 19, 20, 21))
"""Largest message of a ring step for the low-latency protocols: between measured powers of two."""

SWITCH_START = {
    "efficiency": 0.8,
    "latency": 0.9e-6,
    "direct_latency": 0.2e-6,
    "copy": 2.5,
    "fill": 8e-6,
    "ll_narrow.base": 6e-6,
    "ll_narrow.direct_base": 7e-6,
    "ll_narrow.fraction": 0.035,
    "ll.base": 8e-6,
    "ll.fraction": 0.5,
    "simple.base": 15e-6,
    "simple.direct_base": 10e-6,
    "in_network.base": 50e-6,
    "in_network.fraction": 0.85,
}
"""Where the search begins: magnitudes of an NVSwitch node. `copy` is in units of the link bandwidth."""

RAIL_START = {
    "efficiency": 0.85,
    "fill": 8e-6,
    "ll_narrow.base": 100e-6,
    "ll_narrow.fraction": 0.1,
    "ll.base": 150e-6,
    "ll.fraction": 0.4,
    "simple.base": 250e-6,
}


class CalibrationError(ArchmodelError, ValueError):
    """Measurements that cannot be used."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Collectives of one system: `size` of the full buffer in bytes (all_gather: gathered), `time` in s."""

    kind: tuple[str, ...]
    ranks: npt.NDArray[np.int64]
    size: Array
    time: Array

    def where(self, keep: npt.NDArray[np.bool_]) -> Measurements:
        """The rows that `keep` marks."""
        kinds = tuple(itertools.compress(self.kind, keep))
        return Measurements(kinds, self.ranks[keep], self.size[keep], self.time[keep])

    def input_bytes(self) -> Array:
        """`per_rank_input_bytes` of every row: an all-gather takes in its share of the gathered size."""
        gathers = np.array([kind == "all_gather" for kind in self.kind])
        return np.where(gathers, self.size / self.ranks, self.size)


def read(path: str | Path, system: str) -> Measurements:
    """Rows of a csv whose column `system` is (or begins with) `system`; the other columns are `COLUMNS`.

    Raises `CalibrationError` naming the line for an operation or number it cannot read, and for no rows at
    all.
    """
    rows = []
    with Path(path).open(newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            if not str(row.get("system", "")).startswith(system):
                continue
            try:
                op, ranks, size, time = (row[next(n for n in names if n in row)] for names in COLUMNS)
                rows.append((KINDS[op], int(ranks), float(size), float(time) * 1e-6))
            except (KeyError, ValueError, RuntimeError) as error:
                raise CalibrationError(f"{path}:{line}  cannot be read as a measurement: {error!r}") from None
    if not rows:
        raise CalibrationError(f"{path}  has no rows of a system {system!r}")
    kinds, counts, sizes, times = zip(*rows, strict=True)
    return Measurements(kinds, np.array(counts), np.array(sizes), np.array(times))


Machine = Callable[[int], Topology]
"""The topology of a number of ranks."""


def predict(machine: Machine, measured: Measurements) -> Array:
    """Seconds that `collectives.estimate` gives for every row."""
    times = np.empty_like(measured.time)
    inputs, kinds = measured.input_bytes(), np.array(measured.kind)
    for kind, ranks in itertools.product(dict.fromkeys(measured.kind), np.unique(measured.ranks)):
        rows = (kinds == kind) & (measured.ranks == ranks)
        times[rows] = collectives.estimate(machine(int(ranks)), kind, per_rank_input_bytes=inputs[rows]).time
    return times


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants by name, the limit tried, and predicted / measured - 1 on what they were fitted on."""

    constants: Mapping[str, float]
    limit: float | None
    errors: Array

    @property
    def mean_absolute_error(self) -> float:
        return float(np.abs(self.errors).mean())


def fit_switch(
    measured: Measurements,
    bandwidth: float,
    *,
    without: tuple[str, ...] = (),
    limits: tuple[float, ...] = LIMITS,
) -> Fit:
    """A switch fabric's constants from collectives inside a node; `switch` turns them into a fabric.

    `bandwidth`: line rate of one GPU in B/s, per direction. `without`: constants, or whole protocols,
    that this fabric does not have: "in_network" where the switch does not reduce, "ll_narrow.direct_base" where
    small all-to-alls are no faster than large ones.
    """
    start = {name: x for name, x in SWITCH_START.items() if not name.startswith(without)}
    fits = []
    for limit in limits:

        def machine(constants: Mapping[str, float], limit: float = limit) -> Machine:
            return in_node(switch(constants, bandwidth, limit))

        fits.append(_search(start, machine, measured, limit))
    return min(fits, key=lambda fit: fit.mean_absolute_error)


def fit_rail_clos(measured: Measurements, scale_up: Switch, nic: Nic, *, gpus: int, latency: float) -> Fit:
    """A scale-out fabric's constants from collectives over whole nodes of `gpus` GPUs with a known node
    fabric.

    `latency` (seconds per step) is given, not fitted: with few node counts it cannot be told from start-up.
    """

    def machine(constants: Mapping[str, float]) -> Machine:
        return in_nodes(scale_up, rail_clos(constants, latency), nic, gpus)

    return _search(RAIL_START, machine, measured, None)


def in_node(scale_up: Switch) -> Machine:
    """Machines of one node."""
    return lambda ranks: build_topology(scale_up, ranks_per_node=ranks)


def in_nodes(scale_up: Switch, scale_out: RailClos, nic: Nic, gpus: int) -> Machine:
    """Machines of whole nodes of `gpus` GPUs."""
    return lambda ranks: build_topology(
        scale_up, ranks_per_node=gpus, nodes=ranks // gpus, nic=nic, scale_out=scale_out
    )


def switch(constants: Mapping[str, float], bandwidth: float, limit: float) -> Switch:
    """The node fabric that named constants describe."""
    c = constants
    block: dict[str, Any] = {
        "bandwidth": bandwidth,
        "copy_bandwidth": c["copy"] * bandwidth,
        **{name: c[name] for name in ("efficiency", "latency", "direct_latency")},
        "protocols": {
            "ll_narrow": {**_row(c, "ll_narrow"), "limit": limit, "direct_limit": DIRECT_LIMIT},
            "ll": {**_row(c, "ll"), "limit": limit},
            "simple": {**_row(c, "simple"), "fill": c["fill"]},
        },
    }
    if "in_network.base" in c:
        block["in_network"] = {**_row(c, "in_network"), "fill": c["fill"]}
    return Switch.model_validate(block)


def rail_clos(constants: Mapping[str, float], latency: float) -> RailClos:
    """The scale-out fabric that named constants describe."""
    c = constants
    rows = {name: _row(c, name) for name in ("ll_narrow", "ll", "simple")}
    rows["simple"] |= {"fill": c["fill"], "direct_base": c["simple.base"]}
    return RailClos.model_validate(
        {"efficiency": c["efficiency"], "latency": latency, "counts_tree_bytes": True, "protocols": rows}
    )


def summary(fit: Fit) -> dict[str, str]:
    """The constants as a design file spells them, four digits."""
    kinds = {"efficiency": "fraction", "fraction": "fraction", "copy": "ratio"}
    return {
        name: show(value, kinds.get(name.rpartition(".")[2], "seconds"), 4) for name, value in fit.constants.items()
    }


def _row(constants: Mapping[str, float], protocol: str) -> dict[str, float]:
    head = f"{protocol}."
    return {name.removeprefix(head): x for name, x in constants.items() if name.startswith(head)}


def _search(
    start: Mapping[str, float],
    machine: Callable[[Mapping[str, float]], Machine],
    measured: Measurements,
    limit: float | None,
) -> Fit:
    """Constants that minimise a rounded mean |log(predicted / measured)|: least squares, then a simplex."""
    from scipy.optimize import least_squares, minimize

    names = list(start)
    shares = [name.endswith(("efficiency", "fraction")) for name in names]

    def constants(x: Array) -> dict[str, float]:
        values = np.where(shares, np.minimum(np.exp(x), 1.0), np.exp(x))
        return dict(zip(names, values.tolist(), strict=True))

    def residuals(x: Array) -> Array:
        error: Array = np.log(predict(machine(constants(x)), measured) / measured.time)
        return error

    def loss(x: Array) -> float:
        return float(np.sqrt(residuals(x) ** 2 + 0.02**2).mean())

    begin = np.log(list(start.values()))
    rough = least_squares(residuals, begin, loss="soft_l1", f_scale=0.05, max_nfev=60).x
    fine = minimize(loss, rough, method="Nelder-Mead", options={"maxfev": 2500, "adaptive": True}).x
    found = constants(np.asarray(fine))
    return Fit(found, limit, predict(machine(found), measured) / measured.time - 1)
