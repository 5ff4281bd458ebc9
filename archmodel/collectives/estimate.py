"""`estimate`: the time of a collective of equal or unequal blocks, by named or automatic algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from archmodel.collectives import flows, schedule
from archmodel.collectives.groups import Group, Placement, placements
from archmodel.collectives.kinds import (
    LIBRARY,
    CollectiveError,
    Fidelity,
    check_algorithm,
    check_fidelity,
    check_kind,
    switch_saves,
)
from archmodel.collectives.levels import levels_of, spanned_by
from archmodel.collectives.pipeline import Chunks, Phase, Pipelined, check_chunks, optimal, pipelined
from archmodel.collectives.pricing import Names, Price, choose, either, price
from archmodel.collectives.result import CollectiveResult, bus_bandwidth
from archmodel.collectives.schedule import Schedule
from archmodel.collectives.volume import partition
from archmodel.errors import QuantityError, suggestion
from archmodel.network.dimension import Dimension, DimensionName
from archmodel.network.topology import GROUPS, Topology
from archmodel.quantities import DTYPES, Array, Num, itemsize, to_si


def estimate(
    topology: Topology,
    kind: str,
    algorithm: str = "auto",
    *,
    per_rank_input_bytes: Num | str | Sequence[float] | None = None,
    blocks: Array | None = None,
    pair_bytes: Array | None = None,
    group: Group = "world",
    fidelity: Fidelity = "protocol",
    chunks: Chunks = None,
    dtype: str = "fp32",
    wire_dtype: str | None = None,
) -> CollectiveResult:
    """Time, bytes and bound of a collective that every group of the partition runs at once.

    `kind`: all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, reduce, gather, scatter, point_to_point.

    `per_rank_input_bytes`: what each rank brings. all_reduce, reduce and reduce_scatter: the whole buffer; all_gather
    and gather: its own shard; all_to_all: its whole send buffer, the part for itself included; broadcast, scatter and
    point_to_point: the whole buffer of the rank that has one. Any shape; equal on all ranks. Or `blocks` (..., ranks):
    the bytes of the block each rank owns, when they differ; the result then ends in an axis of 1. Or, for an
    all_to_all, `pair_bytes` (n, n): what the i-th rank of the group, by number, has for the j-th (for large machines:
    `all_to_all_v`). Topology
    fields may be arrays of shape (points, 1).

    `algorithm`: ring, bidirectional_ring, tree (rings in a node, two trees between nodes), double_binary_tree (over all
    ranks), halving_doubling, direct, hierarchical, in_network, or auto: the fastest of those NCCL has for the kind.

    `group`: world, node or rail, or dimensions of the topology joined by +; or a list of ranks, or several disjoint
    lists that act at once. The first rank of a list is the root of a rooted kind, or the source of point_to_point.

    `fidelity`: "protocol" uses the fabric's protocol table where it has one; "alpha_beta" is steps times latency plus
    bytes over achieved bandwidth; "link_load" puts every message on its links.

    `chunks`: pieces of a hierarchical collective that go through the dimensions one behind the other
    (`archmodel.collectives.pipeline`), a number or "auto" for the fastest number; of other algorithms, pieces sent one
    after the other. None: the library pipelines as it likes, and only the slowest dimension is seen.

    `dtype` is the buffer's element type, `wire_dtype` that of what travels, when it is another.

    Nothing to move, or nobody to move it to, takes no time. Never faster than bytes over line rate in any
    dimension. Raises `CollectiveError` for names, sizes and algorithms that do not serve.
    """
    check_kind(kind)
    check_fidelity(fidelity)
    check_chunks(chunks)
    groups = placements(topology, group)
    scale = _wire_scale(dtype, wire_dtype)
    if pair_bytes is not None:
        return _pairs(topology, kind, algorithm, pair_bytes, groups, fidelity, scale)
    request = _request(topology, kind, per_rank_input_bytes, blocks, groups, scale)
    if fidelity == "link_load":
        if request.blocks is not None and np.ptp(request.blocks, axis=-1).any():
            raise CollectiveError("link_load prices equal blocks; unequal ones take fidelity protocol or alpha_beta")
        from archmodel.collectives.link_load import price_link_load

        return price_link_load(topology, kind, algorithm, request.full_bytes, groups, chunks)
    distinct = _distinct(groups, topology)
    results = [_one(topology, kind, algorithm, request, one, fidelity, chunks) for one in distinct]
    slowest = results[0]
    for other in results[1:]:
        slowest = other if np.all(np.greater(other.time, slowest.time)) else slowest
    return slowest if len(groups) == 1 else replace(slowest, group=f"{len(groups)} groups, such as {slowest.group}")


@dataclass(frozen=True, slots=True)
class _Request:
    """Equal blocks: the full buffer's bytes. Unequal: the blocks too, and the bytes of the largest group."""

    full_bytes: Num
    blocks: Array | None
    local_size: int

    def schedule(self, kind: str, algorithm: str, group: Placement) -> Schedule:
        if self.blocks is None:
            return schedule.for_group(kind, algorithm, self.full_bytes, group, self.local_size)
        return schedule.uneven(kind, algorithm, self.blocks, self.local_size, group.label)


