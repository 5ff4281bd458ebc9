"""What every member of any group sends and receives: counted from who sends how much to whom.

Members are positions 0..n-1, node by node; `node` (n,) says where each sits. A group is cut into blocks of `local`
members, `local` being the largest number that divides the members of each of its nodes; where all nodes have
equally many these blocks are the nodes, and the counts those of `archmodel.collectives.volume`, whose conventions
hold here too with "node" read as block. Beyond those:

**Bidirectional ring**: in each ring of the ring algorithm, the sum for position p comes from both sides: the h = n
// 2 positions before it hand it on clockwise, the n - 1 - h after it the other way. All-gather is the reverse. Half
the steps of the ring, the same bytes.

**Double binary tree** (`trees.double_tree` over all members): each half of the buffer goes up and down its tree.

**Halving-doubling** over p = 2^floor(log2 n) members and r = n - p extra ones: of the first 2r members, the even
ones hand all they have to the odd one after them and wait. In the core, the t-th of p members and the one at t xor
d exchange, for d = 1, 2, ..., p/2, the half of what they still hold that is for members whose bit d is the other's:
the most goes to the nearest. An odd one owns its even one's block too. Reduce-scatter ends with the even one's
block handed back to it; all-gather does all this backwards; all-reduce is halving, doubling, and the whole result
handed back. (Rabenseifner; Thakur, Rabenseifner, Gropp 2005.)

**Rooted**: a ring hands the buffer along, from the root to the member before it (reduce: backwards). Two trees are
those over all members but the root, in ring order from it; the root sends a half to the top of each. Direct: the
root and each other. In the network: the root sends to the switch, which multicasts; a reduce pulls from everybody,
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from archmodel.collectives import trees
from archmodel.collectives.kinds import CollectiveError, check_algorithm, check_extent
from archmodel.collectives.stripes import stripes
from archmodel.quantities import Array

Ints = npt.NDArray[np.int64]
Wires = dict[str, tuple[Array, Array]]
"""{"scale_up" | "scale_out": (sent, received)}, each (n,)."""


T = TypeVar("T", bound="Tally")


class Tally:
    """Adds up messages between members by the wire they take."""

    def __init__(self, node: Ints) -> None:
        self.node, self.n = node, len(node)
        self.wires: Wires = {name: (np.zeros(self.n), np.zeros(self.n)) for name in ("scale_up", "scale_out")}

    def add(self, source: Ints, target: Ints, amount: Array) -> None:
        """`amount[k]` from member `source[k]` to `target[k]`; what is for oneself does not travel."""
        amount = np.broadcast_to(amount, source.shape)
        apart = self.node[source] != self.node[target]
        for name, mine in (("scale_up", ~apart & (source != target)), ("scale_out", apart)):
            moved = np.where(mine, amount, 0.0).ravel()
            for total, end in zip(self.wires[name], (source, target), strict=True):
                total += np.bincount(end.ravel(), weights=moved, minlength=self.n)

    def add_reverse(self, other: Self) -> None:
        """Everything that `other` sent, the other way round."""
        for name, (sent, received) in other.wires.items():
            self.wires[name][0][:] += received
            self.wires[name][1][:] += sent

    def add_to_owners(self, blocks: Array) -> None:
        """Each block from everybody to its owner; counted by nodes, without a list of pairs."""
        _, where, count = np.unique(self.node, return_inverse=True, return_counts=True)
        here, near = np.bincount(where, weights=blocks)[where], count[where]
        for wire, sent, received in (
            ("scale_up", here - blocks, blocks * (near - 1)),
            ("scale_out", blocks.sum() - here, blocks * (self.n - near)),
        ):
            self.wires[wire][0][:] += sent
            self.wires[wire][1][:] += received


class Pairs(Tally):
    """A tally that knows who sends to whom: `pairs` (n, n), what i sends to j."""

    def __init__(self, node: Ints) -> None:
        super().__init__(node)
        self.pairs = np.zeros((self.n, self.n))

    def add(self, source: Ints, target: Ints, amount: Array) -> None:
        np.add.at(self.pairs, (source, target), np.where(source != target, amount, 0.0))

    def add_reverse(self, other: Self) -> None:
        self.pairs += other.pairs.T

    def add_to_owners(self, blocks: Array) -> None:
        self.pairs += np.where(np.eye(self.n, dtype=bool), 0.0, blocks)


def block_size(node: Ints) -> int:
    """The largest number that divides the members of each node."""
    return gcd(*np.unique(node, return_counts=True)[1].tolist())


def group_bytes(kind: str, algorithm: str, blocks: Array, node: Ints, root: int = 0) -> Wires:
    """What each member sends and receives on either wire, in the unit of `blocks`.

    `blocks` (n,): the block that each member owns; a broadcast or reduce has the sum of all. `node` (n,), ascending.
    `root`: position of the root of rooted kinds; point_to_point goes from it to the next member. Raises
    `CollectiveError` for names and shapes that do not serve.
    """
    return _tallied(Tally(node), kind, algorithm, blocks, root).wires


def group_pairs(kind: str, algorithm: str, blocks: Array, node: Ints, root: int = 0) -> Array:
    """The same as bytes (n, n) from member i to member j. Raises `CollectiveError`, also for `in_network`, whose
    messages go to a switch."""
    if algorithm == "in_network":
        raise CollectiveError("in_network sends to a switch, not to other members")
    return _tallied(Pairs(node), kind, algorithm, blocks, root).pairs


def _tallied(tally: T, kind: str, algorithm: str, blocks: Array, root: int) -> T:
    check_algorithm(kind, algorithm)
    if kind == "all_to_all":
        raise CollectiveError("all_to_all has messages, not blocks; count them with exchange_bytes")
    if blocks.shape != tally.node.shape or np.any(np.diff(tally.node) < 0):
        raise CollectiveError("blocks and node must have one entry for each member, node by node")
    check_extent(algorithm, len(np.unique(tally.node)))
    if tally.n > 1:
        _LAWS[kind, algorithm](tally, np.asarray(blocks, dtype=np.float64), root)
    return tally


def exchange_bytes(pairs: Array, node: Ints, algorithm: str = "direct") -> Wires:
    """The same for an all-to-all of messages `pairs[i, j]` from member i to j; what is for oneself stays."""
    check_algorithm("all_to_all", algorithm)
    tally, n = Tally(node), len(node)
    moved = np.where(np.eye(n, dtype=bool), 0.0, pairs)
    if algorithm == "direct":
        source, target = np.indices((n, n))
        tally.add(source, target, moved)
        return tally.wires
    local = block_size(node)
    grid = moved.reshape(n // local, local, n // local, local)  # [m, l, m', l']
    place = np.arange(n).reshape(-1, local)
    m, i, other = np.indices((n // local, local, local))
    tally.add(place[m, i], place[m, other], grid.sum(2))
    m, i, away = np.indices((n // local, local, n // local))
    tally.add(place[m, i], place[away, i], np.swapaxes(grid.sum(1), 1, 2))
    return tally.wires


# --- rings ---


def ring_orders(n: int, local: int) -> Ints:
    """Rings that share the work, as positions (rings, n): one inside a single block, else one per place in a block,
    ring c going block by block through the places c + 1, ..., c."""
    if n == local:
        return np.arange(n)[None, :]
    c, k = np.arange(local)[:, None, None], np.arange(local)
    starts = np.arange(0, n, local)[:, None]
    return (starts + (c + 1 + k) % local).reshape(local, n)


def _ring(tally: Tally, blocks: Array, root: int) -> None:
    order, cut = _striped(tally, blocks)
    tally.add(order, np.roll(order, -1, axis=1), cut.sum(1, keepdims=True) - cut)


def _ring_gather(tally: Tally, blocks: Array, root: int) -> None:
    order, cut = _striped(tally, blocks)
    after = np.roll(cut, -1, axis=1)
    tally.add(order, np.roll(order, -1, axis=1), cut.sum(1, keepdims=True) - after)


def _both_ways(tally: Tally, blocks: Array, root: int) -> None:
    order, cut = _striped(tally, blocks)
    half = tally.n // 2
    tally.add(order, np.roll(order, -1, axis=1), _window(cut, 1, half))
    tally.add(order, np.roll(order, 1, axis=1), _window(cut, -(tally.n - 1 - half), tally.n - 1 - half))


def _striped(tally: Tally, blocks: Array) -> tuple[Ints, Array]:
    """Orders, and the stripe of every block in ring order, both (rings, n)."""
    order = ring_orders(tally.n, block_size(tally.node))
    cut = stripes(blocks, len(order))
    return order, cut[order, np.arange(len(order))[:, None]]


def _window(x: Array, start: int, length: int) -> Array:
    """sum of x[p + start .. p + start + length) around the ring, for every p; x (rings, n)."""
    n = x.shape[1]
    total = np.concatenate([np.zeros((len(x), 1)), np.cumsum(np.tile(x, 3), axis=1)], axis=1)
    first = np.arange(n) + n + start
    return np.asarray(total[:, first + length] - total[:, first])


# --- blocks within blocks ---


def _levels(tally: Tally, blocks: Array) -> tuple[Ints, Array, Array]:
    """(place (m, l), blocks (m, l), super blocks (1, l))."""
    local = block_size(tally.node)
    grid = blocks.reshape(-1, local)
    return np.arange(tally.n).reshape(-1, local), grid, grid.sum(0, keepdims=True)


def _inner(tally: Tally, blocks: Array) -> None:
    place, _, rail = _levels(tally, blocks)
    if place.shape[1] > 1:
        tally.add(place, np.roll(place, -1, axis=1), np.broadcast_to(rail.sum() - rail, place.shape))


def _inner_gather(tally: Tally, blocks: Array) -> None:
    place, _, rail = _levels(tally, blocks)
    if place.shape[1] > 1:
        after = np.roll(rail, -1, axis=1)
        tally.add(place, np.roll(place, -1, axis=1), np.broadcast_to(rail.sum() - after, place.shape))


def _hierarchical(tally: Tally, blocks: Array, root: int) -> None:
    _inner(tally, blocks)
    place, grid, rail = _levels(tally, blocks)
    if len(place) > 1:
        tally.add(place, np.roll(place, -1, axis=0), rail - grid)


def _hierarchical_gather(tally: Tally, blocks: Array, root: int) -> None:
    place, grid, rail = _levels(tally, blocks)
    if len(place) > 1:
        tally.add(place, np.roll(place, -1, axis=0), rail - np.roll(grid, -1, axis=0))
    _inner_gather(tally, blocks)


def _tree(tally: Tally, blocks: Array, root: int) -> None:
    _inner(tally, blocks)
    place, _, rail = _levels(tally, blocks)
    for parent, half in zip(trees.double_tree(len(place)), np.moveaxis(stripes(rail[0], 2), -1, 0), strict=True):
        child = np.flatnonzero(parent != np.arange(len(place)))
        amount = np.broadcast_to(half, (len(child), len(half)))
        tally.add(place[child], place[parent[child]], amount)
        tally.add(place[parent[child]], place[child], amount)
    _inner_gather(tally, blocks)


# --- all members as equals ---


def _double_tree(tally: Tally, blocks: Array, root: int) -> None:
    for parent, half in zip(trees.double_tree(tally.n), stripes(blocks.sum(), 2), strict=True):
        child = np.flatnonzero(parent != np.arange(tally.n))
        tally.add(child, parent[child], half)
        tally.add(parent[child], child, half)


def core(n: int) -> tuple[Ints, Ints, Ints]:
    """Halving-doubling: (members of the core (p,), extra ones (r,), those who stand in for them (r,))."""
    p = 1 << (n.bit_length() - 1)
    extra = 2 * np.arange(n - p)
    return np.concatenate([extra + 1, np.arange(2 * len(extra), n)]), extra, extra + 1


def _owned(blocks: Array) -> Array:
    """What each member of the core owns, (p,): a stand-in two blocks."""
    inside, extra, _ = core(len(blocks))
    owned = blocks[inside].copy()
    owned[: len(extra)] += blocks[extra]
    return owned


def exchanges(blocks: Array) -> Iterator[tuple[Ints, Ints, Array]]:
    """(source, target, amount) of every exchange of the core in turn: at distance d member t sends what members that
    are its partner's mod 2 d own."""
    inside = core(len(blocks))[0]
    owned, t, d = _owned(blocks), np.arange(len(inside)), 1
    while d < len(inside):
        partner = t ^ d
        yield inside, inside[partner], owned.reshape(-1, 2 * d).sum(0)[partner % (2 * d)]
        d *= 2


