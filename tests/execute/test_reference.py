"""The unsharded reference: gradients equal finite differences, and it shares nothing with what it checks."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from archmodel.execute import reference as module
from archmodel.execute.batch import draw
from archmodel.execute.check import inputs
from archmodel.execute.errors import ExecutionError
from archmodel.execute.parameters import initial
from archmodel.execute.reference import Inputs, Model
from archmodel.execute.report import SLOPE
from archmodel.execute.slopes import slopes
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from tests.execute.small import cat, cross, dot, place, reference

WORKLOADS = {
    "dot": dot(),
    "cat": cat(bottom_mlp=[6, 5]),
    "cat without a bottom": cat(),
    "dcnv2": cross(),
    "one cross layer": cross(cross_layers=1, bottom_mlp=[]),
    "one top layer": cross(top_mlp=[1]),
}


def model_of(name: str) -> Model:
    workload, plan = WORKLOADS[name], Plan(tables="table_wise")
    return reference(workload, plan, place(workload, plan, Layout(1, 1)), initial(workload, 0))


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_gradient_equals_finite_differences(name: str) -> None:
    model, workload = model_of(name), WORKLOADS[name]
    rows = slopes(model, inputs(draw(workload, 1, 0, 0)), workload.table_arrays.names, 5, 0)
    sizes = [v.size for v in (*model.dense.values(), *model.tables)]
    assert len(rows) == sum(size > 0 for size in sizes)
    assert all(row.samples > 0 for row in rows)
    assert max(row.difference for row in rows) < SLOPE / 10


def test_gradients_that_rounding_hides_are_not_called_wrong() -> None:
    """Behind a layer of small weights the first layers' gradients are near the rounding of the loss over the step."""
    model, workload = model_of("cat"), WORKLOADS["cat"]
    model.dense["top_1.weight"] *= 1e-8
    batch = inputs(draw(workload, 1, 0, 0))
    assert 0.0 < np.abs(model.gradients(batch).dense["bottom_0.weight"]).max() < 1e-9
    assert max(row.difference for row in slopes(model, batch, workload.table_arrays.names, 5, 0)) <= SLOPE


def test_a_wrong_gradient_is_seen() -> None:
    model, workload = model_of("dcnv2"), WORKLOADS["dcnv2"]
    right = model.gradients

    def wrong(batch: Inputs) -> module.Gradients:
        grads = right(batch)
        grads.dense["cross_0.down"] *= 1.001
        return grads

    model.gradients = wrong  # type: ignore[method-assign]
    rows = {r.tensor: r for r in slopes(model, inputs(draw(workload, 1, 0, 0)), workload.table_arrays.names, 3, 0)}
    assert rows["cross_0.down"].difference > 10 * SLOPE
    assert rows["cross_1.down"].difference < SLOPE


def test_loss_of_one_sample_by_hand() -> None:
    tables = {"a": {"num_embeddings": 2, "embedding_dim": 1}}
    workload = cat(batch=1, tables=tables, dense_features=1, bottom_mlp=[], top_mlp=[1])
    plan = Plan(tables="table_wise")
    model = reference(workload, plan, place(workload, plan, Layout(1, 1)), initial(workload, 0))
    model.dense["top_0.weight"][:] = [[2.0, 3.0]]
    model.dense["top_0.bias"][:] = [0.5]
    model.tables[0][:] = [[0.1], [-0.4]]
    batch = Inputs(np.array([[0.7]]), np.array([1.0]), [np.array([2])], [np.array([1, 0])])
    z = 2.0 * 0.7 + 3.0 * (0.1 - 0.4) + 0.5
    assert np.isclose(model.logits(batch)[0], z)
    assert np.isclose(model.predict(batch)[0], 1 / (1 + np.exp(-z)))
    assert np.isclose(model.loss(batch), np.log1p(np.exp(-z)))
    dz = 1 / (1 + np.exp(-z)) - 1
    grads = model.gradients(batch)
    assert np.allclose(grads.dense["top_0.weight"], [[0.7 * dz, -0.3 * dz]])
    assert np.allclose(grads.tables[0], [[3 * dz], [3 * dz]])


def test_training_lowers_the_loss() -> None:
    model, workload = model_of("dot"), WORKLOADS["dot"]
    batch = inputs(draw(workload, 1, 0, 0))
    losses = [model.step(batch) for _ in range(60)]
    assert losses[-1] < losses[0]


def test_row_wise_adagrad_keeps_state_per_column_block() -> None:
    workload = cat(tables={"a": {"num_embeddings": 3, "embedding_dim": 4}})
    plan = Plan(tables={"default": {"sharding": "table_wise", "optimizer": "rowwise_adagrad"}})
    placement, start = place(workload, plan, Layout(1, 1)), initial(workload, 0)
    whole, halves = reference(workload, plan, placement, start), reference(workload, plan, placement, start)
    halves.column_blocks = [[(0, 2), (2, 4)]]
    for model in (whole, halves):
        model.step(inputs(draw(workload, 1, 0, 0)))
    assert not np.allclose(whole.tables[0], halves.tables[0], rtol=1e-6)


def test_a_replicated_table_under_adam_moves_rows_that_a_batch_leaves_out() -> None:
    workload = cat(batch=1, tables={"a": {"num_embeddings": 30, "embedding_dim": 4}})
    plan = Plan(tables={"default": {"sharding": "table_wise", "optimizer": "adam"}})
    placement, start = place(workload, plan, Layout(1, 1)), initial(workload, 0)
    moved = []
    for whole in (frozenset[int](), frozenset({0})):
        model = reference(workload, plan, placement, start)
        model.whole_tables = whole
        model.step(inputs(draw(workload, 1, 0, 0)))
        after_one = model.tables[0].copy()
        model.step(inputs(draw(workload, 1, 0, 1)))
        moved.append(int((model.tables[0] != after_one).any(axis=1).sum()))
    assert moved == [1, 2]


def test_unknown_models_and_optimizers_are_named() -> None:
    model = model_of("cat")
    model.dense_optimizer = "lion"
    with pytest.raises(ExecutionError, match="no optimizer 'lion'"):
        model.step(inputs(draw(WORKLOADS["cat"], 1, 0, 0)))
    with pytest.raises(ExecutionError, match="no reference for workloads of kind"):
        Model(object(), [], {}, "sgd", [], [])  # type: ignore[arg-type]


def test_it_imports_nothing_of_the_executor_or_the_lowering() -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    ours = {m for m in modules if m.startswith("archmodel")}
    assert ours == {"archmodel.execute.errors", "archmodel.execute.settings", "archmodel.workloads.recommendation"}