@dataclass(frozen=True, slots=True)
class _Option:
    """One algorithm, priced."""

    algorithm: str | Names
    price: Price
    sent: dict[DimensionName, Num]
    steps: dict[DimensionName, Num]
    chunks: Num = 0


def _one(
    topology: Topology,
    kind: str,
    algorithm: str,
    request: _Request,
    group: Placement,
    fidelity: Fidelity,
    chunks: Chunks,
) -> CollectiveResult:
    options = [
        _option(topology, kind, name, request, group, fidelity, chunks)
        for name in _candidates(topology, kind, algorithm, group)
    ]
    best = options[0]
    for option in options[1:]:
        best = _faster(best, option)
    moving = np.greater(request.full_bytes, 0) & (group.size > 1)
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
        group=group.label,
        ranks=group.size,
        algorithm=best.algorithm,
        protocol=best.price.protocol,
        time=time,
        parts=parts,
        steps=best.steps,
        wire_bytes=best.sent,
        bus_bandwidth=bus_bandwidth(kind, group.size, request.full_bytes, time),
        bound=best.price.bound,
        chunks=best.chunks,
    )


def _distinct(groups: Sequence[Placement], topology: Topology) -> list[Placement]:
    """Groups that may take different times: one of each pattern of places (the same on other nodes costs the same)."""
    found: dict[bytes, Placement] = {}
    for group in groups:
        if group.members is None:
            return [group]
        start = int(group.members[0]) // topology.local_size * topology.local_size
        found.setdefault((group.members - start).tobytes() + group.first.to_bytes(8, "little"), group)
    return list(found.values())


def _wire_scale(dtype: str, wire_dtype: str | None) -> float:
    """Bytes that travel for each byte of the buffer."""
    for name in (dtype, dtype if wire_dtype is None else wire_dtype):
        if name not in DTYPES:
            raise CollectiveError(f"no element type is called {name!r}; {suggestion(name, DTYPES)}")
    return itemsize(dtype if wire_dtype is None else wire_dtype) / itemsize(dtype)