def _halve(tally: Tally, blocks: Array) -> None:
    for source, target, amount in exchanges(blocks):
        tally.add(source, target, amount)


def _halving(tally: Tally, blocks: Array, root: int) -> None:
    _, extra, stand_in = core(tally.n)
    tally.add(extra, stand_in, np.full(len(extra), blocks.sum()))
    _halve(tally, blocks)
    tally.add(stand_in, extra, blocks[extra])


def _doubling(tally: Tally, blocks: Array, root: int) -> None:
    """The reverse, but an extra member keeps its own block and is sent all others."""
    _, extra, stand_in = core(tally.n)
    tally.add(extra, stand_in, blocks[extra])
    doubling = type(tally)(tally.node)
    _halve(doubling, blocks)
    tally.add_reverse(doubling)
    tally.add(stand_in, extra, blocks.sum() - blocks[extra])


def _halving_doubling(tally: Tally, blocks: Array, root: int) -> None:
    _, extra, stand_in = core(tally.n)
    total = np.full(len(extra), blocks.sum())
    tally.add(extra, stand_in, total)
    _halve(tally, blocks)
    back = type(tally)(tally.node)
    _halve(back, blocks)
    tally.add_reverse(back)
    tally.add(stand_in, extra, total)


def _direct(tally: Tally, blocks: Array, root: int) -> None:
    tally.add_to_owners(blocks)


