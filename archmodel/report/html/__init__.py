"""Pages to look at: figures as plain plotly specifications, tables, and one HTML file that holds all of them.

    page(estimate)          -> report.report        a design
    page([a, b])            -> report.compare       several designs, differences first
    page(results)           -> report.sweep         a sweep or a search
    page(rows)              -> report.scoreboard    predicted against published

A figure is a `Figure`: a fixed id, a sentence computed from its data, and plotly's own JSON as dicts and lists, so that
a page is written without importing plotly. All text of design files passes through `text.label` (what plotly draws) or
`text.markup` (HTML), or is set by the page's script as text.
"""
