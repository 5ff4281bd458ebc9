"""Link loads: simulated figures, closed forms against routed links, bounds, limits and refusals.

The simulated figures are ASTRA-sim's (master 518bd513 with its analytical backends, MIT), run for this comparison; the
whole set is compared by benchmarks/astra.py. 50 means 50 * 2**30 B/s per link and direction, latencies are per link.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError, estimate
from archmodel.collectives.groups import placements
from archmodel.collectives.link_load import price_link_load
from archmodel.collectives.link_load_endpoint import IDEAL, Endpoint
from archmodel.collectives.link_load_shared import Request, members_of, together
from archmodel.network import SCALE_UP, Nic, RailClos, Switch, Topology, build_topology
from tests.collectives.machines import machine

MIB = 2.0**20
GIB = 2.0**30
SIMULATED = Endpoint(delay=1e-9, memory_bandwidth=1e15, tick=1e-9)


def fabric(kind: str, n: int, bandwidth: float = 50 * GIB, latency: float = 500e-9, **more: Any) -> dict[str, Any]:
    name = "bandwidth" if kind == "switch" else "link_bandwidth"
    return {"kind": kind, "gpus": n, name: bandwidth, "link_latency": latency, **more}


def one(kind: str, n: int, **values: Any) -> Topology:
    return build_topology(SCALE_UP.resolve(kind).model_validate(fabric(kind, n, **values)), ranks_per_node=n)


def several(*dims: dict[str, Any]) -> Topology:
    block = {"dimensions": {f"d{i}": d for i, d in enumerate(dims)}}
    ranks = int(np.prod([d["gpus"] for d in dims]))
    return build_topology(SCALE_UP.resolve("dimensions").model_validate(block), ranks_per_node=ranks)


def simulated(t: Topology, kind: str, algorithm: str, size: float, chunks: int = 1, stores: bool = False) -> float:
    """ns by the simulator's conventions."""
    groups = placements(t, "world")
    priced = price_link_load(t, kind, algorithm, size, groups, chunks, endpoint=SIMULATED, store_and_forward=stores)
    return 1e9 * float(priced.time)


def seconds(t: Topology, kind: str, algorithm: str, size: Any, **options: Any) -> Any:
    return estimate(t, kind, algorithm, per_rank_input_bytes=size, fidelity="link_load", **options).time


# --- simulated ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "n", "collective", "size", "stores", "expected"),
    [
        ("ring", 8, "all_reduce", 1 * MIB, False, 41_189),
        ("ring", 8, "all_reduce", 16 * MIB, False, 553_925),
        ("ring", 8, "all_reduce", 16 * MIB, True, 553_925),
        ("switch", 8, "all_reduce", 16 * MIB, False, 560_925),
        ("switch", 8, "all_reduce", 16 * MIB, True, 1_107_793),
        ("ring", 1024, "all_reduce", 256 * MIB, False, 11_013_619),
        ("ring", 8, "all_to_all", 16 * MIB, True, 1_107_765),
        ("switch", 8, "all_to_all", 1 * MIB, True, 164_725),
    ],
)
def test_rings_equal_simulation(kind: str, n: int, collective: str, size: float, stores: bool, expected: int) -> None:
    assert round(simulated(one(kind, n), collective, "ring", size, stores=stores)) == expected


@pytest.mark.parametrize(
    ("kind", "collective", "stores", "expected"),
    [
        ("ring", "all_reduce", True, 15_007_307),
        ("switch", "reduce_scatter", True, 8_753_304),
        ("fully_connected", "all_reduce", False, 8_753_307),
        ("fully_connected", "all_gather", False, 35_001_504),
    ],
)
def test_halving_doubling_is_near_simulation(kind: str, collective: str, stores: bool, expected: int) -> None:
    """256 MiB on 8 ranks; the simulator leaves out the first of the additions, 0.005 %."""
    size = 256 * MIB * (8 if collective == "all_gather" else 1)
    ours = simulated(one(kind, 8), collective, "halving_doubling", size, stores=stores)
    assert ours == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "n", "collective", "size", "expected"),
    [
        ("switch", 8, "all_reduce", 16 * MIB, 627_001),
        ("switch", 8, "all_to_all", 16 * MIB, 313_498),
        ("ring", 8, "all_to_all", 16 * MIB, 391_622),
        ("fully_connected", 8, "all_reduce", 16 * MIB, 79_133),
        ("switch", 1024, "all_to_all", 256 * MIB, 5_000_170),
        ("fully_connected", 128, "reduce_scatter", 256 * MIB, 39_570),
    ],
)
def test_direct_exchanges_equal_simulation_with_contention(
    kind: str, n: int, collective: str, size: float, expected: int
) -> None:
    assert simulated(one(kind, n), collective, "direct", size, stores=True) == pytest.approx(expected, rel=1e-4)