def _request(
    topology: Topology,
    kind: str,
    input_bytes: Num | str | Sequence[float] | None,
    blocks: Array | None,
    groups: Sequence[Placement],
    scale: float,
) -> _Request:
    if (input_bytes is None) == (blocks is None):
        raise CollectiveError("give either per_rank_input_bytes or blocks")
    if blocks is None:
        given = _checked(input_bytes) * scale
        full = given * groups[0].size if kind in ("all_gather", "gather") else given
        return _Request(full, None, topology.local_size)
    label = groups[0].label
    if kind == "all_to_all":
        raise CollectiveError("an uneven all_to_all has messages, not blocks; give pair_bytes, or use all_to_all_v")
    if kind not in ("all_reduce", "reduce_scatter", "all_gather"):
        raise CollectiveError(f"{kind} takes per_rank_input_bytes, not blocks")
    if label not in GROUPS:
        raise CollectiveError(f"blocks are laid out over groups {', '.join(GROUPS)}; give other groups equal blocks")
    owned = np.asarray(_checked(blocks), dtype=np.float64) * scale
    if owned.ndim == 0 or owned.shape[-1] != topology.ranks:
        raise CollectiveError(f"blocks of shape {owned.shape} do not end in {topology.ranks} ranks")
    totals = partition(owned, topology.local_size, label).sum(axis=(-2, -1)).max(axis=-1, keepdims=True)
    return _Request(totals, owned, topology.local_size)


def _candidates(topology: Topology, kind: str, algorithm: str, group: Placement) -> list[str]:
    if algorithm != "auto":
        check_algorithm(kind, algorithm)
        return [algorithm]
    row = topology.scale_up.in_network
    in_network = group.nodes == 1 and group.size > 1 and row is not None
    if in_network and row is not None:
        in_network = switch_saves(group.size, float(np.max(row.fraction))) > 0
    usable = {"in_network": in_network, "tree": group.nodes > 1}
    return [name for name in LIBRARY[kind] if usable.get(name, True)]


def _option(
    topology: Topology,
    kind: str,
    algorithm: str,
    request: _Request,
    group: Placement,
    fidelity: Fidelity,
    chunks: Chunks,
) -> _Option:
    plan = request.schedule(kind, algorithm, group)
    zero: dict[DimensionName, Num] = {"scale_up": 0.0, "scale_out": 0.0}
    sent, steps = {**zero, **plan.sent}, {**zero, **plan.steps}
    dimensions: Sequence[Dimension] = levels_of(topology, group)
    if algorithm == "hierarchical" and request.blocks is None and group.size > 1:
        crossed = spanned_by(topology, group)
        if any(d.name not in zero for d in crossed):
            plan, dimensions = schedule.over_dimensions(kind, request.full_bytes, crossed), crossed
            sent, steps = _with_levels(plan.sent, crossed), _with_levels(plan.steps, crossed)
        if chunks is not None:
            return _in_chunks(kind, request.full_bytes, crossed, fidelity, chunks, (sent, steps))
    if chunks is not None and algorithm == "hierarchical" and request.blocks is not None:
        raise CollectiveError("chunks are cut from equal blocks; give per_rank_input_bytes")
    priced = price(dimensions, _charged(topology, plan, fidelity), fidelity)
    if chunks in (None, "auto", 1):
        return _Option(algorithm, priced, sent, steps, 0 if chunks is None else 1)
    pieces = int(chunks)
    piece = _part(request, 1.0 / pieces).schedule(kind, algorithm, group)
    one = price(dimensions, _charged(topology, piece, fidelity), fidelity)
    all_of_them = replace(one, latency=one.latency * pieces, bandwidth=one.bandwidth * pieces, copy=one.copy * pieces)
    return _Option(algorithm, all_of_them, sent, steps, pieces)


def _part(request: _Request, share: float) -> _Request:
    """The same collective of a part of the buffer."""
    blocks = None if request.blocks is None else request.blocks * share
    return replace(request, full_bytes=request.full_bytes * share, blocks=blocks)


