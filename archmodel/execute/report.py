"""What a check found, as data: rows, what failed and why, plain lines, and a dictionary for JSON.

A report passes only if every part of it has rows and every row holds: an empty part is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

EXACT = 1e-9
"""Largest relative difference from the reference in float64."""
UPDATE = 1e-6
"""Largest difference of what training changed in a tensor, relative to that change."""
RESOLVED = 1e-9
"""Smallest change by training, relative to the tensor, that float64 resolves well enough to compare."""
SLOPE = 1e-5
"""Largest difference of a gradient from finite differences, relative to the tensor's largest sampled gradient."""
SHOWN_FAILURES = 12


@dataclass(frozen=True)
class Count:
    """One amount summed over ranks and steps, by the Program and as counted. `differs`: where they first do."""

    program: float
    counted: float
    differs: str = ""


@dataclass(frozen=True)
class OpRow:
    """One op: FLOPs, bytes per tier, bytes per wire, and further fields of its work."""

    op: str
    flops: Count
    memory: Mapping[str, Count]
    wire: Mapping[str, Count]
    amounts: Mapping[str, Count]

    @property
    def counts(self) -> dict[str, Count]:
        """All amounts by name."""
        named = {f"{tier} bytes": c for tier, c in self.memory.items()}
        named |= {f"{link} bytes": c for link, c in self.wire.items()}
        return {"FLOP": self.flops, **named, **self.amounts}

    @property
    def failures(self) -> list[str]:
        """What differs."""
        return [f"{self.op}: {name} {c.differs}" for name, c in self.counts.items() if c.differs]


@dataclass(frozen=True)
class BufferRow:
    """Elements of one buffer, as declared and as held."""

    buffer: str
    elements: Count


@dataclass(frozen=True)
class TensorRow:
    """A tensor after the last step: `exact` is the largest difference from the reference relative to its largest
    element; `moved` how far training moved the reference, likewise, and `update` the largest difference (rounding
    aside) relative to that; `wires` the root mean square of the difference with the planned wires relative to the
    tensor's."""

    tensor: str
    elements: int
    exact: float
    update: float
    wires: float
    moved: float


@dataclass(frozen=True)
class GradientRow:
    """The reference's gradient of one tensor against central finite differences of its loss."""

    tensor: str
    samples: int
    difference: float


@dataclass(frozen=True)
class LayoutRow:
    """The same design on other ranks: largest relative difference of results from its own reference and from the main
    run (None where sharding changes the mathematics: `because`), and whether pooled vectors are bit-equal to the main
    run's for tables whose rows neither run cuts (None without such tables)."""

    layout: str
    from_reference: float
    from_main: float | None
    because: str
    same_bits: bool | None