def test_one_chunk_over_dimensions_is_the_sum_of_phases() -> None:
    grid = several(fabric("ring", 8), fabric("ring", 8))
    assert round(simulated(grid, "all_reduce", "ring+ring", 16 * MIB)) == 629_289
    nodes = several(fabric("switch", 8, bandwidth=300 * GIB), fabric("switch", 16, bandwidth=25 * GIB, latency=5e-6))
    assert round(simulated(nodes, "all_reduce", "ring+ring", 16 * MIB)) == 551_689


@pytest.mark.parametrize(("chunks", "expected"), [(4, 574_904), (16, 659_040)])
def test_chunks_stay_in_the_bracket_of_their_phases(chunks: int, expected: int) -> None:
    """k max T_d <= T <= (k - 1) max T_d + sum T_d; ours is the right side."""
    grid = several(fabric("ring", 8), fabric("ring", 8))
    size = 16 * MIB / chunks
    whole, first = (
        simulated(grid, "all_reduce", "ring+ring", size),
        simulated(grid, "all_reduce", "ring+ring", 2 * size, 2),
    )
    longest = first - whole
    assert chunks * longest <= expected <= (chunks - 1) * longest + whole
    ours = simulated(grid, "all_reduce", "ring+ring", 16 * MIB, chunks)
    assert ours == pytest.approx((chunks - 1) * longest + whole)


@pytest.mark.parametrize(
    ("dims", "below"),
    [
        ([fabric("switch", 8)], 40_064),
        ([fabric("ring", 8)], 41_064),
        ([fabric("switch", 1024)], 5_884 / 16),
        ([fabric("switch", 8, bandwidth=300 * GIB), fabric("switch", 16, bandwidth=25 * GIB, latency=5e-6)], 14_884),
    ],
)
def test_never_below_the_links_where_a_simulator_without_contention_is(dims: list[Any], below: float) -> None:
    """16 MiB all-to-alls that it gives in `below` ns, faster than the links can carry."""
    t = several(*dims) if len(dims) > 1 else one(dims[0]["kind"], dims[0]["gpus"])
    n = t.ranks
    half = (n // 2) * (n - n // 2) * 16 * MIB / n / float(t.scale_up.bisection)
    into = max((d.size - 1) / d.size * 16 * MIB / float(d.bandwidth) for d in t.dimensions)
    assert seconds(t, "all_to_all", "direct", 16 * MIB) >= max(half, into) > below * 1e-9


# --- closed forms and routed links ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["ring", "torus", "mesh", "switch", "fully_connected", "fat_tree", "dimensions"]),
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=3).filter(lambda s: np.prod(s) > 1),
    seed=st.integers(0, 1000),
)
def test_closed_forms_equal_loads_on_listed_links(kind: str, sizes: list[int], seed: int) -> None:
    """Every shape's patterns against the same links, routed one by one (where routes are unique)."""
    n = sizes[0] * 2 + 1 if kind in ("ring", "switch", "fully_connected") else int(np.prod(sizes))
    spec = {
        "torus": {"sizes": [2 * s - 1 for s in sizes], "link_bandwidth": 1e9},
        "mesh": {"sizes": sizes, "link_bandwidth": 1e9},
        "fat_tree": {"radix": sizes, "bandwidth": 1e9},
        "switch": {"bandwidth": 1e9},
        "dimensions": {"dimensions": {"a": fabric("switch", sizes[0]), "b": fabric("fully_connected", sizes[1])}},
    }.get(kind, {"link_bandwidth": 1e9})
    n = int(np.prod(spec["sizes"])) if "sizes" in spec else sizes[0] * sizes[1] if kind == "dimensions" else n
    t = build_topology(SCALE_UP.resolve(kind).model_validate(spec), ranks_per_node=n)
    graph = t.routes()
    rng = np.random.default_rng(seed)
    if len(t.dimensions) == 1:
        shape = t.dimensions[0].shape
        assert shape is not None
        source, target = rng.integers(0, n, 20), rng.integers(0, n, 20)
        for ours, routed in (
            (shape.shift(), graph.shift()),
            (shape.both_ways(), graph.both_ways()),
            (shape.uniform(), graph.uniform()),
            (shape.between(source, target, 2.0), graph.between(source, target, 2.0)),
        ):
            assert ours.seconds_per_byte == pytest.approx(routed.seconds_per_byte)
            assert ours.hops == routed.hops
    for d in t.dimensions:
        if d.size == 1:
            continue
        rows = members_of(t, d.name)
        routed = graph.between(rows.ravel(), np.roll(rows, -1, axis=1).ravel())
        assert d.shape is not None
        assert d.shape.shift().seconds_per_byte == pytest.approx(routed.seconds_per_byte)


