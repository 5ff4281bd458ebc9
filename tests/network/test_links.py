"""Link loads and ring packing on small graphs, against networkx and by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.network import links
from archmodel.quantities import Array


def ring(n: int, width: float = 1.0) -> Array:
    w = np.zeros((n, n))
    i = np.arange(n)
    w[i, (i + 1) % n] = w[(i + 1) % n, i] = width
    return w


@st.composite
def graphs(draw: st.DrawFn) -> Array:
    """Connected graphs of 3 to 7 ranks with 1 to 3 links per pair."""
    n = draw(st.integers(3, 7))
    w = np.zeros((n, n))
    for i in range(1, n):
        j = draw(st.integers(0, i - 1))
        w[i, j] = w[j, i] = draw(st.integers(1, 3))
    for i in range(n):
        for j in range(i):
            if draw(st.booleans()):
                w[i, j] = w[j, i] = draw(st.integers(1, 3))
    return w


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_shortest_paths_agree_with_networkx(w: Array) -> None:
    nx = pytest.importorskip("networkx")
    hops, paths = links.shortest_paths(w)
    graph = nx.from_numpy_array(w > 0)
    for source, lengths in nx.all_pairs_shortest_path_length(graph):
        for target, length in lengths.items():
            assert hops[source, target] == length
            if source != target:
                found = nx.all_shortest_paths(graph, source, target)
                count = sum(np.prod([w[a, b] for a, b in pairwise(p)]) for p in found)
                assert paths[source, target] == count


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_load_over_links_is_demand_times_hops(w: Array) -> None:
    """Every byte loads as many links as it takes hops."""
    n = len(w)
    demand = 1.0 - np.eye(n)
    hops, _ = links.shortest_paths(w)
    assert (links.link_load(w, demand) * w).sum() == pytest.approx((hops * demand).sum())


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_rates_are_positive_and_at_most_the_links(w: Array) -> None:
    widest = w.sum(axis=1).max()
    assert 0 < links.direct_rate(w) <= widest + 1e-9
    assert 0 < links.ring_rate(w) <= widest + 1e-9


@pytest.mark.parametrize("n", range(3, 9))
def test_ring_graphs(n: int) -> None:
    """A ring of links carries one ring, both ways; even traffic loads each link by the sum of distances over it."""
    w = ring(n)
    assert links.ring_rate(w) == 2.0
    distances = np.minimum(np.arange(n), n - np.arange(n)).sum()
    assert links.direct_rate(w) == pytest.approx(2 * (n - 1) / distances)
    assert links.narrowest_half(w) == 2.0


def test_a_chain_has_no_ring_but_routes() -> None:
    w = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert links.ring_rate(w) == 1.0


def test_full_graph_of_five() -> None:
    w = 1.0 - np.eye(5)
    assert links.ring_rate(w) == 4.0
    assert links.direct_rate(w) == 4.0
    assert links.narrowest_half(w) == 6.0


def test_disconnected_pairs_cannot_be_served() -> None:
    assert np.isinf(links.link_load(np.zeros((2, 2)), np.ones((2, 2)))).all()
