"""`estimate`: the time of a collective of equal or unequal blocks, by named or automatic algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from archmodel.collectives.kinds import (
    LIBRARY,
    CollectiveError,
    Fidelity,
    check_algorithm,
    check_fidelity,
    check_kind,
)
from archmodel.collectives.pricing import Names, Price, choose, either, price
from archmodel.collectives.result import BUS_FACTOR, CollectiveResult
from archmodel.collectives.schedule import Schedule, even, uneven
from archmodel.network.dimension import DimensionName
from archmodel.network.topology import Topology
from archmodel.quantities import Array, Num


def estimate(
    topology: Topology,
    kind: str,
    algorithm: str = "auto",
    *,
    per_rank_input_bytes: Num | None = None,
    blocks: Array | None = None,
    group: str = "world",
    fidelity: Fidelity = "protocol",
) -> CollectiveResult:
    """Time, bytes and bound of a collective that every group of the partition runs at once.

    `per_rank_input_bytes`: what each rank brings. all_reduce and reduce_scatter: the whole buffer;
    all_gather: its own shard; all_to_all: its whole send buffer, the part for itself included. Any shape;
    equal on all ranks. Or `blocks` (..., ranks): the bytes of the block each rank owns, when they differ (not
    for all_to_all: see `all_to_all_v`); the result then ends in an axis of 1. Topology fields may be arrays
    of shape (points, 1).

    `algorithm`: ring, tree, direct, hierarchical, in_network, or auto: the fastest of those NCCL has for the
    kind. `group`: world, node or rail. `fidelity`: "protocol" uses the fabric's protocol table where it has
    one; "alpha_beta" is steps times latency plus bytes over achieved bandwidth.

    Nothing to move, or nobody to move it to, takes no time. Never faster than bytes over line rate in any
    dimension. Raises `CollectiveError` for names, sizes and algorithms that do not serve.
    """
    check_kind(kind)
    check_fidelity(fidelity)
    inner, outer = topology.extent(group)
    ranks = inner * outer
    request = _request(topology, kind, per_rank_input_bytes, blocks, group)
    options = [
        _option(topology, kind, name, request, (inner, outer), fidelity)
        for name in _candidates(topology, kind, algorithm, outer)
    ]
    best = options[0]
    for option in options[1:]:
        best = _faster(best, option)
    moving = np.greater(request.full_bytes, 0)
    parts = {
        name: _only(moving, part)
        for name, part in (
            ("latency", best.price.latency),
            ("bandwidth", best.price.bandwidth),
            ("copy", best.price.copy),
        )
    }
    time = parts["latency"] + parts["bandwidth"] + parts["copy"]
    return CollectiveResult(
        kind=kind,
        group=group,
        ranks=ranks,
        algorithm=best.algorithm,
        protocol=best.price.protocol,
        time=time,
        parts=parts,
        steps=best.steps,
        wire_bytes=best.sent,
        bus_bandwidth=bus_bandwidth(kind, ranks, request.full_bytes, time),
        bound=best.price.bound,
    )


def bus_bandwidth(kind: str, ranks: int, full_bytes: Num, time: Num) -> Num:
    """factor (n - 1)/n S / time in B/s; 0 where nothing took time."""
    moved = BUS_FACTOR[kind] * (ranks - 1) / ranks * full_bytes
    moved, time = np.broadcast_arrays(moved, time)
    return _plain(np.divide(moved, time, out=np.zeros(moved.shape), where=time > 0))


@dataclass(frozen=True, slots=True)
class _Request:
    """Equal blocks: the full buffer's bytes. Unequal: the blocks too, and the bytes of the largest group."""

    full_bytes: Num
    blocks: Array | None
    local_size: int
    group: str

    def schedule(self, kind: str, algorithm: str, inner: int, outer: int) -> Schedule:
        if self.blocks is None:
            return even(kind, algorithm, self.full_bytes, inner, outer)
        return uneven(kind, algorithm, self.blocks, self.local_size, self.group)


@dataclass(frozen=True, slots=True)
class _Option:
    """One algorithm, priced."""

    algorithm: str | Names
    price: Price
    sent: dict[DimensionName, Num]
    steps: dict[DimensionName, Num]