def test_listed_ranks_take_the_links_between_them() -> None:
    """Every second rank of a ring: neighbours are two links apart, and two groups share every link."""
    t = one("ring", 8, bandwidth=1e9, latency=0.0)
    near = seconds(t, "all_gather", "ring", 1e6, group=[0, 1, 2, 3])
    apart = seconds(t, "all_gather", "ring", 1e6, group=[0, 2, 4, 6])
    both = seconds(t, "all_gather", "ring", 1e6, group=[[0, 2, 4, 6], [1, 3, 5, 7]])
    assert apart == pytest.approx(3e-3)
    assert near >= apart  # from the last of four back to the first
    assert both == pytest.approx(2 * apart)


# --- together -------------------------------------------------------------------------------------------------


def test_collectives_on_the_same_links_add_up_and_on_others_do_not() -> None:
    torus = SCALE_UP.resolve("torus").model_validate({"sizes": [4, 4], "link_bandwidth": 50e9})
    t = build_topology(torus, ranks_per_node=16)
    along, across = (Request("all_reduce", "ring", 1e9, name) for name in ("x", "y"))
    assert together(t, [along, across]).slowdown == (1.0, 1.0)
    assert together(t, [along, along]).slowdown == pytest.approx((2.0, 2.0))
    all_three = together(t, [along, across, Request("all_to_all", "direct", 1e9)])
    assert all(x > 1 for x in all_three.slowdown)
    assert together(t, []).together == ()


def test_overlapping_groups_share_their_rank_and_its_links() -> None:
    t = one("switch", 8, bandwidth=50e9)
    pair = together(
        t, [Request("all_reduce", "ring", 1e9, [0, 1, 2, 3]), Request("all_reduce", "ring", 1e9, [3, 4, 5, 6])]
    )
    assert pair.slowdown == pytest.approx((2.0, 2.0), rel=1e-3)
    assert 3 in pair.busiest
    apart = together(
        t, [Request("all_reduce", "ring", 1e9, [0, 1, 2, 3]), Request("all_reduce", "ring", 1e9, [4, 5, 6, 7])]
    )
    assert apart.slowdown == (1.0, 1.0)


def test_tensor_and_data_parallel_groups() -> None:
    """Ranks 0-3 and 4-7 in one request each way: TP along nodes, DP across them."""
    t = build_topology(
        Switch.model_validate({"bandwidth": 300e9, "gpus": 4}),
        ranks_per_node=4,
        nodes=2,
        nic=Nic.model_validate({"bandwidth": 25e9}),
        scale_out=RailClos.model_validate({}),
    )
    both = together(t, [Request("all_reduce", "ring", 1e9, "node"), Request("all_reduce", "ring", 1e9, "rail")])
    assert both.slowdown == (1.0, 1.0)
    with pytest.raises(CollectiveError, match="cannot be priced together"):
        together(t, [Request("all_reduce", "tree", 1e9)])


# --- unequal messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["direct", "hierarchical"])
@pytest.mark.parametrize(
    "t",
    [one("ring", 6), one("switch", 5), several(fabric("ring", 4), fabric("switch", 3)), machine("nvswitch_h100", 8, 4)],
)
def test_equal_messages_listed_pair_by_pair_cost_the_same(t: Topology, algorithm: str) -> None:
    """In one chunk: who sends what is known before, so that phases are not pipelined."""
    groups: list[Any] = ["world"] if t.nodes == 1 else ["world", [0, 1, 8, 9, 16, 17]]
    for group in groups:
        n = t.ranks if group == "world" else len(group)
        listed = estimate(
            t, "all_to_all", algorithm, pair_bytes=np.full((n, n), 1e6), group=group, fidelity="link_load"
        )
        equal = estimate(
            t, "all_to_all", algorithm, per_rank_input_bytes=n * 1e6, group=group, fidelity="link_load", chunks=1
        )
        assert listed.time == pytest.approx(equal.time, rel=1e-12)
        assert {k: v for k, v in listed.wire_bytes.items() if v} == pytest.approx(
            {k: v for k, v in equal.wire_bytes.items() if v}
        )


