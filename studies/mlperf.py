"""MLPerf Training of DLRM and DLRM-DCNv2: every published result beside its prediction, and what binds each machine.

    python studies/mlperf.py [-o mlperf.html]

Throughputs are derived from the result logs of MLPerf Training and not verified by MLCommons. The few results that
constants were fitted on are drawn and counted apart from those that nothing was fitted on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

import numpy as np
from _page import Claim, Study, main, section

from archmodel.estimate.estimate import estimate
from archmodel.estimate.result import Estimate
from archmodel.quantities import show
from archmodel.report.html import scoreboard as board
from archmodel.report.html.charts import bars
from archmodel.report.html.figure import Figure, seconds_axis
from archmodel.report.html.palette import RESOURCES, SERIES, SIMILAR, colour
from archmodel.report.html.stack import pieces
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.report.words import plural, signed
from archmodel.validation import Row, facts
from archmodel.validation.facts import PublishedFact
from archmodel.validation.score import predict

GROUP = "MLPerf"
"""How the groups of MLPerf's results begin."""


@cache
def published() -> tuple[PublishedFact, ...]:
    """Every published MLPerf result."""
    return tuple(fact for fact in facts() if fact.group.startswith(GROUP))


@cache
def rows() -> tuple[Row, ...]:
    """Each with its prediction."""
    return tuple(predict(fact) for fact in published())


@cache
def answers() -> dict[str, Estimate]:
    """An estimate of every result, by the fact's name."""
    return {fact.id: estimate(fact.load()) for fact in published()}


def short(name: str) -> str:
    """`dcnv2 dgx h100` of `mlperf_dcnv2_dgx_h100`."""
    return name.removeprefix("mlperf_").replace("_", " ")


def errors_of(*, calibrated: bool) -> list[float]:
    """Absolute relative errors of one kind of facts."""
    return [abs(row.error) for row in rows() if row.calibrated is calibrated]


def time_figure() -> Figure:
    """What an iteration of every system is made of."""
    found = answers()
    made = [pieces(e) for e in found.values()]
    keys = list(dict.fromkeys(key for one in made for key in one if key[0] != "waiting"))
    shares = [
        sum(s for (name, _), s in one.items() if name.startswith("exposed")) / float(e.iteration_time)
        for one, e in zip(made, found.values(), strict=True)
    ]
    most, least = int(np.argmax(shares)), int(np.argmin(shares))
    names = list(found)
    said = (
        f"Communication that nothing hides is {shares[least]:.0%} of an iteration of {short(names[least])} and "
        f"{shares[most]:.0%} of one of {short(names[most])}."
    )
    return bars(
        "time", "Where the time goes", said, [short(n) for n in names],
        {
            k[0]: [one.get(k, 0.0) / float(e.iteration_time) for one, e in zip(made, found.values(), strict=True)]
            for k in keys
        },
        {"tickformat": ".0%", "title": {"text": "share of the iteration"}}, stacked=True,
        colours={k[0]: k[1] for k in keys},
        note="As the rank that computes most sees it. Shares beyond 100 % are exchanges that wait at the same time.",
    )  # fmt: skip


def times_figure() -> Figure:
    """Predicted iteration times beside the published ones."""
    facts_ = published()
    predicted = [float(answers()[f.id].iteration_time) for f in facts_]
    measured = [answers()[f.id].samples / f.value for f in facts_]
    fast, slow = int(np.argmin(measured)), int(np.argmax(measured))
    said = (
        f"Published iterations span {show(measured[fast], 'seconds')} ({short(facts_[fast].id)}) to "
        f"{show(measured[slow], 'seconds')} ({short(facts_[slow].id)})."
    )
    axis = {**seconds_axis(), "type": "log", "dtick": "D2"}
    kinds = [f"{short(f.id)}{' *' if f.calibrated else ''}" for f in facts_]
    return bars("iterations", "Iteration time, predicted and published", said, kinds,
                {"predicted": predicted, "published": measured}, axis,
                note="* a constant was fitted on it")  # fmt: skip