def _in_network(tally: Tally, blocks: Array, root: int) -> None:
    """To the switch the whole buffer and one's own block again; from it one's own sum and all sums."""
    amount = blocks.sum() + blocks
    for total in tally.wires["scale_up"]:
        total += amount


# --- rooted ---


def _chain(tally: Tally, blocks: Array, root: int) -> None:
    order = (root + np.arange(tally.n)) % tally.n
    tally.add(order[:-1], order[1:], np.full(tally.n - 1, blocks.sum()))


def rooted_trees(n: int, root: int) -> list[tuple[Ints, Ints]]:
    """(child, parent) positions of both trees over all members but the root, which is the parent of their tops."""
    order = (root + np.arange(n)) % n
    found = []
    for parent in trees.double_tree(n - 1):
        top = parent == np.arange(n - 1)
        found.append((order[1:], np.where(top, root, order[1:][parent])))
    return found


def _two_trees(tally: Tally, blocks: Array, root: int) -> None:
    for (child, parent), half in zip(rooted_trees(tally.n, root), stripes(blocks.sum(), 2), strict=True):
        tally.add(parent, child, half)


def _from_root(tally: Tally, blocks: Array, root: int) -> None:
    others = np.delete(np.arange(tally.n), root)
    tally.add(np.full(others.shape, root), others, np.full(others.shape, blocks.sum()))