def _request(topology: Topology, kind: str, input_bytes: Num | None, blocks: Array | None, group: str) -> _Request:
    inner, outer = topology.extent(group)
    if (input_bytes is None) == (blocks is None):
        raise CollectiveError("give either per_rank_input_bytes or blocks")
    if blocks is None:
        given = _checked(input_bytes)
        full = given * (inner * outer) if kind == "all_gather" else given
        return _Request(full, None, topology.local_size, group)
    if kind == "all_to_all":
        raise CollectiveError("an uneven all_to_all has messages, not blocks; price it with all_to_all_v")
    owned = np.asarray(_checked(blocks), dtype=np.float64)
    if owned.ndim == 0 or owned.shape[-1] != topology.ranks:
        raise CollectiveError(f"blocks of shape {owned.shape} do not end in {topology.ranks} ranks")
    from archmodel.collectives.volume import partition

    totals = partition(owned, topology.local_size, group).sum(axis=(-2, -1)).max(axis=-1, keepdims=True)
    return _Request(totals, owned, topology.local_size, group)


def _candidates(topology: Topology, kind: str, algorithm: str, nodes: int) -> list[str]:
    if algorithm != "auto":
        check_algorithm(kind, algorithm)
        return [algorithm]
    in_network = nodes == 1 and topology.scale_up.in_network is not None
    tree = nodes > 1
    usable = {"in_network": in_network, "tree": tree}
    return [name for name in LIBRARY[kind] if usable.get(name, True)]


def _option(
    topology: Topology,
    kind: str,
    algorithm: str,
    request: _Request,
    extent: tuple[int, int],
    fidelity: Fidelity,
) -> _Option:
    schedule = request.schedule(kind, algorithm, *extent)
    priced = price(topology, _charged(topology, schedule, fidelity), fidelity)
    sent: dict[DimensionName, Num] = {"scale_up": 0.0, "scale_out": 0.0, **schedule.sent}
    steps: dict[DimensionName, Num] = {"scale_up": 0, "scale_out": 0, **schedule.steps}
    return _Option(algorithm, priced, sent, steps)


def _charged(topology: Topology, schedule: Schedule, fidelity: Fidelity) -> Schedule:
    """NCCL takes any tree to send the buffer twice between nodes; over two or three nodes it sends less. Unless the
    fabric's library is known to count that (`counts_tree_bytes`), the tree is priced as NCCL chooses: for twice."""
    outer = topology.scale_out
    if schedule.family != "tree" or fidelity == "alpha_beta" or outer is None or "scale_out" not in schedule.sent:
        return schedule
    if outer.counts_tree_bytes:
        return schedule
    twice = 2 * schedule.message * outer.size  # the message is S / ranks, and a rail carries S / local_size
    crossing = np.maximum(twice, schedule.sent["scale_out"])
    return replace(schedule, sent={**schedule.sent, "scale_out": crossing})


def _faster(a: _Option, b: _Option) -> _Option:
    """The cheaper of two algorithms, element by element."""
    a_wins = np.less_equal(a.price.total, b.price.total)
    if a_wins.all():
        return a
    if not a_wins.any():
        return b
    return _Option(
        algorithm=either(a_wins, a.algorithm, b.algorithm),
        price=choose(a_wins, a.price, b.price),
        sent={name: np.where(a_wins, a.sent[name], b.sent[name]) for name in a.sent},
        steps={name: np.where(a_wins, a.steps[name], b.steps[name]) for name in a.steps},
    )


def _only(moving: object, part: Num) -> Num:
    return _plain(np.where(np.asarray(moving), part, 0.0))


def _plain(value: Array) -> Num:
    """A 0-d array as a float."""
    return value if value.ndim else float(value)


def _checked(value: Num | None) -> Num:
    """Bytes must be finite and not negative."""
    amount = np.asarray(value, dtype=np.float64)
    if amount.size and not (np.isfinite(amount).all() and (amount >= 0).all()):
        raise CollectiveError("bytes must be finite and 0 or more")
    return _plain(amount)
