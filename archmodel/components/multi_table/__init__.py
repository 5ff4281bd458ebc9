"""One fused kernel that serves many embedding tables, simulated event by event.

    kernel = FusedKernel.of(gpu)                              # a GPU of the catalogue
    one = table_batch(Zipf(alpha=1.05), rows=10**6, columns=32, pooling=8, batch=4096, seed=0)
    found = simulate([one, another], kernel)                  # found.time, found.forward, found.backward, ...

What it shows: the time of a set of tables is not the sum of the times of its tables.
"""

from archmodel.components.multi_table.batch import TableBatch, table_batch
from archmodel.components.multi_table.simulate import FusedKernel, KernelRun, SetRun, simulate

__all__ = ["FusedKernel", "KernelRun", "SetRun", "TableBatch", "simulate", "table_batch"]
