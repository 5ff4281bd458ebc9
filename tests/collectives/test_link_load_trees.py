"""Trees of whole messages against simulated times (ASTRA-sim 518bd51, 50 GiB/s, 500 ns, endpoint delay 1 ns)."""

from __future__ import annotations

import pytest

from archmodel.collectives.groups import placements
from archmodel.collectives.kinds import CollectiveError
from archmodel.collectives.link_load_trees import whole_trees
from archmodel.collectives.link_load_wires import wires_of
from tests.collectives.test_link_load import MIB, SIMULATED, one


@pytest.mark.parametrize(
    ("kind", "n", "size", "chunks", "stores", "expected"),
    [
        ("fully_connected", 8, 65536, 1, False, 10_327),
        ("fully_connected", 8, 65536, 4, False, 16_930),
        ("fully_connected", 8, 65536, 4, True, 17_842),
        ("fully_connected", 128, 256 * MIB, 1, True, 70_017_467),
        ("ring", 8, 1 * MIB, 4, False, 129_047),
        ("ring", 8, 16 * MIB, 1, False, 1_882_247),
        ("ring", 32, 65536, 4, True, 198_178),
        ("ring", 128, 16 * MIB, 1, True, 79_502_639),
        ("switch", 8, 65536, 4, False, 27_430),
        ("switch", 8, 256 * MIB, 4, True, 68_775_042),
        ("switch", 16, 1 * MIB, 4, True, 400_062),
        ("switch", 32, 1 * MIB, 4, True, 510_592),
        ("switch", 64, 256 * MIB, 1, True, 170_020_857),
    ],
)
def test_equal_to_simulation(kind: str, n: int, size: float, chunks: int, stores: bool, expected: int) -> None:
    t = one(kind, n)
    wire = wires_of(t, placements(t, "world"))[0]
    seconds = whole_trees(wire, size, chunks, endpoint=SIMULATED, store_and_forward=stores)
    assert round(1e9 * float(seconds)) == expected


@pytest.mark.parametrize("n", [3, 6, 12])
def test_other_numbers_of_ranks_are_refused(n: int) -> None:
    t = one("switch", n)
    wire = wires_of(t, placements(t, "world"))[0]
    with pytest.raises(CollectiveError, match="power of two"):
        whole_trees(wire, 1e6)
