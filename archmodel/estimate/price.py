"""Seconds for each kind of work on a machine: one `@price.register` per kind.

A price is a `Breakdown` whose parts (launch, compute, memory, latency, scale_up, ...) sum to the time of the op on
every rank: arrays (..., ranks) or (..., 1), leading axes over design points.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from archmodel.components.breakdown import Breakdown
from archmodel.components.device import Device
from archmodel.components.endpoint import compute_alone
from archmodel.components.processor import Processor
from archmodel.errors import ArchmodelError
from archmodel.estimate.links import links_of_all_to_all, links_of_collective
from archmodel.estimate.machine import Machine
from archmodel.estimate.tiers import in_place, lookups, moving
from archmodel.program import (
    SECTOR,
    AllToAll,
    CacheProbe,
    Collective,
    Convolution,
    DotInteraction,
    Elementwise,
    EmbeddingLookup,
    EmbeddingScatterAdd,
    EmbeddingUpdate,
    Gemm,
    HostCopy,
    HostIssue,
    Products,
    RowMove,
    Work,
)
from archmodel.quantities import Array


@singledispatch
def price(work: Work, machine: Machine) -> Breakdown:
    """Time of `work` on every rank of `machine`, by part."""
    raise ArchmodelError(f"no price is registered for work of kind {type(work).__name__}")


def kernels_of(work: Work, device: Device) -> float:
    """Kernels that a framework issues for one op."""
    if isinstance(work, EmbeddingUpdate) and isinstance(device, Processor):
        return float(device.kernels.update_launches)
    return float(work.steps if isinstance(work, Products) else getattr(work, "kernels", 1))


def _launched(work: Work, kernel: Breakdown) -> Breakdown:
    """`kernel` on ranks whose work touches memory. One with nothing to read or write launches none: no time."""
    touched = sum(work.memory_bytes().values(), np.zeros(1))
    if np.all(touched > 0):
        return kernel
    return Breakdown({name: np.where(touched > 0, seconds, 0.0) for name, seconds in kernel.parts.items()})


@price.register
def _(work: Gemm, machine: Machine) -> Breakdown:
    """The product; operands of a fused epilogue stream beside it, so it takes at least as long as all bytes do."""
    product = machine.device.gemm(work.m, work.n, work.k, work.dtype, graph=machine.graph)
    if not (np.any(work.epilogue_reads) or np.any(work.epilogue_writes)):
        return _launched(work, product)
    all_bytes = machine.device.stream(work.memory_bytes()["hbm"], dtype=work.dtype, graph=machine.graph)
    return _launched(work, product + Breakdown({"memory": np.maximum(all_bytes.total - product.total, 0.0)}))


@price.register
def _(work: Products, machine: Machine) -> Breakdown:
    """One kernel after the other, each of `count` products; what sums start from streams beside the operands."""
    one = machine.device.gemm(work.m, work.n, work.k, work.dtype, batch=work.count, graph=machine.graph)
    if work.accumulate or np.any(work.added):
        bytes_ = work.memory_bytes()["hbm"] / work.steps
        streamed = machine.device.stream(bytes_, dtype=work.dtype, graph=machine.graph)
        one = one + Breakdown({"memory": np.maximum(streamed.total - np.asarray(one.total), 0.0)})
    return _launched(work, Breakdown({name: work.steps * seconds for name, seconds in one.parts.items()}))


@price.register
def _(work: Convolution, machine: Machine) -> Breakdown:
    """As long as its product takes on a device whose memory never limits, or its bytes do:

    t = max(t_product, t_bytes)
    """
    product = compute_alone(machine.device).gemm(work.m, work.n, work.k, work.dtype, graph=machine.graph)
    bytes_ = machine.device.stream(work.memory_bytes()["hbm"], dtype=work.dtype, graph=machine.graph)
    waiting = np.maximum(bytes_.total - np.asarray(product.total), 0.0)
    return _launched(work, product + Breakdown({"memory": waiting}))


@price.register
def _(work: Elementwise, machine: Machine) -> Breakdown:
    bytes_ = work.read_bytes + work.written_bytes
    one = machine.device.stream(bytes_, work.operations, work.dtype, graph=machine.graph)
    if work.kernels == 1:
        return _launched(work, one)
    empty = machine.device.stream(np.ones(1), graph=machine.graph)
    return _launched(work, one + Breakdown({n: (work.kernels - 1) * np.asarray(t) for n, t in empty.parts.items()}))


@price.register
def _(work: DotInteraction, machine: Machine) -> Breakdown:
    """A batched product of one small matrix per sample: forward with itself."""
    features, dim = np.array([float(work.features)]), np.array([float(work.dim)])
    device, batch, graph = machine.device, work.batch, machine.graph
    if work.backward:
        return _launched(work, device.gemm(features, dim, features, work.dtype, batch=batch, graph=graph))
    return _launched(work, device.gram(features, dim, work.dtype, batch=batch, graph=graph))


@price.register
def _(work: EmbeddingLookup, machine: Machine) -> Breakdown:
    on_device = machine.device.gather(
        work.row_bytes["hbm"], work.unique_row_bytes["hbm"], work.streamed_bytes(), graph=machine.graph
    )
    return _launched(work, on_device + in_place(lookups(work, machine.host), machine))


@price.register
def _(work: EmbeddingUpdate, machine: Machine) -> Breakdown:
    time = machine.device.exact_update(
        work.indices,
        gradient_bytes=work.gradient_bytes,
        gradient_unique_bytes=work.gradient_unique_bytes,
        row_bytes=work.row_bytes["hbm"] + work.state_bytes["hbm"],
        streamed_bytes=work.streamed_bytes(),
        graph=machine.graph,
    )
    both: dict[tuple[str, str], tuple[Array, Array]] = {}
    for tier, rows in work.row_bytes.items():
        if tier != "hbm":
            each_way = (rows + work.state_bytes[tier]) / 2
            both[tier, "read"] = both[tier, "write"] = (each_way, work.rows.get(tier, each_way / SECTOR))
    return _launched(work, time + in_place(both, machine))


@price.register
def _(work: CacheProbe, machine: Machine) -> Breakdown:
    """As an update without rows: distinct ids by a sort, and a stream of tags."""
    none = np.zeros(1)
    found = machine.device.exact_update(work.indices, none, none, none, work.streamed_bytes(), graph=machine.graph)
    return _launched(work, found)


@price.register
def _(work: RowMove, machine: Machine) -> Breakdown:
    """One batched copy between tiers: all tiers and the device's link at once."""
    launch = Breakdown({"launch": machine.device.launch_overhead(machine.graph)})
    return _launched(work, launch + moving(work, machine))


