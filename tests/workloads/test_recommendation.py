"""Models: exact counts, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from archmodel.workloads.recommendation import Dcnv2, Dlrm
from archmodel.workloads.tables import Tables


def dlrm(**changes: object) -> Dlrm:
    fields: dict[str, object] = {
        "global_batch": 64,
        "dense_features": 13,
        "bottom_mlp": [512, 256, 128],
        "top_mlp": [1024, 1024, 512, 256, 1],
        "tables": {"cat": {"count": 26, "num_embeddings": 1000, "embedding_dim": 128}},
    }
    return Dlrm.model_validate(fields | changes)


def test_dlrm_counts() -> None:
    model = dlrm()
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    top = (128 + 27 * 26 // 2) * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    assert model.flops_per_sample == 2 * (bottom + 27 * 27 * 128 + top)
    assert model.dense_parameters == bottom + top + 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1
    assert model.table_arrays.parameters == 26 * 1000 * 128


def test_dcnv2_counts() -> None:
    model = Dcnv2.model_validate(
        {
            "global_batch": 64,
            "dense_features": 13,
            "bottom_mlp": [512, 256, 128],
            "top_mlp": [1024, 1024, 512, 256, 1],
            "cross_layers": 3,
            "cross_rank": 512,
            "tables": {"cat": {"count": 26, "num_embeddings": 1000, "embedding_dim": 128}},
        }
    )
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    cross = 3 * 2 * 3456 * 512
    top = 3456 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    assert model.flops_per_sample == 2 * (bottom + cross + top) + 3 * 3 * 3456


def test_groups_expand_in_order() -> None:
    tables = dlrm(
        interaction="cat",
        tables={
            "a": {"num_embeddings": [10, 20], "embedding_dim": 4, "pooling_factor": [1, 2.5]},
            "user": {"num_embeddings": 7, "embedding_dim": 8},
        },
    ).table_arrays
    assert tables.names == ("a_0", "a_1", "user")
    assert tables.num_embeddings.tolist() == [10, 20, 7]
    assert tables.pooling_factor.tolist() == [1.0, 2.5, 1.0]
    assert isinstance(tables, Tables) and np.all(tables.expected_unique(0.0) == 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tables": {"a": {"num_embeddings": 5, "embedding_dim": 64}}}, "interaction dot needs one width"),
        (
            {
                "tables": {
                    "a": {"num_embeddings": [5], "embedding_dim": 128},
                    "a_0": {"num_embeddings": 5, "embedding_dim": 128},
                }
            },
            "two tables are called a_0",
        ),
        (
            {"tables": {"a": {"num_embeddings": [5, 6], "embedding_dim": [128], "pooling_factor": 1}}},
            "lists 1 values for 2",
        ),
        ({"tables": {"a": {"num_embeddings": [], "embedding_dim": 128}}}, "empty list"),
        ({"tables": {"a": {"num_embeddings": -1, "embedding_dim": 128}}}, "must be between 0 and"),
        (
            {"tables": {"a": {"num_embeddings": 5, "embedding_dim": 128, "pooling_factor": float("nan")}}},
            "pooling_factor",
        ),
        ({"tables": {"a": {"num_embeddings": 5, "embedding_dim": 0}}}, "must be between 1 and"),
        (
            {"tables": {"a": {"count": 10**12, "num_embeddings": 5, "embedding_dim": 128}}},
            "less than or equal to 1000000",
        ),
        (
            {"tables": {f"g{i}": {"count": 600_000, "num_embeddings": 5, "embedding_dim": 128} for i in range(2)}},
            "at most 1,000,000",
        ),
        ({"global_batch": 0}, "greater than or equal to 1"),
        ({"bottom_mlp": [0]}, "greater than or equal to 1"),
        ({"top_mlp": []}, "at least 1 item"),
    ],
)
def test_what_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        dlrm(**changes)
