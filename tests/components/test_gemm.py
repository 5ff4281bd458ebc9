"""The law of matrix products: closed forms of its pieces, bounds, directions, arrays, and published measurements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.components import gemm as law
from archmodel.components.gemm import Ask, Chip, Constants, Product, Tile

A100 = Chip(peak=312e12, bandwidth=2.039e12, clock=1.41e9, l2_capacity=40 * 2.0**20, sm_count=108)
IDEAL = Constants(1.0, 1.0, 1.0, 1e9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Everything hidden, nothing lost: what is left is the roofline."""
USUAL = Constants(0.9, 0.9, 0.7, 50.0, 2500.0, 800.0, 2800.0, 3000.0, 0.5, 0.3)

sizes = st.integers(1, 20_000).map(float)
batches, itemsizes = st.integers(1, 32).map(float), st.sampled_from([1, 2, 4])
products = st.builds(Product, sizes, sizes, sizes, batches, itemsizes, st.just(False))
grams = st.builds(lambda n, k, batch, size: Product(n, n, k, batch, size, True), sizes, sizes, batches, itemsizes)
shares = st.floats(0.1, 1.0)
cycles = st.floats(0.0, 10_000.0)
constants = st.builds(
    Constants,
    peak_fraction=shares,
    read_fraction=shares,
    write_fraction=shares,
    load_width=st.floats(5.0, 200.0),
    start_cycles=cycles,
    fill_cycles=cycles,
    wave_cycles=cycles,
    split_cycles=cycles,
    tail=st.floats(0.0, 1.0),
    exposed=st.floats(0.0, 1.0),
)
chips = st.builds(
    Chip,
    peak=st.floats(1e13, 1e16),
    bandwidth=st.floats(1e11, 2e13),
    clock=st.floats(5e8, 3e9),
    l2_capacity=st.floats(1e6, 1e9),
    sm_count=st.integers(1, 300),
)


def time(product: Product, chip: Chip = A100, c: Constants = USUAL, *, warm: bool = False) -> float:
    return float(law.gemm_time(product, chip, c, warm=warm))


# --- waves ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "tail", "taken"),
    [(0.01, 0, 1), (1, 1, 1), (2.5, 0, 2.5), (2.5, 1, 3), (2.5, 0.5, 2.75), (2.01, 1, 3), (4, 0.5, 4)],
)
def test_rounds(load: float, tail: float, taken: float) -> None:
    assert float(law.rounds(load, tail)) == pytest.approx(taken)


