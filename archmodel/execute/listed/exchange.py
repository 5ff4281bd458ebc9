"""Vectors of tables that a list of layers does not have, and who owns them."""

from __future__ import annotations

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.execute.machine import Machine
from archmodel.quantities import Array
from archmodel.workloads.layers import Exchange


def vectors(features: Array, width: int) -> Array:
    """Vectors that the unlisted tables of an exchange give for samples: their features, over and over."""
    return features[:, np.arange(width) % features.shape[1]]


def parts_of(machine: Machine, layer: Exchange, rank: int) -> int:
    """Elements of a rank's samples that each owner has. Raises ExecutionError where they are not equally many."""
    elements, ranks = machine.local_batch[rank] * layer.width, machine.program.ranks
    if elements % ranks:
        raise ExecutionError(
            f"{layer.name}: {layer.width} elements for each of {machine.local_batch[rank]} samples are not cut equally "
            f"over {ranks} ranks; a width that {ranks} divides is"
        )
    return elements // ranks
