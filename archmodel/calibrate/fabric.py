"""From logs of nccl-tests to a fabric: what to fit, the block to write, and how well it predicts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archmodel import catalogue
from archmodel.calibrate import network
from archmodel.calibrate.nccl_tests import Log, read_logs
from archmodel.calibrate.network import CalibrationError, Machine, Measurements
from archmodel.errors import suggestion
from archmodel.network import SCALE_UP, Nic, Switch
from archmodel.quantities import Array, parse, show
from archmodel.source import read, strip, validate

DEVICES = {
    r"A100": "nvswitch_a100",
    r"H100|H200|H800|H20\b": "nvswitch_h100",
    r"B200|B300|GB200": "nvswitch_b200",
    r"V100": "nvswitch_v100_dgx2",
}
"""Node fabrics of the catalogue by the device names that logs print."""

DIRECT = ("direct_latency", "simple.direct_base", "simple.direct_fill")
"""Constants that only all-to-alls show."""
RINGS = ("ll.widening", "simple.base", "simple.step_latency", "simple.exposed")
"""Constants that the other three show."""
LEAST_ROWS = 4
"""Rows that a fit needs at least."""


@dataclass(frozen=True, slots=True)
class Residual:
    """One row: what ran, bytes, seconds measured and predicted."""

    kind: str
    ranks: int
    size: float
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class FabricCalibration:
    """A fabric with fitted constants: as fields (`block`), and held against the rows it was fitted on."""

    name: str
    block: Mapping[str, Any]
    constants: Mapping[str, float]
    kept: tuple[str, ...]
    fitted_on: str
    rows: tuple[Residual, ...]

    @property
    def error(self) -> float:
        """Mean absolute relative error over all rows."""
        return float(np.mean([abs(row.error) for row in self.rows]))

    def yaml(self) -> str:
        """A fabric file."""
        lines = [f"name: {json.dumps(self.name)}", f"source: {json.dumps(self.fitted_on)}", "status: fitted"]
        lines += [f"fitted_on: {json.dumps(self.fitted_on)}"]
        return "\n".join(lines + _yaml(self.block)) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Everything in SI units, for JSON."""
        return {
            "name": self.name,
            "fitted_on": self.fitted_on,
            "constants": dict(self.constants),
            "not_fitted": list(self.kept),
            "mean_absolute_error": self.error,
            "rows": [
                {
                    "kind": row.kind,
                    "ranks": row.ranks,
                    "size_bytes": row.size,
                    "measured_seconds": row.measured,
                    "predicted_seconds": row.predicted,
                    "error": row.error,
                }
                for row in self.rows
            ],
        }


def calibrate_network(
    paths: Sequence[str | Path],
    *,
    fabric: str | None = None,
    bandwidth: str | None = None,
    nic: str | None = None,
    interfaces: int | None = None,
    in_place: bool = False,
    evaluations: int = 3000,
) -> FabricCalibration:
    """Constants of the node's fabric from logs of one node, or of the network between nodes from logs of several.

    `fabric`: a fabric file, or a name of the catalogue, that the search starts from and that tells what the logs do not
    (default: by the device that they name). `bandwidth` of all links of one device, per direction, where it differs.
    Over several nodes `nic` is the rate of one interface and `interfaces` their number on a node (default: one per
    device). Raises `CalibrationError` for logs that cannot be used.
    """
    measured, logs = read_logs(paths, in_place=in_place)
    if len(measured.kind) < LEAST_ROWS:
        raise CalibrationError(f"{len(measured.kind)} rows are too few to fit; {LEAST_ROWS} are needed at least")
    node = _node(fabric, bandwidth, logs)
    spans = {log.nodes for log in logs}
    if spans == {1}:
        return _in_node(measured, logs, node, in_place, evaluations)
    if 1 in spans:
        raise CalibrationError(
            "some logs are of one node and some of several; calibrate the node first, then between nodes"
        )
    return _between_nodes(measured, logs, node, (nic, interfaces), in_place, evaluations)