@pytest.mark.parametrize("blocks", range(1, 12))
@pytest.mark.parametrize("paired", [False, True])
def test_whole_waves_are_those_of_blocks_dealt_to_sms(blocks: int, paired: bool) -> None:
    """Two SMs; an SM takes blocks one by one, or two at a time that end together."""
    most = -(-blocks // 2)
    taken = most if not paired or most <= 2 else 2 * -(-most // 2)
    assert float(law.waves(float(blocks), 2, paired, 1.0)) == taken


def test_work_that_moves_freely_takes_its_share_of_all_sms() -> None:
    assert float(law.waves(217.0, 108, False, 0.0)) == pytest.approx(217 / 108)


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.integers(1, 200), st.booleans(), st.floats(0, 1))
def test_more_blocks_never_take_fewer_waves(a: float, b: float, sms: int, paired: bool, tail: float) -> None:
    low, high = np.ceil(sorted((a, b)))
    least, most = (float(law.waves(x, sms, paired, tail)) for x in (low, high))
    assert low / sms <= least <= most * (1 + 1e-12)


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share_of_l2", "stays"), [(0.1, 1.0), (0.5, 1.0), (0.75, 0.5), (1.0, 0.0), (9.0, 0.0)])
def test_resident(share_of_l2: float, stays: float) -> None:
    assert float(law.resident(share_of_l2 * A100.l2_capacity, A100.l2_capacity)) == pytest.approx(stays)


def test_small_operands_are_read_once_and_the_result_written_once() -> None:
    product = Product(512.0, 256.0, 128.0, 1.0, 2)
    bytes_ = 2 * (512 * 128 + 128 * 256 + 512 * 256)
    assert float(law.memory_time(product, A100, IDEAL, warm=False)) == pytest.approx(bytes_ / A100.bandwidth)


def test_warm_operands_leave_the_result_to_memory() -> None:
    product = Product(512.0, 256.0, 128.0, 1.0, 2)
    in_cache = 2 * (512 * 128 + 128 * 256) / (law.CACHED_LOADS * IDEAL.load_width * A100.sm_count * A100.clock)
    expected = 2 * 512 * 256 / A100.bandwidth + in_cache
    assert float(law.memory_time(product, A100, IDEAL, warm=True)) == pytest.approx(expected)


def test_a_panel_too_wide_for_one_square_reads_its_operand_again() -> None:
    """C is three squares wide, A does not stay in the L2, B is one square wide and read once."""
    side = law.PANEL * (A100.sm_count * 256 * 128) ** 0.5
    product = Product(side, 3 * side, 65_536.0, 1.0, 2)
    a, b, c = 2 * side * 65_536, 2 * 3 * side * 65_536, 2 * 3 * side * side
    assert a > A100.l2_capacity
    expected = (3 * a + b + c) / A100.bandwidth
    assert float(law.memory_time(product, A100, IDEAL, warm=False)) == pytest.approx(expected)


# --- one way to do it ----------------------------------------------------------------------------------------


def test_padding_to_tiles_and_steps_is_counted() -> None:
    found = law.ask(Product(100.0, 100.0, 33.0, 1.0, 2), Tile(128.0, 128.0, 1.0, 1.0), 108, IDEAL)
    assert float(found.operations) == 2 * 128 * 128 * 64 * 108  # one tile on one SM, two steps of 32


def test_a_split_shares_the_steps_and_pays_for_its_partial_sums() -> None:
    c = USUAL._replace(fill_cycles=0.0, wave_cycles=0.0)
    product = Product(128.0, 128.0, 8192.0, 1.0, 2)
    whole, split = (law.ask(product, Tile(128.0, 128.0, s, 1.0), 108, c) for s in (1.0, 8.0))
    assert float(split.operations) == pytest.approx(float(whole.operations) / 8)
    partial = law.PARTIAL_BYTES * 8 * 128 * 128 / (c.load_width * 108)
    assert float(split.overhead - whole.overhead) == pytest.approx(c.split_cycles + partial)


def test_matrix_vector_kernels_are_for_one_row() -> None:
    vector = law.WAYS[-1]
    assert np.isfinite(law.ask(Product(1.0, 512.0, 512.0, 1.0, 2), vector, 108, USUAL).overhead)
    assert np.isinf(law.ask(Product(2.0, 512.0, 512.0, 1.0, 2), vector, 108, USUAL).overhead)


@given(products, st.integers(1, 200), constants, chips)
def test_ways_that_are_left_out_are_never_the_fastest(product: Product, sms: int, c: Constants, chip: Chip) -> None:
    chip = chip._replace(sm_count=sms)
    memory = law.memory_time(product, chip, c, warm=False)

    def fastest(ways: list[Ask]) -> float:
        return min(float(law._time(way, chip, c, memory)[0]) for way in ways)

    every = [law.ask(product, tile, sms, c) for tile in law.WAYS]
    kept = list(law.asks(product, sms, c))
    assert len(kept) < len(every)
    assert fastest(kept) == pytest.approx(fastest(every), rel=1e-12)


# --- bounds, directions, scaling ------------------------------------------------------------------------------


@given(products, chips, constants)
def test_no_product_beats_arithmetic_or_memory(product: Product, chip: Chip, c: Constants) -> None:
    m, n, k, batch, itemsize, _ = product
    operations, bytes_ = 2 * m * n * k * batch, (m * k + k * n + m * n) * batch * itemsize
    assert time(product, chip, c) >= max(operations / chip.peak, bytes_ / chip.bandwidth) * (1 - 1e-12)


@given(grams, chips, constants)
def test_a_gram_matrix_reads_one_operand(product: Product, chip: Chip, c: Constants) -> None:
    n, _, k, batch, itemsize, _ = product
    two = product._replace(gram=False)
    assert time(product, chip, c) >= (n * k + n * n) * batch * itemsize / chip.bandwidth * (1 - 1e-12)
    assert time(product, chip, c) <= time(two, chip, c) * (1 + 1e-12)
    once, twice = (float(np.asarray(law.memory_time(p, chip, c, warm=False))) for p in (product, two))
    if n <= law.PANEL * np.sqrt(chip.sm_count * 256.0 * 128.0):  # no panel is read again
        read = n * k * batch * itemsize / (c.read_fraction * chip.bandwidth)
        assert twice - once == pytest.approx(read, rel=1e-9)


@given(products, chips, constants)
def test_warm_operands_never_cost_time_and_never_save_what_does_not_fit(
    product: Product, chip: Chip, c: Constants
) -> None:
    warm, cold = time(product, chip, c, warm=True), time(product, chip, c)
    m, n, k, batch, itemsize, _ = product
    kept = 2 * law.CACHE_SHARE * chip.l2_capacity  # of each of A and B, at most
    bytes_ = (m * k + k * n + m * n) * batch * itemsize
    assert warm <= cold * (1 + 1e-12)
    assert warm >= (bytes_ - 2 * kept) / chip.bandwidth * (1 - 1e-12)


@given(products, chips, constants, st.sampled_from(["peak", "bandwidth", "clock", "l2_capacity"]), st.floats(1, 10))
def test_better_hardware_is_never_slower(product: Product, chip: Chip, c: Constants, field: str, factor: float) -> None:
    better = chip._replace(**{field: getattr(chip, field) * factor})
    for warm in (False, True):
        assert time(product, better, c, warm=warm) <= time(product, chip, c, warm=warm) * (1 + 1e-12)


@given(products, chips, constants, st.sampled_from(["m", "n", "k", "batch"]), st.integers(1, 5000))
def test_a_larger_product_is_never_faster(product: Product, chip: Chip, c: Constants, field: str, more: int) -> None:
    larger = product._replace(**{field: getattr(product, field) + more})
    for warm in (False, True):
        assert time(larger, chip, c, warm=warm) >= time(product, chip, c, warm=warm) * (1 - 1e-12)


@pytest.mark.parametrize("shape", [(8192, 8192, 8192), (4096, 1024, 256), (256, 2048, 65_536), (16_384, 4096, 64)])
def test_without_losses_it_is_the_roofline(shape: tuple[int, int, int]) -> None:
    """Whole tiles, work that moves freely between SMs, an L2 that holds everything."""
    m, n, k = map(float, shape)
    chip = A100._replace(clock=1e30, l2_capacity=1e30)
    roofline = max(2 * m * n * k / chip.peak, 2 * (m * k + k * n + m * n) / chip.bandwidth)
    assert time(Product(m, n, k, 8.0, 2), chip, IDEAL) == pytest.approx(8 * roofline, rel=1e-12)


@pytest.mark.parametrize("empty", ["m", "n", "k", "batch"])
def test_an_empty_product_takes_no_time(empty: str) -> None:
    product = Product(64.0, 64.0, 64.0, 1.0, 2)._replace(**{empty: 0.0})
    assert {float(part) for part in law.gemm(product, A100, USUAL).values()} == {0.0}
    assert time(product) == 0.0


# --- parts and arrays ----------------------------------------------------------------------------------------


@given(products, chips, constants, st.booleans())
def test_parts_are_times_and_add_up(product: Product, chip: Chip, c: Constants, warm: bool) -> None:
    parts = {name: float(part) for name, part in law.gemm(product, chip, c, warm=warm).items()}
    assert set(parts) == {"compute", "memory", "l2", "latency"}
    assert min(parts.values()) >= 0
    assert sum(parts.values()) == pytest.approx(time(product, chip, c, warm=warm), rel=1e-12)


def test_parts_name_what_bounds() -> None:
    def largest(product: Product) -> str:
        parts = law.gemm(product, A100, USUAL)
        return max(parts, key=lambda name: float(parts[name]))

    assert largest(Product(8192.0, 8192.0, 8192.0, 1.0, 2)) == "compute"
    assert largest(Product(16.0, 65_536.0, 8192.0, 1.0, 2)) == "memory"
    assert largest(Product(32.0, 32.0, 64.0, 1.0, 2)) == "latency"


@given(st.lists(products, min_size=1, max_size=4), chips, constants, st.booleans())
def test_arrays_give_what_scalars_give(shapes: list[Product], chip: Chip, c: Constants, warm: bool) -> None:
    """Shapes (products,), hardware (points, 1)."""
    itemsize = shapes[0].itemsize
    shapes = [shape._replace(itemsize=itemsize) for shape in shapes]
    m, n, k, batch = (np.array(column) for column in zip(*(shape[:4] for shape in shapes), strict=True))
    peaks, bandwidths = (np.array([[x], [3 * x], [x / 5]]) for x in (chip.peak, chip.bandwidth))
    together = chip._replace(peak=peaks, bandwidth=bandwidths)
    times = law.gemm_time(Product(m, n, k, batch, itemsize), together, c, warm=warm)
    parts = law.gemm(Product(m, n, k, batch, itemsize), together, c, warm=warm)
    apart = [
        [time(shape, chip._replace(peak=float(p), bandwidth=float(b)), c, warm=warm) for shape in shapes]
        for p, b in zip(peaks.ravel(), bandwidths.ravel(), strict=True)
    ]
    assert np.shape(times) == (3, len(shapes))
    np.testing.assert_allclose(times, apart, rtol=1e-12)
    np.testing.assert_allclose(sum(parts.values()), apart, rtol=1e-12)


def test_constants_may_be_arrays_over_points() -> None:
    product = Product(512.0, 512.0, 512.0, 1.0, 2)
    tails = np.array([[0.0], [0.5], [1.0]])
    together = law.gemm_time(product, A100, USUAL._replace(tail=tails))
    apart = [[time(product, A100, USUAL._replace(tail=float(t)))] for t in tails.ravel()]
    np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_the_same_product_asked_twice_is_the_same() -> None:
    """The second answer comes from what the first one kept."""
    law._worthwhile.cache_clear()
    product = Product(4096.0, 1024.0, 1024.0, 1.0, 2)
    assert time(product) == time(product)
    assert law._worthwhile.cache_info().hits == 1


def test_every_way_is_a_tile_with_every_split_and_the_vector_tile() -> None:
    pairs = {(way.rows, way.columns, way.split) for way in law.WAYS[:-1]}
    assert pairs == {(float(m), float(n), float(s)) for (m, n), s in itertools.product(law.TILES, law.SPLITS)}
    assert law.WAYS[-1][:2] == law.VECTOR_TILE


# --- measurements --------------------------------------------------------------------------------------------

MEASURED = {
    "a100_sxm_80gb": [
        ((16, 4096, 12288), 65.468), ((64, 4096, 16384), 95.607), ((512, 4096, 5120), 108.442),
        ((2048, 4096, 4096), 307.029), ((8192, 4096, 4096), 1035.537),
        ((8192, 8192, 5120), 2566.212), ((256, 4096, 1024), 18.398), ((128, 128, 8192), 8.602),
    ],
    "h100_sxm_80gb": [
        ((16, 4096, 2048), 9.052), ((64, 4096, 16384), 56.919), ((512, 4096, 4096), 24.878),
        ((2048, 4096, 8192), 175.527), ((8192, 4096, 4096), 355.587), ((8192, 8192, 5120), 973.834),
        ((256, 4096, 1536), 8.951), ((128, 128, 4096), 6.095),
    ],
}  # fmt: skip
"""Microseconds of bf16 products: aiconfigurator project (Apache-2.0), TensorRT-LLM GEMM tables of A100 and H100."""


@pytest.mark.parametrize("name", MEASURED)
def test_measured_products_of_the_fit_come_out(device, name: str) -> None:
    errors = [device(name).gemm_time(*map(float, shape)) / (us * 1e-6) - 1 for shape, us in MEASURED[name]]
    assert np.abs(errors).mean() < 0.07
    assert np.abs(errors).max() < 0.2