def binding() -> Table:
    """What binds every system, and what one more percent of the strongest lever buys."""
    body: list[list[Cell]] = []
    for fact, row in zip(published(), rows(), strict=True):
        answer = answers()[fact.id]
        bound = answer.bound
        path = max(answer.elasticities, key=lambda k: abs(answer.elasticities[k]), default="")
        others = ", ".join(f"{k.replace('_', ' ')} {v:.0%}" for k, v in list(bound.shares.items())[1:4] if v >= 0.03)
        body.append(
            [
                short(fact.id), count(answer.program.ranks), quantity(row.published, "sample_rate"),
                quantity(row.predicted, "sample_rate"), share(row.error, 1, signed=True),
                "calibrated" if fact.calibrated else "held out",
                bound.resource.replace("_", " "), share(bound.shares.get(bound.resource, 0.0)), bound.op, others,
                path.removeprefix("system."), share(answer.elasticities.get(path, 0.0) / 100, 2, signed=True),
            ]
        )  # fmt: skip
    columns = [
        ("result", ""), ("GPUs", "number"), ("published", "sample/s"), ("predicted", "sample/s"), ("error", "fraction"),
        ("used for", ""), ("bound by", ""), ("of the path", "fraction"), ("most in", ""), ("then", ""),
        ("strongest lever", ""), ("1 % more of it", "fraction"),
    ]  # fmt: skip
    return Table("binding", columns, body, page=60)


def missed() -> list[Row]:
    """Held-out results off by more than 20 %, the worst first."""
    return sorted((r for r in rows() if not r.calibrated and abs(r.error) > board.BAND), key=lambda r: -abs(r.error))


def reasons() -> Table:
    """Misses, and what is known of each."""
    body: list[list[Cell]] = [[short(r.id), share(r.error, 1, signed=True), r.note or "not known"] for r in missed()]
    columns = [("result", ""), ("error", "fraction"), ("reason", "")]
    return Table("reasons", columns, body, "Held-out results beyond 20 %, and what is known of each")


def by_resource() -> Figure:
    """Shares of the critical path of every system, by resource."""
    found = answers()
    keys = list(dict.fromkeys(SIMILAR.get(k, k) for e in found.values() for k in e.bound.shares))
    alike = {k: [s for s in sorted({*SIMILAR, k}) if SIMILAR.get(s, s) == k] for k in keys}
    shares = [e.bound.shares for e in found.values()]
    tops = [e.bound.resource for e in found.values()]
    counted = {k: tops.count(k) for k in dict.fromkeys(sorted(tops, key=lambda t: -tops.count(t)))}
    said = "Bound by " + ", ".join(f"{k.replace('_', ' ')} on {plural(n, 'system')}" for k, n in counted.items()) + "."
    return bars(
        "resources", "The critical path, by what it waits for", said, [short(n) for n in found],
        {k.replace("_", " "): [sum(of.get(s, 0.0) for s in alike[k]) for of in shares] for k in keys},
        {"tickformat": ".0%", "range": [0, 1], "title": {"text": "share of the critical path"}}, stacked=True,
        colours={k.replace("_", " "): colour(k) if k in RESOURCES else SERIES[3] for k in keys},
        note="Memory with L2, compute with sorting, latency with launches.",
    )  # fmt: skip


def summary() -> str:
    """Errors of both kinds of facts, in a sentence."""
    held, fitted = errors_of(calibrated=False), errors_of(calibrated=True)
    inside = sum(e <= 0.2 for e in held)
    return (
        f"{plural(len(held), 'result')} held out: mean absolute error {np.mean(held):.1%}, median "
        f"{np.median(held):.1%}, "
        f"{inside} within 20 %; {len(fitted)} used for calibration: {np.mean(fitted):.1%}."
    )


def claims() -> list[Claim]:
    """What was published, what comes out, and why."""
    over = [r for r in rows() if not r.calibrated and r.error > 0]
    held = [r for r in rows() if not r.calibrated]
    said = "; ".join(f"{short(r.id)} {signed(r.error)}" for r in missed())
    return [
        Claim(
            f"{plural(len(rows()), 'result')} of MLPerf Training v2.1 to v4.0 with HugeCTR, from one server of A40s "
            f"to 128 "
            "H100. Samples per second are derived from the time stamps of the result logs; they are not an official "
            "metric and not verified by MLCommons.",
            summary(),
            f"{len(over)} of {len(held)} held-out predictions are too fast. What the model leaves out (stalls of "
            f"the host, "
            "clocks under load) can only slow a machine down; constants that were fitted on one machine and carried to "
            "another err either way. "
            + (f"Beyond 20 %, with reasons below: {said}." if missed() else "None is off by more than 20 %."),
        )
    ]


def build() -> Study:
    """The whole study."""
    rates = list(rows())
    return Study(
        "MLPerf Training: DLRM and DCNv2, predicted against published",
        summary(),
        claims(),
        [
            section(
                "score", "Scoreboard",
                board.by_group(rates), board.against(rates, "sample_rate"), board.errors(rates), reasons(),
            ),
            section("iterations", "Iterations", times_figure(), time_figure()),
            section("bounds", "What binds each", by_resource(), binding()),
        ],
    )  # fmt: skip


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "mlperf", arguments)


if __name__ == "__main__":
    sys.exit(run())
