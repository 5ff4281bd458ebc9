"""Listed layers on arrays: what the ops that `archmodel.parallel.layered` emits do on one rank, counted as they do it.

A tensor is kept as (samples, places x channels). Convolutions run as the implicit products that they are priced as;
of an LSTM the kernels of products and cells take turns, step by step, each counted under its own op. What a list leaves
out is not run: normalisation, activations, dropout. Where a layer needs another size than the tensors that it reads
have in all (a pooling or an interaction that the list leaves out), they are brought to size by `joined`, uncounted.
Gradients start from a loss that is no op of the Program: half of the mean square distance of every output that nothing
takes from the sample's label.
"""

from __future__ import annotations

from archmodel.execute.listed import attention, convolution, lstm, tokens
from archmodel.execute.listed.base import OPERATIONS, operation_of
from archmodel.execute.listed.ends import begin, begin_backward, end_backward, layers_by_name, losses

__all__ = [
    "OPERATIONS",
    "attention",
    "begin",
    "begin_backward",
    "convolution",
    "end_backward",
    "layers_by_name",
    "losses",
    "lstm",
    "operation_of",
    "tokens",
]
