"""Fits the constants of fabrics to measured collectives (tables and logs such as nccl-tests gives).

One set of constants serves all-reduce, all-gather, reduce-scatter and all-to-all at every number of GPUs. For
a switch: an efficiency, a latency per step and per peer, the rate of local copies, and start-ups, latencies and
bandwidth shares of protocols: 13 numbers for A100, 15 for H100, of which 2 are those of reduction in the switch, and
one common to both (`FIRST_ROUND`). What is fitted is the law that is used: residuals come from `collectives.estimate`
itself. Which protocol the library takes, how many channels, and how much a channel passes on at once is not fitted:
those are the library's own figures (`TUNER`, `CHANNELS`, `LINE`, `CHUNK`). `transferred` gives the constants of
another generation of GPU, by the speed of its links and its clock.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
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

LL128_FRACTION = 0.92
"""Share of the ring's rate that LL128 reaches: 120 of 128 bytes are data, and NCCL's tuner takes 0.92."""

TUNER = {"ll": (6.6e-6, 0.6e-6, 0.3), "ll128": (14e-6, 1.9e-6, 0.736), "simple": (8.4e-6, 3.4e-6, 0.8)}
"""What NCCL 2.30's tuner (src/graph/tuning.cc) expects of a ring over NVLink: start-up, step, share of the line rate.
LL: 87.7 GB/s of 300 on Ampere, 141 of 450 on Hopper; the others by the search speed, 240 of 300 and 360 of 450."""

CHANNELS = 24
"""Rings of NCCL on an NVSwitch node (12 found, each used twice: the log of NCCL issue 1367)."""

LINE = 4096.0
"""Bytes that one channel of its low-latency protocol passes on in a round: 512 threads, 8 bytes each (src/enqueue.cc:
a ring takes one channel for every 512 x 8 bytes of a block)."""

CHUNK = CHANNELS * 2.0 * 2**20
"""Most of a block that its simple protocol passes on at once: 4 of 8 steps of a 4 MiB buffer on every channel."""

FIRST_ROUND = 0.4
"""Share of a round that the first one adds to the latency of a step: the best tenth on A100 and H100 together."""

SWITCH_START = {
    "efficiency": 0.8,
    "latency": 0.85e-6,
    "direct_latency": 0.3e-6,
    "copy": 2.7,
    "ll.base": 6e-6,
    "ll.fraction": 0.62,
    "ll.gather_round": 0.33,
    "ll.widening": 1e-6,
    "simple.base": 18e-6,
    "simple.direct_base": 11e-6,
    "simple.step_latency": 3e-6,
    "simple.exposed": 0.36,
    "simple.direct_fill": 7e-6,
    "in_network.base": 62e-6,
    "in_network.fraction": 0.82,
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

RAIL_DIRECT_START = {"direct_latency": 0.5e-6, "direct_fraction": 0.9, "simple.direct_base": 130e-6}
"""Constants between nodes that only all-to-alls show."""

RAIL_LATENCY = 30e-6
"""One step over the network, where it cannot be told from start-up."""


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
    """Fitted constants by name, and predicted / measured - 1 on what they were fitted on."""

    constants: Mapping[str, float]
    errors: Array

    @property
    def mean_absolute_error(self) -> float:
        return float(np.abs(self.errors).mean())


def fit_switch(
    measured: Measurements,
    bandwidth: float,
    *,
    without: tuple[str, ...] = (),
    start: Mapping[str, float] = SWITCH_START,
    tuner_ll: float = TUNER["ll"][2],
    evaluations: int = 3000,
) -> Fit:
    """A switch fabric's constants from collectives inside a node; `switch` turns them into a fabric.

    `bandwidth`: line rate of one GPU in B/s, per direction. `without`: constants, or whole protocols,
    that this fabric does not have: "in_network" where the switch does not reduce.
    `tuner_ll`: share of the line rate that the library expects of its low-latency protocol.
    """
    begin = {name: x for name, x in start.items() if not (without and name.startswith(without))}

    def machine(constants: Mapping[str, float]) -> Machine:
        return in_node(switch(constants, bandwidth, tuner_ll))

    return search(begin, machine, measured, evaluations)


def leave_sizes_out(
    measured: Measurements, fitted: Fit, machine: Callable[[Mapping[str, float]], Machine], evaluations: int = 700
) -> Array:
    """predicted / measured - 1 of every row by constants fitted without the rows of its size (rows,)."""
    errors = np.empty_like(measured.time)
    for size in np.unique(measured.size):
        out = measured.size == size
        found = search(fitted.constants, machine, measured.where(~out), evaluations)
        alone = measured.where(out)
        errors[out] = predict(machine(found.constants), alone) / alone.time - 1
    return errors


def fit_rail_clos(measured: Measurements, scale_up: Switch, nic: Nic, *, gpus: int, latency: float) -> Fit:
    """A scale-out fabric's constants from collectives over whole nodes of `gpus` GPUs with a known node
    fabric.

    `latency` (seconds per step) is given, not fitted: with few node counts it cannot be told from start-up.
    """

    def machine(constants: Mapping[str, float]) -> Machine:
        return in_nodes(scale_up, rail_clos(constants, latency), nic, gpus)

    return search(rail_start(measured), machine, measured, 2500)


def in_node(scale_up: Switch) -> Machine:
    """Machines of one node."""
    return cache(lambda ranks: build_topology(scale_up, ranks_per_node=ranks))


def in_nodes(scale_up: Switch, scale_out: RailClos, nic: Nic, gpus: int) -> Machine:
    """Machines of whole nodes of `gpus` GPUs."""
    return lambda ranks: build_topology(
        scale_up, ranks_per_node=gpus, nodes=ranks // gpus, nic=nic, scale_out=scale_out
    )


def switch(constants: Mapping[str, float], bandwidth: float, tuner_ll: float = TUNER["ll"][2]) -> Switch:
    """The node fabric that named constants describe."""
    return Switch.model_validate({"bandwidth": bandwidth, **switch_block(constants, bandwidth, tuner_ll)})


def switch_block(constants: Mapping[str, float], bandwidth: float, tuner_ll: float) -> dict[str, Any]:
    """The fields of a node fabric, but for its name and line rate, as named constants give them.

    A small all-to-all starts as a ring does and takes two steps, to the peer and its answer; one of them is that of any
    exchange. LL128 and Simple start alike, and their steps are to each other as in NCCL's tuner.
    """
    c = constants
    expected = {name: dict(zip(("base", "step_latency", "fraction"), row, strict=True)) for name, row in TUNER.items()}
    expected["ll"]["fraction"] = tuner_ll
    rounds = {"line": LINE, "channels": CHANNELS, "first_round": FIRST_ROUND}
    ll = {**_row(c, "ll"), **rounds, "direct_base": c["ll.base"] + c["latency"], "direct_limit": DIRECT_LIMIT}
    steps = TUNER["ll128"][1] / TUNER["simple"][1]
    ll128 = {
        "base": c["simple.base"],
        "step_latency": c["simple.step_latency"] * steps,
        "fraction": LL128_FRACTION,
    }
    block: dict[str, Any] = {
        **{name: c[name] for name in ("efficiency", "latency", "direct_latency")},
        "copy_bandwidth": c["copy"] * bandwidth,
        "protocols": {
            "ll": {**ll, "tuner": expected["ll"]},
            "ll128": {**ll128, "tuner": expected["ll128"]},
            "simple": {**_row(c, "simple"), "chunk": CHUNK, "tuner": expected["simple"]},
        },
    }
    if "in_network.base" in c:
        block["in_network"] = _row(c, "in_network")
    return block


def transferred(constants: Mapping[str, float], clock: float) -> dict[str, float]:
    """A switch fabric's constants on another generation: `clock` is its GPU's over that of the generation
    measured. Its line rate is given where the constants are turned into a fabric.

    What bytes take goes with the links: shares of them (`efficiency`, fractions, rounds, chunks, `copy` in units of the
    link) stay. What instructions take, start-ups and latencies, goes with the clock. Reduction in the switch is not
    transferred from a generation that lacks it: it is a property of the switch, not a constant.
    """
    found = dict(constants)
    for name in found:
        field = name.rpartition(".")[2]
        if field.endswith(("base", "latency", "fill")) or field == "widening":
            found[name] /= clock
    return found


def rail_start(measured: Measurements) -> dict[str, float]:
    """Where the search between nodes begins: constants that these collectives show. All-to-alls alone do not tell the
    share of their own (`direct_fraction`) from `efficiency`."""
    kinds = set(measured.kind)
    if kinds == {"all_to_all"}:
        alone = {name: x for name, x in RAIL_DIRECT_START.items() if name != "direct_fraction"}
        return {"efficiency": RAIL_START["efficiency"], "fill": RAIL_START["fill"], **alone}
    return {**RAIL_START, **(RAIL_DIRECT_START if "all_to_all" in kinds else {})}


def rail_clos(constants: Mapping[str, float], latency: float) -> RailClos:
    """The scale-out fabric that named constants describe."""
    return RailClos.model_validate(rail_block(constants, latency))


def rail_block(constants: Mapping[str, float], latency: float) -> dict[str, Any]:
    """Its fields."""
    c = {**RAIL_START, **constants}
    rows = {name: _row(c, name) for name in ("ll_narrow", "ll", "simple")}
    rows["simple"] = {"direct_base": c["simple.base"], **rows["simple"], "fill": c["fill"]}
    own: dict[str, Any] = {name: c[name] for name in ("direct_latency", "direct_fraction") if name in c}
    return {"efficiency": c["efficiency"], "latency": latency, **own, "counts_tree_bytes": True, "protocols": rows}


def summary(fit: Fit) -> dict[str, str]:
    """The constants as a design file spells them, four digits."""
    kinds = {
        "efficiency": "fraction",
        "fraction": "fraction",
        "exposed": "fraction",
        "copy": "ratio",
        "gather_round": "ratio",
    }
    return {
        name: show(value, kinds.get(name.rpartition(".")[2], "seconds"), 4) for name, value in fit.constants.items()
    }


def _row(constants: Mapping[str, float], protocol: str) -> dict[str, float]:
    head = f"{protocol}."
    return {name.removeprefix(head): x for name, x in constants.items() if name.startswith(head)}


def search(
    start: Mapping[str, float],
    machine: Callable[[Mapping[str, float]], Machine],
    measured: Measurements,
    evaluations: int,
) -> Fit:
    """Constants that minimise a rounded mean |log(predicted / measured)|: least squares, then a simplex."""
    from scipy.optimize import least_squares, minimize

    names = list(start)
    shares = [name.endswith(("efficiency", "fraction", "exposed")) for name in names]

    def constants(x: Array) -> dict[str, float]:
        values = np.where(shares, np.minimum(np.exp(x), 1.0), np.minimum(np.exp(x), 1e3))
        return dict(zip(names, values.tolist(), strict=True))

    def residuals(x: Array) -> Array:
        error: Array = np.log(predict(machine(constants(x)), measured) / measured.time)
        return error

    def loss(x: Array) -> float:
        return float(np.sqrt(residuals(x) ** 2 + 0.02**2).mean())

    begin = np.log(list(start.values()))
    rough = least_squares(residuals, begin, loss="soft_l1", f_scale=0.05, max_nfev=60).x
    fine = minimize(loss, rough, method="Nelder-Mead", options={"maxfev": evaluations, "adaptive": True}).x
    found = constants(np.asarray(fine))
    return Fit(found, predict(machine(found), measured) / measured.time - 1)
