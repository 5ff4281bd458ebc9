"""Pages in a real browser: they draw, nothing is reported, asked for, run or cut off, and what one clicks works."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from archmodel.report.html.page import Page
from archmodel.report.html.palette import THEMES
from tests.report.html.browser import PHONE, WIDE, Browser, missing
from tests.report.html.conftest import HOSTILE
from tests.report.html.test_pages import NAMES, pages, rows  # noqa: F401  (fixtures)

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")]


@pytest.fixture(scope="session")
def files(pages: dict[str, Page], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:  # noqa: F811
    folder = tmp_path_factory.mktemp("pages")
    written = {name: folder / f"{name}.html" for name in pages}
    for name, page in pages.items():
        page.write(written[name])
    return written


@pytest.mark.parametrize(("name", "width", "dark"), [*product(NAMES, (WIDE, PHONE), (False, True))])
def test_a_page_draws_and_stays_quiet(
    browser: Browser, files: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(files[name], width, dark=dark)
    assert browser.dialog() is None
    assert browser.console() == []
    assert browser.requests() == []
    assert browser.overflow() == []
    plots = browser.run(
        """return Array.from(document.querySelectorAll('.plot'), (div) => ({
             id: div.id, svgs: div.querySelectorAll('svg').length, room: div.clientWidth,
             marks: div.querySelectorAll('.points path, path.line, .sankey-link, .hm image').length }));"""
    )
    assert plots
    for plot in plots:
        assert plot["svgs"] >= 1 and plot["marks"] >= 1 and plot["room"] > 250, plot
    paper = browser.run("return getComputedStyle(document.querySelector('.block')).backgroundColor")
    wanted = THEMES["dark" if dark else "light"]["layout"]["paper_bgcolor"]
    assert paper == f"rgb({', '.join(str(int(wanted[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_what_is_in_the_window_is_drawn_first(browser: Browser, files: dict[str, Path]) -> None:
    """Tables before plotly, figures in sight next, the others when the browser is idle, or before printing."""
    held = browser.command(
        "Page.addScriptToEvaluateOnNewDocument",
        {"source": "window.requestIdleCallback = (f) => { window.later = f; };"},
    )
    screen = {"width": WIDE, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", screen)
    browser.driver.get(files["report"].resolve().as_uri())
    drawn = "return document.querySelectorAll('.plot .main-svg').length"
    try:
        browser.until("return document.documentElement.dataset.usable === 'true'")
        browser.until("return window.later !== undefined")
        some = browser.run(drawn)
        assert browser.run("return document.documentElement.dataset.ready") is None
        browser.run("window.dispatchEvent(new Event('beforeprint'))")
        browser.until("return Array.from(document.querySelectorAll('.plot')).every((div) => div.data)")
        assert 0 < some < browser.run(drawn)
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", {"identifier": held["identifier"]})


def test_hostile_names_are_text(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["hostile"])
    browser.run(
        "for (const b of document.querySelectorAll('.bar button')) if (/show all/.test(b.textContent)) b.click();"
    )
    names = browser.run(
        "return Array.from(document.querySelectorAll('[data-table=plan] tbody tr'), (tr) => tr.cells[0].textContent)"
    )
    assert set(names) == set(HOSTILE)
    counted = "return document.querySelectorAll('script, img, iframe, [onerror], [onclick]').length"
    assert browser.run(counted) == 3
    assert browser.run("return document.querySelectorAll('main a').length") == 0
    assert browser.dialog() is None


def test_a_script_that_got_in_would_not_run(browser: Browser, files: dict[str, Path]) -> None:
    """The second line of defence: the page's policy."""
    browser.open(files["report"])
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.broken = 1'; document.body.append(s);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = 2\">');"
    )
    browser.until("return document.querySelector('body > img') !== null")
    assert browser.run("return window.broken === undefined")
    assert any("Content Security Policy" in line for line in browser.console())


def column(browser: Browser, table: str, index: int) -> list[str]:
    found: list[str] = browser.run(
        "return Array.from(document.querySelectorAll(`[data-table=${arguments[0]}] tbody tr`),"
        " (tr) => tr.cells[arguments[1]].textContent)",
        table,
        index,
    )
    return found


