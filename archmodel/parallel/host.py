"""Where the device waits for its host: at the start of an iteration that the host issues only when the last one is
over, and before the optimizer when the host first looks at the gradients.

NVIDIA's PyTorch DLRM does both (NVIDIA/DeepLearningExamples @729963d, PyTorch/Recommendation/DLRM): `StepTimer.click`
synchronises every step (dlrm/scripts/utils.py), and `GradScaler.step` reads back whether a gradient is infinite after a
graph that holds forward and backward only (`CudaGraphWrapper` and `weight_update` in dlrm/scripts/main.py). Its loader
copies the next batch from pageable memory (`pin_memory=False` in dlrm/data/factories.py) in the same thread, when the
step has been issued (`prefetcher` in dlrm/data/utils.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from archmodel.parallel.dense import GradientBuckets, gradient
from archmodel.parallel.emit import Emitter
from archmodel.parallel.plan import Plan
from archmodel.program import HostIssue, Stream

BOTH: tuple[Stream, ...] = ("compute", "host")
"""The device idles, and the host's thread is taken."""


def begin(e: Emitter) -> None:
    """The host has seen the end of the last iteration and issues this one."""
    if e.plan.host_waits:
        e.op("host.begin", "input", HostIssue(iterations=1.0), (), (), BOTH)


def step(e: Emitter, buckets: Sequence[GradientBuckets]) -> None:
    """The host reads back whether all gradients are finite, then issues the steps of the dense layers and the first
    kernel of the sparse update; what follows is issued while that runs."""
    if not e.plan.loss_scaling:
        return
    names = tuple(gradient(p) for b in buckets for bucket in b.buckets for p in bucket)
    kernels = max(len(b.buckets) for b in buckets)
    e.op("host.step", "update", HostIssue(calls=1.0 + kernels + 1.0), names, (), BOTH)


def fetches_late(plan: Plan) -> bool:
    """Whether the next batch is copied only when the step has been issued: by the host's one thread, which waits for
    the gradients before that."""
    return plan.pageable_input and plan.prefetch_input and plan.loss_scaling
