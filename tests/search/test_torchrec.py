"""TorchRec's planner cost. Expected figures: what torchrec 1.8.0's own planner computes for these options."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.search import torchrec as tr

# kind, kernel, world, local, batch, weighted, rows, dim, pooling, shard (rows, columns), (fwd, fwd comms, bwd, bwd
# comms, input), (hbm, ddr, ssd)
ROWS = [
    (
        ("column_wise", "fused", 1, 1, 512, True, 1000003, 512, 37.5, (1000003, 16)),
        (
            0.005083073474624617,
            5.0862630208333336e-05,
            0.015757527771336315,
            5.0862630208333336e-05,
            0.0002384185791015625,
        ),
        (64186560, 0, 0),
    ),
    (
        ("column_wise", "key_value", 8, 8, 512, True, 1000003, 512, 37.5, (1000003, 16)),
        (373.515625, 0.0004069010416666667, 1157.8984375, 0.0004069010416666667, 0.0019073486328125),
        (1490944, 0, 71200214),
    ),
    (
        ("grid_shard", "fused", 8, 8, 512, True, 5, 4, 3.0, (0, 4)),
        (
            0.00011907639179208472,
            0.00010172526041666667,
            0.00036913681455546263,
            0.0002687724271878484,
            0.000152587890625,
        ),
        (0, 0, 0),
    ),
    (
        ("table_row_wise", "fused", 128, 8, 512, True, 7777777, 96, 0.4, (972216, 96)),
        (0.011812379311691294, 0.10937500000000001, 0.036618375866243016, 0.13503344481605353, 0.015625059604644775),
        (383423489, 0, 0),
    ),
    (
        ("table_column_wise", "fused_uvm", 1, 1, 512, False, 1000003, 512, 37.5, (1000003, 16)),
        (1.3466179370880127, 5.0862630208333336e-05, 2.6932358741760254, 5.0862630208333336e-05, 0.0002384185791015625),
        (186368, 64000192, 0),
    ),
    (
        ("row_wise", "fused_uvm_caching", 64, 8, 55, False, 99999, 128, 1.0, (1530, 128)),
        (0.08317573768336597, 0.13427734375, 0.16635147536673195, 0.3352839772294207, 0.00209808349609375),
        (1970369, 783360, 0),
    ),
    (
        ("row_wise", "fused", 16, 8, 4096, False, 7777777, 96, 0.4, (486112, 96)),
        (0.011118333641369075, 0.7500000000000001, 0.02223666728273815, 0.7756584448160536, 0.015625059604644775),
        (196746446, 0, 0),
    ),
    (
        ("data_parallel", "dense", 64, 8, 55, False, 123457, 64, 20.0, (123457, 64)),
        (0.0006322610869987088, 0.0, 0.0012645221739974175, 1.4881292846024767, 0.0),
        (31627872, 0, 0),
    ),
    (
        ("table_wise", "fused", 8, 8, 512, False, 1000, 64, 1.0, (1000, 64)),
        None,
        (256000 + 8 * 512 * 8 + 8 * 512 * 64 * 4, 0, 0),
    ),
]


@pytest.mark.parametrize(("option", "perf", "storage"), ROWS, ids=[r[0][0] + "-" + r[0][1] for r in ROWS])
def test_options_are_exact(option: tuple, perf: tuple | None, storage: tuple) -> None:
    kind, kernel, world, local, batch, weighted, rows, dim, pooling, (height, width) = option
    topology = tr.Topology(world, local)
    found = tr.perf(
        kind,
        topology,
        batch,
        np.float64(rows),
        np.float64(width),
        np.float64(pooling),
        kernel_bandwidth=tr.bandwidth(kernel),
        weighted=weighted,
    )
    if perf is not None:
        parts = (found.fwd_compute, found.fwd_comms, found.bwd_compute, found.bwd_comms, found.input_dist_comms)
        assert tuple(map(float, parts)) == perf
        assert float(found.total) == perf[0] + perf[2] + perf[1] + perf[3]
    io = tr.shard_io(kind, topology, batch, np.float64(width), np.float64(pooling))
    held = tr.storage(kernel, io, np.float64(height), np.float64(width), np.float64(rows), np.float64(dim))
    assert (float(held.hbm), float(held.ddr), float(held.ssd)) == storage


def test_arrays_equal_scalars() -> None:
    topology, rows, columns, pooling = (
        tr.Topology(16, 8),
        np.array([1e3, 1e6]),
        np.array([64.0, 128]),
        np.array([1, 7.5]),
    )
    for kind in tr.KINDS:
        both = tr.perf(kind, topology, 512, rows, columns, pooling, kernel_bandwidth=tr.HBM_BANDWIDTH).total
        for i in range(2):
            one = tr.perf(kind, topology, 512, rows[i], columns[i], pooling[i], kernel_bandwidth=tr.HBM_BANDWIDTH).total
            assert both[i] == one


@pytest.mark.parametrize(
    ("dim", "least", "block"),
    [(30, 8, 30), (96, 32, 32), (100, 32, 100), (256, 128, 128), (128, 128, 128), (64, 128, 64)],
)
def test_column_blocks(dim: int, least: int, block: int) -> None:
    """What torchrec 1.8.0's planner cut, run offline."""
    assert tr.column_block(dim, least) == block
    assert (block if block < dim else None) == next(iter(tr.column_splits(dim, least)), None)


def test_reservation() -> None:
    """15 % of HBM, and twenty copies of the input, as the default heuristic does."""
    topology = tr.Topology(8, 8, hbm_cap=80 * 1024.0**3)
    pooling = np.array([1.0, 2.5])
    assert tr.usable_hbm(topology, 512, pooling) == int(0.85 * 80 * 1024**3) - int(3.5 * 512 * 8) * 20
