"""What the executor refuses."""

from __future__ import annotations

from archmodel.errors import ArchmodelError


class ExecutionError(ArchmodelError):
    """A Program, placement or batch that the executor cannot run, or one that contradicts itself."""