@dataclass(frozen=True)
class CheckReport:
    """Everything a check found. `expected`: how many rows each part must have."""

    shrunk: tuple[str, ...]
    mode: str
    steps: int
    coverage: tuple[str, ...]
    ops: tuple[OpRow, ...]
    buffers: tuple[BufferRow, ...]
    losses: tuple[tuple[float, float, float], ...]
    """Per step: exact run, run with planned wires, reference. Inference: largest click probability."""
    results: tuple[float, float]
    """Largest relative difference of probabilities and, in training, losses: exact, planned wires."""
    tensors: tuple[TensorRow, ...]
    gradients: tuple[GradientRow, ...]
    digests: tuple[str, str]
    """Of two runs from one seed."""
    layouts: tuple[LayoutRow, ...]
    expected: Mapping[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing was left out."""
        return not self.failures

    @cached_property
    def failures(self) -> tuple[str, ...]:
        """Everything that does not hold."""
        found = [f"coverage: {problem}" for problem in self.coverage]
        for part, count in self.expected.items():
            rows = len(getattr(self, part))
            if rows != count or rows == 0:
                found.append(f"{part}: {rows} rows were checked, {count} are due")
        if set(self.expected) != {"ops", "buffers", "losses", "tensors", "gradients", "layouts"}:
            found.append("the report does not say how many rows are due")
        for op in self.ops:
            found += op.failures
        found += [f"buffer {b.buffer}: elements {b.elements.differs}" for b in self.buffers if b.elements.differs]
        found += self._numerics()
        found += [
            f"gradient of {g.tensor}: differs from finite differences by {g.difference:.1e}"
            for g in self.gradients
            if not (g.samples > 0 and g.difference <= SLOPE)
        ]
        if not self.digests[0] or self.digests[0] != self.digests[1]:
            found.append("two runs from one seed differ in their bits")
        for row in self.layouts:
            if not row.from_reference <= EXACT:
                found.append(f"on {row.layout}: differs from its reference by {row.from_reference:.1e}")
            if row.from_main is not None and not row.from_main <= EXACT:
                found.append(f"on {row.layout}: differs from the main run by {row.from_main:.1e}")
            if row.same_bits is False:
                found.append(f"on {row.layout}: pooled vectors of whole tables differ in their bits")
        return tuple(found)

    def _numerics(self) -> list[str]:
        found = []
        what = "losses" if self.mode == "train" else "probabilities"
        if not self.results[0] <= EXACT:
            found.append(f"{what} differ from the reference by {self.results[0]:.1e}")
        if not self.results[1] < float("inf"):
            found.append(f"{what} with the planned wires are not finite")
        for t in self.tensors:
            if not t.exact <= EXACT:
                found.append(f"{t.tensor}: differs from the reference by {t.exact:.1e}")
            if not t.update <= UPDATE:
                found.append(f"{t.tensor}: its change by training differs from the reference's by {t.update:.1e}")
            if 0 < t.moved < RESOLVED:
                found.append(f"{t.tensor}: training moved it by {t.moved:.1e} of its size, too little to compare")
            if not t.wires < float("inf"):
                found.append(f"{t.tensor}: with the planned wires it is not finite")
        moved = [t for t in self.tensors if t.moved > 0]
        if self.mode == "train" and not moved:
            found.append("training moved no parameter")
        if self.mode != "train" and moved:
            found.append(f"{moved[0].tensor}: changed without training")
        return found

    def lines(self) -> list[str]:
        """The report for a terminal, without colour."""
        lines = ["shrunk:", *(f"  {note}" for note in self.shrunk), ""]
        links = sorted({link for row in self.ops for link in row.wire})
        tiers = sorted({tier for row in self.ops for tier in row.memory}, reverse=True)
        heads = ["op", "FLOP", *(f"{t.upper()} bytes" for t in tiers), *(f"{k.replace('_', '-')} bytes" for k in links)]
        table = [heads]
        for row in self.ops:
            cells = [row.flops, *(row.memory.get(t) for t in tiers), *(row.wire.get(k) for k in links)]
            table.append([row.op, *(_cell(c) for c in cells)])
        widths = [max(len(r[i]) for r in table) for i in range(len(heads))]
        lines += [
            "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
            ).rstrip()
            for r in table
        ]
        lines += ["", *self._summary()]
        if self.failures:
            lines += ["", f"{len(self.failures)} failed:", *(f"  {f}" for f in self.failures[:SHOWN_FAILURES])]
            if len(self.failures) > SHOWN_FAILURES:
                lines.append(f"  ... and {len(self.failures) - SHOWN_FAILURES} more")
        return lines

    def _summary(self) -> list[str]:
        equal = sum(not row.failures for row in self.ops)
        held = sum(not b.elements.differs for b in self.buffers)
        exact = max((t.exact for t in self.tensors), default=float("nan"))
        wires = max((t.wires for t in self.tensors), default=float("nan"))
        what = "loss and" if self.mode == "train" else "probabilities and"
        gap = max(self.results[0], exact)
        lines = [
            f"counts: {equal} of {len(self.ops)} ops equal the Program on every rank in every step; "
            f"{held} of {len(self.buffers)} buffers are of the size declared",
            f"{self.steps} steps: {what} all {len(self.tensors)} tensors against the unsharded reference: "
            f"max rel {gap:.1e} (float64); with the planned wires {self.results[1]:.1e}, rms {wires:.1e}",
        ]
        if self.gradients:
            slope = max(g.difference for g in self.gradients)
            samples = sum(g.samples for g in self.gradients)
            lines.append(
                f"gradients of {len(self.gradients)} tensors against finite differences at {samples} points: "
                f"max rel {slope:.1e}"
            )
        lines.append(
            f"same seed, same bits: {'yes' if self.digests[0] == self.digests[1] else 'NO'} ({self.digests[0][:12]})"
        )
        for row in self.layouts:
            main = (
                f"{row.from_main:.1e} from the main run"
                if row.from_main is not None
                else f"not the main run's mathematics: {row.because}"
            )
            bits = {True: "; pooled vectors bit-equal", False: "; pooled vectors NOT bit-equal", None: ""}[
                row.same_bits
            ]
            lines.append(f"on {row.layout}: {row.from_reference:.1e} from its reference, {main}{bits}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"passed": self.passed, "failures": list(self.failures), **asdict(self)}


def _cell(count: Count | None) -> str:
    if count is None:
        return ""
    if count.differs:
        return f"{count.program:,.0f} is counted {count.counted:,.0f}"
    return f"= {count.counted:,.0f}"
