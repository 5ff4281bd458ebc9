"""Published figures beside what archmodel predicts for them.

    rows = scoreboard()                    # every fact, predicted
    summary(rows)                          # error per group, calibrated and held-out facts apart
    to_markdown(rows)                      # the table in docs/validation.md

A fact stands in a catalogue design's `published:`, or, for variants of one, in `facts.yaml` beside this file.
Facts marked `calibrated` are those that constants were fitted on; no other fact may tune anything.
"""

from archmodel.validation.facts import FactError, PublishedFact, facts
from archmodel.validation.markdown import to_markdown
from archmodel.validation.score import Row, Summary, scoreboard, summary

__all__ = ["FactError", "PublishedFact", "Row", "Summary", "facts", "scoreboard", "summary", "to_markdown"]