def test_unequal_messages_wait_for_the_busiest_link() -> None:
    """Everybody sends to rank 0 of a switch: its link takes them one after the other. On a ring messages between far
    ranks pass the links of others."""
    to_one = np.zeros((8, 8))
    to_one[1:, 0] = 1e6
    fan_in = estimate(one("switch", 8, bandwidth=1e9, latency=0), "all_to_all", pair_bytes=to_one, fidelity="link_load")
    assert fan_in.time == pytest.approx(7e-3)
    across = np.zeros((8, 8))
    across[0, 3] = across[1, 4] = across[2, 5] = 1e6
    ring = estimate(one("ring", 8, bandwidth=1e9, latency=0), "all_to_all", pair_bytes=across, fidelity="link_load")
    assert ring.time == pytest.approx(3e-3)  # all three pass the link from 2 to 3
    nothing = estimate(one("ring", 8), "all_to_all", pair_bytes=np.zeros((8, 8)), fidelity="link_load")
    assert nothing.time == 0.0


# --- limits and invariants ------------------------------------------------------------------------------------

EVERY = [
    ("all_reduce", "ring"),
    ("all_reduce", "bidirectional_ring"),
    ("all_reduce", "halving_doubling"),
    ("all_reduce", "double_binary_tree"),
    ("all_reduce", "tree"),
    ("all_reduce", "direct"),
    ("all_reduce", "hierarchical"),
    ("reduce_scatter", "halving_doubling"),
    ("all_gather", "direct"),
    ("all_to_all", "direct"),
    ("all_to_all", "hierarchical"),
    ("broadcast", "ring"),
    ("reduce", "double_binary_tree"),
    ("gather", "direct"),
    ("scatter", "direct"),
]


@pytest.mark.parametrize(("kind", "algorithm"), EVERY)
@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 12, 16])
@pytest.mark.parametrize("shape", ["ring", "switch", "fully_connected"])
def test_any_number_of_ranks(kind: str, algorithm: str, n: int, shape: str) -> None:
    t = one(shape, n, latency=1e-6)
    sizes = np.array([0.0, 1.0, 1e3, 1e6, 1e9])
    time = seconds(t, kind, algorithm, sizes)
    assert time.shape == sizes.shape
    assert (np.diff(time) >= 0).all()
    assert time[0] == 0.0
    assert (time[1:] > 0).all() == (n > 1)
    free = seconds(one(shape, n, latency=0.0), kind, algorithm, 1e9)
    assert free <= time[-1]
    assert seconds(one(shape, n, latency=0.0), kind, algorithm, 2e9) == pytest.approx(2 * free)
    assert seconds(one(shape, n, bandwidth=100 * GIB, latency=0.0), kind, algorithm, 1e9) == pytest.approx(free / 2)


@pytest.mark.parametrize(("kind", "algorithm"), EVERY)
def test_faster_or_shorter_links_never_slow_anything(kind: str, algorithm: str) -> None:
    def at(bandwidth: float, latency: float) -> float:
        return float(seconds(one("ring", 6, bandwidth=bandwidth, latency=latency), kind, algorithm, 1e6))

    assert at(2e9, 1e-6) < at(1e9, 1e-6)
    assert at(1e9, 1e-7) < at(1e9, 1e-6)


def test_large_messages_on_a_switch_cost_the_same_by_any_algorithm() -> None:
    """Ring, direct and halving-doubling tend to 2 (N - 1)/N S / B; storing messages makes rings pay twice."""
    t = one("switch", 8, bandwidth=50e9)
    limit = 2 * 7 / 8 * 1e10 / 50e9
    for algorithm in ("ring", "direct", "halving_doubling", "bidirectional_ring"):
        assert seconds(t, "all_reduce", algorithm, 1e10) == pytest.approx(limit, rel=1e-3)
    groups = placements(t, "world")
    stored = price_link_load(t, "all_reduce", "ring", 1e10, groups, store_and_forward=True).time
    assert stored == pytest.approx(2 * limit, rel=1e-3)


def test_chunks_cost_latency_only_on_one_dimension_and_pay_on_several() -> None:
    t = one("ring", 8, bandwidth=50e9)
    alone = [seconds(t, "all_reduce", "ring", 1e8, chunks=k) for k in (1, 4, 16)]
    latency = 14 * 500e-9
    assert np.diff(alone) == pytest.approx([3 * latency, 12 * latency])
    grid = several(fabric("ring", 8), fabric("ring", 8, bandwidth=10 * GIB))
    by_chunks = {k: seconds(grid, "all_reduce", "hierarchical", 1e8, chunks=k) for k in (1, 2, 4, 8, 16, 1024)}
    best = estimate(grid, "all_reduce", "hierarchical", per_rank_input_bytes=1e8, fidelity="link_load", chunks="auto")
    assert best.time <= min(by_chunks.values())
    assert by_chunks[1] > best.time < by_chunks[1024]
    assert 1 < best.chunks < 1024