def test_tables_sort_search_and_show_all(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["report"])
    spec: dict[str, Any] = json.loads(browser.run("return document.getElementById('page-data').textContent"))
    ops = spec["tables"]["ops"]["rows"]
    head = "document.querySelectorAll('[data-table=ops] th')[arguments[0]].click()"
    browser.run(head, 3)
    longest = sorted(ops, key=lambda row: -row[3][1])
    assert column(browser, "ops", 3) == [row[3][0] for row in longest[:25]]
    browser.run(head, 3)
    assert column(browser, "ops", 3) == [row[3][0] for row in longest[::-1][:25]]
    assert browser.run("return document.querySelectorAll('[data-table=ops] th')[3].ariaSort") == "ascending"
    browser.run(
        "const i = document.querySelector('[data-table=ops] input');"
        "i.value = 'GEMM forward'; i.dispatchEvent(new Event('input'))"
    )
    wanted = {row[0] for row in ops if row[1] == "forward" and row[2] == "Gemm"}
    assert set(column(browser, "ops", 0)) == wanted
    browser.run("const i = document.querySelector('[data-table=plan] input'); if (i) i.value = ''")
    assert len(column(browser, "plan", 0)) == len(spec["tables"]["plan"]["rows"])


def test_a_table_is_saved_as_csv(browser: Browser, files: dict[str, Path]) -> None:
    """Numbers in SI; text that a spreadsheet would take for a formula is quoted."""
    browser.open(files["hostile"])
    browser.run(
        "window.saved = [];"
        "URL.createObjectURL = (blob) => { blob.text().then((t) => window.saved.push(t)); return '#'; };"
        "HTMLAnchorElement.prototype.click = function () { window.named = this.download; };"
        "const buttons = Array.from(document.querySelectorAll('[data-table=plan] .bar button'));"
        "buttons.find((b) => b.textContent === 'CSV').click();"
    )
    browser.until("return window.saved.length === 1")
    text = browser.run("return window.saved[0]")
    lines = text.split("\r\n")
    assert browser.run("return window.named") == "plan.csv"
    assert lines[0].startswith('"table","rows","columns"') and '"size [B]"' in lines[0]
    assert len(lines) == len(HOSTILE) + 2
    assert "\"'=1+cmd" in text and '"=1' not in text


def point_at(browser: Browser, selector: str) -> None:
    """Moves the pointer over the middle of the widest element that matches."""
    spot = browser.run(
        """
        const all = Array.from(document.querySelectorAll(arguments[0]));
        const width = (e) => e.getBoundingClientRect().width;
        const widest = all.reduce((a, b) => (width(b) > width(a) ? b : a));
        widest.scrollIntoView({block: 'center', behavior: 'instant'});
        const box = widest.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];""",
        selector,
    )
    for step in (-3, 0):
        event = {"type": "mouseMoved", "x": spot[0] + step, "y": spot[1]}
        browser.command("Input.dispatchMouseEvent", event)


def test_pointing_at_a_bar_shows_what_it_is(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["report"])
    point_at(browser, "#timeline .points path")
    browser.until("return document.querySelector('#timeline .hoverlayer text') !== null")
    said = browser.run("return document.querySelector('#timeline .hoverlayer').textContent")
    assert "time goes to" in said and "law c" in said


def test_pointing_at_a_link_shows_what_it_carries(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["report"])
    spot = browser.run(
        """
        const div = document.getElementById('network');
        const links = div._fullData.find((t) => t.name === 'links').index;
        const mark = div.querySelectorAll('.scatterlayer .trace')[links].querySelector('path.point');
        mark.scrollIntoView({block: 'center', behavior: 'instant'});
        const box = mark.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];"""
    )
    for step in (-2, 0):
        browser.command("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": spot[0] + step, "y": spot[1]})
    browser.until("return document.querySelector('#network .hoverlayer text') !== null")
    said = browser.run("return document.querySelector('#network .hoverlayer').textContent")
    assert " to " in said and "busy" in said and "GB/s" in said


def test_clicking_a_bar_opens_its_law(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["report"])
    assert browser.run("return document.querySelectorAll('details.law[open]').length") == 0
    op = browser.run(
        """
        const div = document.getElementById('timeline');
        const trace = div.data.findIndex((t) => t.customdata.includes('table.lookup'));
        const point = div.data[trace].customdata.indexOf('table.lookup');
        div.emit('plotly_click', { points: [{ customdata: div.data[trace].customdata[point] }] });
        return div.data[trace].customdata[point];"""
    )
    opened = browser.run("return Array.from(document.querySelectorAll('details.law[open]'), (d) => d.dataset.ops)")
    assert op == "table.lookup" and len(opened) == 1 and op in opened[0].split(" ")


def test_the_theme_switches_and_figures_with_it(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["report"])
    for theme in ("dark", "light"):
        browser.run("document.getElementById('theme').click()")
        browser.until(f"return document.documentElement.dataset.theme === '{theme}'")
        wanted = THEMES[theme]["layout"]
        inks = browser.run(
            "const ink = (d) => d._fullLayout.font.color + d._fullLayout.paper_bgcolor;"
            "return Array.from(document.querySelectorAll('.plot'), ink)"
        )
        assert set(inks) == {wanted["font"]["color"] + wanted["paper_bgcolor"]}