def _in_chunks(
    kind: str,
    full_bytes: Num,
    crossed: Sequence[Dimension],
    fidelity: Fidelity,
    chunks: Chunks,
    amounts: tuple[dict[DimensionName, Num], dict[DimensionName, Num]],
) -> _Option:
    """Each dimension's phases of a chunk priced by themselves, then joined by `pipeline`."""
    whole = schedule.over_dimensions(kind, full_bytes, crossed)

    def alone(d: Dimension, k: Num) -> Price:
        one = replace(whole, steps={d.name: whole.steps[d.name]}, sent={d.name: whole.sent[d.name] / k})
        return price([d], replace(one, message=whole.message / k, kept=0.0 * whole.kept), fidelity)

    def phases(k: Num) -> list[Phase]:
        prices = [alone(d, k) for d in crossed]
        return [Phase(p.latency, p.bandwidth) for p in prices]

    found: Pipelined = optimal(phases) if chunks == "auto" else pipelined(phases, float(chunks or 1))
    bound: str | Names = crossed[0].level
    for i, d in enumerate(crossed):
        bound = either(np.equal(found.busiest, i), d.level, bound)
    copies = price(crossed, whole, fidelity)
    priced = Price(found.latency, found.time - found.latency, copies.copy, copies.protocol, bound)
    return _Option("hierarchical", priced, *amounts, found.chunks)


def _with_levels(amounts: object, crossed: Sequence[Dimension]) -> dict[DimensionName, Num]:
    """Sums of each level, and what its dimensions add, by name."""
    by_name: dict[str, Num] = dict(amounts)  # type: ignore[call-overload]
    result: dict[DimensionName, Num] = {"scale_up": 0.0, "scale_out": 0.0}
    for d in crossed:
        result[d.level] = result[d.level] + by_name[d.name]
    return {**result, **by_name}


def _charged(topology: Topology, plan: Schedule, fidelity: Fidelity) -> Schedule:
    """NCCL takes any tree to send the buffer twice between nodes; over two or three nodes it sends less. Unless the
    fabric's library is known to count that (`counts_tree_bytes`), the tree is priced as NCCL chooses: for twice."""
    outer = topology.scale_out
    if plan.family != "tree" or fidelity == "alpha_beta" or outer is None or "scale_out" not in plan.sent:
        return plan
    if outer.counts_tree_bytes:
        return plan
    twice = 2 * plan.message * outer.size  # the message is S / ranks, and a rail carries S / local_size
    crossing = np.maximum(twice, plan.sent["scale_out"])
    return replace(plan, sent={**plan.sent, "scale_out": crossing})


def _pairs(
    topology: Topology,
    kind: str,
    algorithm: str,
    pair_bytes: Array,
    groups: Sequence[Placement],
    fidelity: Fidelity,
    scale: float,
) -> CollectiveResult:
    """An all-to-all of one group with a message of its own for every pair."""
    from archmodel.collectives.all_to_all import of_pairs

    if kind != "all_to_all":
        raise CollectiveError(f"{kind} has no messages for pairs; pair_bytes are for all_to_all")
    if len(groups) != 1 or (groups[0].members is None and groups[0].size != topology.ranks):
        raise CollectiveError("pair_bytes are those of one group: the world, or a list of ranks")
    wanted = (groups[0].size, groups[0].size)
    pairs = np.asarray(_checked(pair_bytes), dtype=np.float64) * scale
    if pairs.shape != wanted:
        raise CollectiveError(f"pair_bytes of shape {pairs.shape}; this group needs {wanted}")
    name = "direct" if algorithm == "auto" else algorithm
    check_algorithm(kind, name)
    if fidelity == "link_load":
        from archmodel.collectives.link_load_pairs import price_pairs

        return price_pairs(topology, groups, name, pairs)
    wires = flows.exchange_bytes(pairs, groups[0].node_of(topology.local_size), name)
    return of_pairs(topology, groups[0], name, pairs, wires, fidelity)


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
        chunks=a.chunks,
    )


def _only(moving: object, part: Num) -> Num:
    return _plain(np.where(np.asarray(moving), part, 0.0))


def _plain(value: Array) -> Num:
    """A 0-d array as a float."""
    return value if value.ndim else float(value)


def _checked(value: Num | str | Sequence[float] | None) -> Num:
    """Bytes, finite and not negative; "1 MiB" is read as in design files."""
    try:
        return to_si(value if isinstance(value, str) else np.asarray(value), "bytes")
    except QuantityError as error:
        raise CollectiveError(f"bytes of a collective: {error}") from None
