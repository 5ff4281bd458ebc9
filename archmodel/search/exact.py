"""The planner's problem as a mixed-integer programme, for cases small enough to solve it exactly.

y[t, o] = 1 when table t takes option o; x[t, o, h] = 1 when one of its shards has home h (a rank or a node):

    minimise z    subject to    sum_o y[t, o] = 1,    sum_h x[t, o, h] = count[t, o] y[t, o],
                                base[r] + sum cost x <= z  and  sum bytes x <= limits[r]    on every rank r

by HiGHS (scipy.optimize.milp), which also proves a bound when it is stopped early.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from archmodel.quantities import Array
from archmodel.search.options import NODE, RANK, WORLD, Assignment, IntArray, Options, Solution

MOST_VARIABLES = 20_000
"""Binary variables beyond which it is not worth trying."""


@dataclass(frozen=True)
class Exact:
    """The best assignment that HiGHS found, if any, and the bound that it proved; `optimal`: they are the same."""

    assignment: Assignment | None
    lower_bound: float
    optimal: bool


def variables(options: Options) -> int:
    """Binary variables of the programme."""
    homes = np.array([options.ranks, options.nodes, 1])[options.scope]
    return int((np.isfinite(options.cost) * homes).sum())


def solve_exactly(options: Options, seconds: float, below: float = np.inf, gap: float = 5e-4) -> Exact:
    """Solve within `seconds`, plans of cost `below` or more left out (of options, too: a shard costs no more than its
    rank). Tables with more shards than homes are left out of an option's choices. The answer is proven to `gap`."""
    import scipy.sparse as sp
    from scipy.optimize import Bounds, LinearConstraint, milp

    ranks, local, tiers = options.ranks, options.local, options.limits.shape[1]
    places = np.array([ranks, options.nodes, 1])[options.scope]
    limit = below - float(options.start.min())
    shards = np.where(options.scope == WORLD, 1, options.count)
    usable = np.isfinite(options.cost) & (options.cost <= limit) & (shards <= places)
    usable &= (options.memory <= options.limits.max(0)).all(2)
    table, slot = np.nonzero(usable)
    if len(np.unique(table)) < len(options.names):
        return Exact(None, below, False)
    pairs = len(table)
    count_homes = places[slot]
    first = np.concatenate([[0], np.cumsum(count_homes)])
    total = int(first[-1])
    pair_of = np.repeat(np.arange(pairs), count_homes)
    home = np.arange(total) - first[pair_of]
    # columns: x (total), y (pairs), z
    z = total + pairs
    one_option = sp.csr_array((np.ones(pairs), (table, total + np.arange(pairs))), shape=(len(options.names), z + 1))
    whole = sp.csr_array(
        (
            np.concatenate([np.ones(total), -shards[table, slot].astype(float)]),
            (np.concatenate([pair_of, np.arange(pairs)]), np.concatenate([np.arange(total), total + np.arange(pairs)])),
        ),
        shape=(pairs, z + 1),
    )
    width = np.where(options.scope[slot] == WORLD, ranks, np.where(options.scope[slot] == NODE, local, 1))[pair_of]
    start = np.where(options.scope[slot][pair_of] == WORLD, 0, home * width)
    column = np.repeat(np.arange(total), width)
    row = np.repeat(start, width) + (np.arange(len(column)) - np.repeat(np.cumsum(width) - width, width))
    scale = float(options.start.max()) + float(options.cost[table, slot].max())
    cost = options.cost[table, slot][pair_of][column] / scale
    load = sp.csr_array(
        (
            np.concatenate([cost, -np.ones(ranks)]),
            (np.concatenate([row, np.arange(ranks)]), np.append(column, [z] * ranks)),
        ),
        shape=(ranks, z + 1),
    )
    constraints = [
        LinearConstraint(one_option, 1, 1),
        LinearConstraint(whole, 0, 0),
        LinearConstraint(load, -np.inf, -options.start / scale),
    ]
    for k in range(tiers):
        held = options.memory[table, slot, k][pair_of][column]
        most = np.maximum(options.limits[:, k], 0.0)
        unit = max(float(most.max()), 1.0)
        constraints.append(
            LinearConstraint(sp.csr_array((held / unit, (row, column)), shape=(ranks, z + 1)), -np.inf, most / unit)
        )
    objective = np.zeros(z + 1)
    objective[z] = 1.0
    upper = np.append(np.ones(z), min(below / scale, np.inf))
    answer = milp(
        objective,
        constraints=constraints,
        integrality=np.append(np.ones(z), 0),
        bounds=Bounds(np.zeros(z + 1), upper),
        options={"time_limit": max(seconds, 0.0), "mip_rel_gap": gap, "presolve": True},
    )
    bound = float(answer.mip_dual_bound) * scale if answer.mip_dual_bound is not None else 0.0
    if answer.x is None:
        proven = answer.status == 2  # nothing is below `below`
        return Exact(None, below if proven else max(bound, 0.0), proven)
    chosen = np.round(answer.x[:z])
    return Exact(
        _assignment(options, table, slot, home, pair_of, chosen[:total], chosen[total:]), bound, answer.status == 0
    )


def finish(solution: Solution, seconds: float) -> Solution:
    """A better plan or a better bound of a solution, if HiGHS finds one within `seconds`; small problems only."""
    options = solution.options.that_fit()
    if seconds <= 0 or variables(options) > MOST_VARIABLES:
        return solution
    cpu = time.process_time()
    found = solve_exactly(options, seconds, below=solution.value)
    plan, value = solution.assignment, solution.value
    if found.assignment is not None and found.assignment.fits(options) and found.assignment.value(options) < value:
        plan, value = found.assignment, found.assignment.value(options)
    return replace(
        solution,
        assignment=plan,
        value=value,
        lower_bound=min(max(solution.lower_bound, found.lower_bound), value),
        cpu_seconds=solution.cpu_seconds + time.process_time() - cpu,
        feasible=plan.fits(options),
    )


def _assignment(
    options: Options,
    table: IntArray,
    slot: IntArray,
    home: IntArray,
    pair_of: IntArray,
    placed: Array,
    taken: Array,
) -> Assignment:
    slots = np.zeros(len(options.names), dtype=np.int64)
    homes: list[tuple[int, ...]] = [()] * len(options.names)
    for p in np.flatnonzero(taken):
        t, s = int(table[p]), int(slot[p])
        slots[t] = s
        if options.scope[s] in (RANK, NODE):
            homes[t] = tuple(int(h) for h in home[(pair_of == p) & (placed > 0)])
    return Assignment(slots, tuple(homes))