def _scatter(tally: Tally, blocks: Array, root: int) -> None:
    others = np.delete(np.arange(tally.n), root)
    tally.add(np.full(others.shape, root), others, blocks[others])


def _multicast(tally: Tally, blocks: Array, root: int) -> None:
    sent, received = tally.wires["scale_up"]
    sent[root] += blocks.sum()
    received += blocks.sum()
    received[root] -= blocks.sum()


def _pull(tally: Tally, blocks: Array, root: int) -> None:
    sent, received = tally.wires["scale_up"]
    sent += blocks.sum()
    received[root] += blocks.sum()


def _to_next(tally: Tally, blocks: Array, root: int) -> None:
    if tally.n != 2:
        raise CollectiveError(f"point_to_point joins two ranks; this group has {tally.n}")
    tally.add(np.array([root]), np.array([1 - root]), blocks.sum()[None])


Law = Callable[[Tally, Array, int], None]


def _reversed(law: Law) -> Law:
    """All messages the other way."""

    def back(tally: Tally, blocks: Array, root: int) -> None:
        other = type(tally)(tally.node)
        law(other, blocks, root)
        tally.add_reverse(other)

    return back


def _both(first: Law, second: Law) -> Law:
    """All-reduce: reduce-scatter, then all-gather."""

    def law(tally: Tally, blocks: Array, root: int) -> None:
        first(tally, blocks, root)
        second(tally, blocks, root)

    return law


_LAWS: dict[tuple[str, str], Law] = {
    ("reduce_scatter", "ring"): _ring,
    ("all_gather", "ring"): _ring_gather,
    ("all_reduce", "ring"): _both(_ring, _ring_gather),
    ("reduce_scatter", "bidirectional_ring"): _both_ways,
    ("all_gather", "bidirectional_ring"): _reversed(_both_ways),
    ("all_reduce", "bidirectional_ring"): _both(_both_ways, _reversed(_both_ways)),
    ("reduce_scatter", "hierarchical"): _hierarchical,
    ("all_gather", "hierarchical"): _hierarchical_gather,
    ("all_reduce", "hierarchical"): _both(_hierarchical, _hierarchical_gather),
    ("reduce_scatter", "halving_doubling"): _halving,
    ("all_gather", "halving_doubling"): _doubling,
    ("all_reduce", "halving_doubling"): _halving_doubling,
    ("reduce_scatter", "direct"): _direct,
    ("all_gather", "direct"): _reversed(_direct),
    ("all_reduce", "direct"): _both(_direct, _reversed(_direct)),
    ("all_reduce", "tree"): _tree,
    ("all_reduce", "double_binary_tree"): _double_tree,
    ("all_reduce", "in_network"): _in_network,
    ("broadcast", "ring"): _chain,
    ("broadcast", "double_binary_tree"): _two_trees,
    ("broadcast", "direct"): _from_root,
    ("broadcast", "in_network"): _multicast,
    ("reduce", "ring"): _reversed(_chain),
    ("reduce", "double_binary_tree"): _reversed(_two_trees),
    ("reduce", "direct"): _reversed(_from_root),
    ("reduce", "in_network"): _pull,
    ("scatter", "direct"): _scatter,
    ("gather", "direct"): _reversed(_scatter),
    ("point_to_point", "direct"): _to_next,
}