@price.register
def _(work: EmbeddingScatterAdd, machine: Machine) -> Breakdown:
    """Rows in host memory are added to in place over the host link, both ways."""
    half = {tier: bytes_ / 2.0 for tier, bytes_ in work.row_bytes.items()}
    time = machine.device.scatter_add(
        half["hbm"], work.unique_row_bytes["hbm"] / 2.0, work.streamed_bytes(), graph=machine.graph
    )
    both: dict[tuple[str, str], tuple[Array, Array]] = {}
    for tier, amount in half.items():
        if tier != "hbm":
            both[tier, "read"] = both[tier, "write"] = (amount, work.rows.get(tier, amount / SECTOR))
    return _launched(work, time + in_place(both, machine))


@price.register
def _(work: HostIssue, machine: Machine) -> Breakdown:
    return machine.device.host_issue(work.calls, work.iterations)


@price.register
def _(work: HostCopy, machine: Machine) -> Breakdown:
    return _launched(work, host_copy(work.bytes, machine, pageable=work.pageable))


def host_copy(bytes_: Array, machine: Machine, *, pageable: bool = False) -> Breakdown:
    """A copy between host and device memory, while every device of the node does the same:

    t = launch + latency + bytes / min(link bandwidth, DDR bandwidth / devices of the node)
    """
    if machine.host is None:
        raise ArchmodelError("the plan copies batches from host memory, but the system's node has no host")
    return Breakdown(
        {
            "launch": machine.device.launch_overhead(machine.graph),
            "latency": machine.host.link.latency,
            "host_link": bytes_ / machine.host.bandwidth_per_device(machine.ranks_per_node, pageable=pageable),
        }
    )


@price.register
def _(work: Collective, machine: Machine) -> Breakdown:
    if machine.endpoint is not None:
        from archmodel.estimate.driving import driven

        return driven(work, machine, machine.endpoint).breakdown
    return links_of_collective(work, machine)


@price.register
def _(work: AllToAll, machine: Machine) -> Breakdown:
    if machine.endpoint is not None:
        from archmodel.estimate.driving import driven

        return driven(work, machine, machine.endpoint).breakdown
    return links_of_all_to_all(work, machine)