def test_printing_is_light_and_fits_the_paper(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["report"], dark=True)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.documentElement.dataset.theme") == "light"
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.command("Emulation.setEmulatedMedia", {"media": "print", "features": scheme})
    screen = {"width": 720, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", screen)
    cut = """
        const right = document.documentElement.clientWidth + 1;
        const tables = Array.from(document.querySelectorAll('.table table'));
        const over = tables.filter((t) => t.getBoundingClientRect().right > right);
        return over.map((t) => t.parentNode.parentNode.dataset.table);
    """
    assert browser.run(cut) == []
    widths = browser.run("return Array.from(document.querySelectorAll('.plot'), (d) => d._fullLayout.width)")
    assert max(widths) <= 700
    browser.command("Emulation.setEmulatedMedia", {"media": "", "features": scheme})
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.command("Emulation.setDeviceMetricsOverride", {**screen, "width": WIDE})
    browser.until("return document.getElementById('timeline')._fullLayout.width > 900")


# --- the linked page of a sweep -------------------------------------------------------------------------------


def selected(browser: Browser) -> str:
    return str(browser.run("return document.documentElement.dataset.selected"))


def test_the_front_in_the_page_is_the_front(browser: Browser, files: dict[str, Path], grid: Any) -> None:
    from archmodel.report.html.sweep import View

    view = View(grid)
    browser.open(files["sweep"])
    drawn = browser.run("return document.getElementById('pareto').data[1].customdata")
    assert sorted(view.shown[drawn].tolist()) == sorted(view.answered[view.on_front].tolist())


def test_selecting_in_one_figure_selects_in_all(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["sweep"])
    browser.until("return document.documentElement.dataset.selected === ''")
    total = browser.run("return document.getElementById('pareto').data[0].x.length")
    browser.run(
        "const d = document.getElementById('pareto');"
        "d.emit('plotly_selected', { points: [0, 1, 2].map((i) => ({ curveNumber: 0, pointNumber: i })) })"
    )
    assert selected(browser) == "3"
    assert len(column(browser, "points", 0)) == 3
    assert browser.run("return document.getElementById('pareto').data[0].selectedpoints") == [0, 1, 2]
    assert browser.run("return document.querySelectorAll('#parallel path.dull').length") == 1
    cells = browser.run("return document.getElementById('heat').data[0].z.flat().filter((v) => v !== null).length")
    assert 1 <= cells <= 3
    browser.run("document.getElementById('clear').click()")
    assert selected(browser) == ""
    assert browser.run("return document.querySelectorAll('#parallel path.dull').length") == 0
    assert "all" in browser.run("return document.getElementById('selected').textContent")
    assert total > 3


def test_dragging_along_an_axis_selects(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["sweep"])
    browser.until("return document.documentElement.dataset.selected === ''")
    box = browser.run(
        "const h = document.querySelector('#parallel .handle');"
        "h.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const b = h.getBoundingClientRect(); return [b.x + b.width / 2, b.y, b.height]"
    )
    x, top, height = box
    for kind, y in (("mousePressed", top + 4), ("mouseMoved", top + height / 3), ("mouseReleased", top + height / 2)):
        event = {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
        browser.command("Input.dispatchMouseEvent", event)
    browser.until("return document.documentElement.dataset.selected !== ''")
    values = browser.run(
        "const t = JSON.parse(document.getElementById('page-data').textContent).sweep.columns[0].values;"
        "const chosen = document.getElementById('pareto').data[0].selectedpoints;"
        "return [Math.max(...t), Math.min(...t), chosen.map((i) => t[i])]"
    )
    high, low, kept = values
    assert 0 < len(kept) == int(selected(browser))
    assert min(kept) >= (high + low) / 2 - (high - low) * 0.05


def test_clicking_a_cell_selects_its_points(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["sweep"])
    browser.until("return document.documentElement.dataset.selected === ''")
    browser.run("document.getElementById('heat').emit('plotly_click', { points: [{ x: 0, y: 0 }] })")
    assert int(selected(browser)) >= 1


def test_other_axes_can_be_chosen(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["sweep"])
    browser.until("return document.documentElement.dataset.selected === ''")
    browser.run(
        "const s = document.getElementById('pareto-x');"
        "s.value = 'iteration_time'; s.dispatchEvent(new Event('change'));"
    )
    title = browser.run("return document.getElementById('pareto').layout.xaxis.title.text")
    said = browser.run("return document.querySelector('figure:has(#pareto) .takeaway').textContent")
    assert "iteration_time" in title and "iteration_time" in said
    assert browser.console() == []