def test_latency_may_differ_between_dimensions_by_any_factor() -> None:
    """astra-sim 137, 370: chunks that wait for each other for ever."""
    for slow in (0.0, 500e-9, 50e-6, 1.0):
        grid = several(fabric("ring", 4), fabric("ring", 4, latency=slow))
        assert np.isfinite(seconds(grid, "all_reduce", "hierarchical", 1e6, chunks=16))


def test_parts_sum_and_bytes_are_named() -> None:
    grid = several(fabric("ring", 4), fabric("switch", 2))
    r = estimate(grid, "all_reduce", "hierarchical", per_rank_input_bytes=8e6, fidelity="link_load")
    assert sum(r.parts.values()) == pytest.approx(r.time)
    assert r.wire_bytes["d0"] == pytest.approx(2 * 3 / 4 * 8e6)
    assert r.wire_bytes["d1"] == pytest.approx(2 * 1 / 2 * 2e6)
    assert r.wire_bytes["scale_up"] == pytest.approx(r.wire_bytes["d0"] + r.wire_bytes["d1"])
    assert r.bound in ("d0", "d1")


def test_all_reduce_moves_twice_what_all_gather_moves() -> None:
    t = one("ring", 8)
    reduced = estimate(t, "all_reduce", "ring", per_rank_input_bytes=8e6, fidelity="link_load")
    gathered = estimate(t, "all_gather", "ring", per_rank_input_bytes=1e6, fidelity="link_load")
    assert reduced.wire_bytes["scale_up"] == pytest.approx(2 * gathered.wire_bytes["scale_up"])
    assert reduced.time == pytest.approx(2 * gathered.time)


# --- refusals -------------------------------------------------------------------------------------------------


def test_fewer_algorithms_than_dimensions_are_refused() -> None:
    grid = several(fabric("ring", 4), fabric("ring", 4))
    with pytest.raises(CollectiveError, match=r"names 3 algorithms; this group crosses 2 dimensions \(d0, d1\)"):
        seconds(grid, "all_reduce", "ring+ring+ring", 1e6)
    with pytest.raises(CollectiveError, match="names 2 algorithms; this group crosses 1 dimensions"):
        seconds(grid, "all_reduce", "ring+ring", 1e6, group="d0")


def test_what_goes_over_one_dimension_says_so() -> None:
    grid = several(fabric("ring", 4), fabric("ring", 4))
    with pytest.raises(CollectiveError, match="name it for each"):
        seconds(grid, "all_reduce", "halving_doubling", 1e6)
    with pytest.raises(CollectiveError, match="does not reduce in the network"):
        seconds(one("ring", 4), "all_reduce", "in_network", 1e6)


# --- scale ----------------------------------------------------------------------------------------------------


def test_65_536_ranks_without_pairs() -> None:
    import time
    import tracemalloc

    torus = {"sizes": [4, 64, 256], "link_bandwidth": [200e9, 25e9, 25e9], "link_latencies": 5e-7}
    t = build_topology(SCALE_UP.resolve("torus").model_validate(torus), ranks_per_node=65_536)
    flat = one("switch", 65_536)
    sizes = np.logspace(3, 9, 20)
    tracemalloc.start()
    begin = time.process_time()
    for algorithm in ("ring", "direct", "hierarchical", "tree"):
        assert np.isfinite(seconds(t, "all_reduce", algorithm, sizes)).all()
    for algorithm in ("ring", "direct", "halving_doubling", "double_binary_tree"):
        assert np.isfinite(seconds(flat, "all_reduce", algorithm, sizes)).all()
    assert np.isfinite(seconds(t, "all_to_all", "direct", sizes)).all()
    spent = time.process_time() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert spent < 5  # 0.2 s without tracing
    assert peak < 64 * MIB


def test_ideal_ends_cost_nothing() -> None:
    assert IDEAL.floor(1.5) == 1.5
    assert Endpoint(tick=1e-9).floor(1.9e-9) == pytest.approx(1e-9)


def test_unequal_blocks_are_refused() -> None:
    topology = build_topology(Switch(bandwidth=1e11), ranks_per_node=4)
    equal = estimate(topology, "all_reduce", "ring", blocks=np.full(4, 1e6), fidelity="link_load")
    assert equal.time == estimate(topology, "all_reduce", "ring", per_rank_input_bytes=4e6, fidelity="link_load").time
    with pytest.raises(CollectiveError, match="equal blocks"):
        estimate(topology, "all_reduce", "ring", blocks=np.array([1e6, 1e6, 1e6, 2e6]), fidelity="link_load")