def _in_node(
    measured: Measurements, logs: Sequence[Log], node: Switch, in_place: bool, evaluations: int
) -> FabricCalibration:
    bandwidth, tuner_ll = float(np.max(node.bandwidth)), _tuner_ll(node)
    start = constants_of(node)
    shown = _shown(measured, start)
    free = {name: value for name, value in start.items() if name in shown}
    kept = {name: value for name, value in start.items() if name not in shown}

    def machine(constants: Mapping[str, float]) -> Machine:
        return network.in_node(network.switch({**kept, **constants}, bandwidth, tuner_ll))

    fit = network.search(free, machine, measured, evaluations)
    constants = {**start, **fit.constants}
    block = {
        "kind": "switch",
        "gpus": node.gpus,
        "bandwidth": bandwidth,
        "tree_fraction": float(np.max(node.tree_fraction)),
        **network.switch_block(constants, bandwidth, tuner_ll),
    }
    return _result(f"{_device(logs)} node", block, constants, tuple(kept), measured, logs, fit.errors, in_place)


def _between_nodes(
    measured: Measurements,
    logs: Sequence[Log],
    node: Switch,
    interfaces: tuple[str | None, int | None],
    in_place: bool,
    evaluations: int,
) -> FabricCalibration:
    rate, count = interfaces
    if rate is None:
        raise CalibrationError('these logs cross nodes; say what one interface carries: --nic "200 Gbit/s"')
    gpus = {log.size() // log.nodes for log in logs}
    if len(gpus) > 1:
        raise CalibrationError(
            f"the logs have {' and '.join(map(str, sorted(gpus)))} ranks on a node; fit each by itself"
        )
    per_node = gpus.pop()
    nic = Nic.model_validate({"bandwidth": parse(rate, "bandwidth"), "per_node": count})
    latency = float(network.RAIL_LATENCY)

    def machine(constants: Mapping[str, float]) -> Machine:
        return network.in_nodes(node, network.rail_clos(constants, latency), nic, per_node)

    start = network.rail_start(measured)
    kept = ("latency", *(name for name in network.RAIL_START if name not in start))
    fit = network.search(start, machine, measured, evaluations)
    block = network.rail_block(fit.constants, latency)
    name = f"network between {_device(logs)} nodes"
    return _result(name, {"kind": "rail_clos", **block}, fit.constants, kept, measured, logs, fit.errors, in_place)


def _result(
    name: str,
    block: Mapping[str, Any],
    constants: Mapping[str, float],
    kept: tuple[str, ...],
    measured: Measurements,
    logs: Sequence[Log],
    errors: Array,
    in_place: bool,
) -> FabricCalibration:
    predicted = measured.time * (1 + errors)
    rows = tuple(
        Residual(*row)
        for row in zip(
            measured.kind,
            measured.ranks.tolist(),
            measured.size.tolist(),
            measured.time.tolist(),
            predicted.tolist(),
            strict=True,
        )
    )
    kinds = ", ".join(dict.fromkeys(measured.kind))
    counts = "/".join(map(str, np.unique(measured.ranks)))
    sizes = f"{show(float(measured.size.min()), 'bytes')} to {show(float(measured.size.max()), 'bytes')}"
    files = ", ".join(Path(log.path).name for log in logs)
    place = "in place" if in_place else "out of place"
    fitted_on = f"{_device(logs)}, {kinds}, {counts} ranks, {sizes}, {place}; {len(rows)} rows of {files}"
    fitted_on += f"; mean absolute error {100 * float(np.abs(errors).mean()):.1f} %"
    if kept:
        fitted_on += f"; not shown by these rows and kept: {', '.join(kept)}"
    return FabricCalibration(name, block, constants, kept, fitted_on, rows)


def constants_of(node: Switch) -> dict[str, float]:
    """The named constants of a fabric as the search knows them; those that it lacks begin where the search does."""
    node = node.clocked()
    rows, start = node.protocols, network.SWITCH_START

    def of(protocol: str, field: str) -> float:
        value = getattr(rows[protocol], field, None) if protocol in rows else None
        return float(np.max(value)) if value else start[f"{protocol}.{field}"]

    found = {name: float(np.max(getattr(node, name))) for name in ("efficiency", "latency", "direct_latency")}
    copy = node.copy_bandwidth
    found["copy"] = start["copy"] if copy is None else float(np.max(copy / np.asarray(node.bandwidth)))
    for name in start:
        protocol, dot, field = name.partition(".")
        if dot and protocol != "in_network":
            found[name] = of(protocol, field)
    if node.in_network is not None:
        found["in_network.base"] = float(np.max(node.in_network.base or start["in_network.base"]))
        found["in_network.fraction"] = float(np.max(node.in_network.fraction))
    return found


def _shown(measured: Measurements, start: Mapping[str, float]) -> set[str]:
    """Constants that these collectives depend on."""
    kinds = set(measured.kind)
    shown = {"copy", "efficiency", "latency", "ll.base", "ll.fraction"}
    if "all_to_all" in kinds:
        shown |= set(DIRECT)
    if kinds - {"all_to_all"}:
        shown |= set(RINGS)
    if kinds & {"all_gather", "all_reduce"}:
        shown.add("ll.gather_round")
    if "all_reduce" in kinds:
        shown |= {"in_network.base", "in_network.fraction"}
    return shown & set(start)


def _tuner_ll(node: Switch) -> float:
    row = node.protocols.get("ll")
    return network.TUNER["ll"][2] if row is None or row.tuner is None else float(np.max(row.tuner.fraction))


def _node(fabric: str | None, bandwidth: str | None, logs: Sequence[Log]) -> Switch:
    """The fabric to start from. Raises `CalibrationError`."""
    if fabric is None:
        device = next((log.device for log in logs if log.device), "")
        fabric = next((name for pattern, name in DEVICES.items() if re.search(pattern, device)), None)
        if fabric is None:
            what = f"the device {device!r}" if device else "no device"
            raise CalibrationError(f"the logs name {what}; say which fabric to start from: --fabric nvswitch_h100")
    path = Path(fabric)
    shelf = catalogue.directory()
    if not path.exists():
        path = shelf / "fabrics" / f"{fabric}.yaml"
    if not path.exists():
        names = [file.stem for file in sorted((shelf / "fabrics").glob("*.yaml"))]
        raise CalibrationError(f"no fabric is called {fabric!r}; {suggestion(fabric, names)}")
    tree = strip(read(path, catalogue=shelf))
    if tree.get("kind") != "switch":
        raise CalibrationError(f"{fabric} is of kind {tree.get('kind')}; constants of switch fabrics can be fitted")
    if bandwidth is not None:
        wide = parse(bandwidth, "bandwidth")
        old = validate(SCALE_UP.resolve("switch"), tree)
        assert isinstance(old, Switch)
        copy = old.copy_bandwidth
        scaled = None if copy is None else copy * wide / old.bandwidth
        return old.model_copy(update={"bandwidth": wide, "copy_bandwidth": scaled})
    found = validate(SCALE_UP.resolve("switch"), tree)
    assert isinstance(found, Switch)
    return found


def _device(logs: Sequence[Log]) -> str:
    return next((log.device for log in logs if log.device), "unnamed device")


_UNITS = {
    "bandwidth": "bandwidth",
    "copy_bandwidth": "bandwidth",
    "efficiency": "fraction",
    "fraction": "fraction",
    "peer_fraction": "fraction",
    "exposed": "fraction",
    "first_round": "fraction",
    "gather_round": "ratio",
    "chunk": "bytes",
    "line": "bytes",
    "tree_fraction": "fraction",
    "direct_fraction": "fraction",
}


def _yaml(block: Mapping[str, Any], indent: str = "") -> list[str]:
    """Fields with units, nested ones indented; nothing for those that are absent."""
    lines = []
    for name, value in block.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_yaml(value, indent + "  ")]
        elif name in ("direct_limit", "line", "chunk"):
            lines.append(f"{indent}{name}: {value:.0f} B")
        elif isinstance(value, bool | int | str):
            lines.append(f"{indent}{name}: {str(value).lower() if isinstance(value, bool) else value}")
        elif value is not None:
            lines.append(f"{indent}{name}: {show(float(value), _UNITS.get(name, 'seconds'), 4)}")
    return lines
