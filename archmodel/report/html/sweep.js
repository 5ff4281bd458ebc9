"use strict";
// The linked figures of a sweep: `state.rows` holds the selected points, null when all are.
window.archmodelDraw = function ({ page, tables, narrow, theme, element }) {
  const sweep = page.sweep;
  if (!sweep) return;
  const columns = sweep.columns;
  const count = columns[0].values.length;
  const every = Array.from({ length: count }, (_, i) => i);
  const by = (name) => columns.find((c) => c.name === name);
  const state = { rows: null, from: "" };
  const all = page.tables.points.rows;
  const title = (c) => ({ text: c.label + (c.unit ? " [" + c.unit + "]" : "") });
  const varies = (c) => new Set(c.values).size > 1;
  const numeric = (c) => !c.kinds;

  function choice(id, among, chosen, then) {
    const select = document.getElementById(id);
    for (const column of among) {
      const option = element("option", column.name);
      option.value = column.name;
      option.selected = column.name === chosen;
      select.append(option);
    }
    select.addEventListener("change", then);
    return () => by(select.value);
  }
  function axis(column) {
    const shared = { title: title(column), automargin: true };
    if (column.kinds) {
      return Object.assign(shared, { tickvals: column.kinds.map((_, i) => i), ticktext: column.kinds });
    }
    return Object.assign(shared, { tickformat: column.unit === "USD" ? ",~g" : "~s", ticksuffix: narrow() || column.unit === "USD" ? "" : column.unit });
  }
  function shown(column, i) {
    const cell = all[i][columns.indexOf(column)];
    const text = Array.isArray(cell) ? cell[0] : cell;
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }
  const told = (i) => columns.filter(varies).slice(0, 14).map((c) => c.label + ": " + shown(c, i)).join("<br>");
  const hover = every.map(told);

  // --- trade-offs -----------------------------------------------------------------------------------------
  function front(x, y) {
    const good = every.filter((i) => x.values[i] !== null && y.values[i] !== null);
    const a = (i) => (x.up ? -1 : 1) * x.values[i];
    const b = (i) => (y.up ? -1 : 1) * y.values[i];
    good.sort((i, j) => a(i) - a(j) || b(i) - b(j));
    const kept = [];
    let least = Infinity, at = null, best = Infinity;
    for (const i of good) {
      if (a(i) !== at) { least = Math.min(least, best); at = a(i); best = b(i); if (best < least) kept.push(i); }
      else if (b(i) === best && best < least) kept.push(i);
    }
    return kept;
  }
  const numbers = columns.filter(numeric);
  const outputs = columns.filter((c) => !c.input && numeric(c));
  const [goal, other] = [sweep.objectives[0] || outputs[0].name, sweep.objectives[1] || outputs[outputs.length - 1].name];
  const paretoY = choice("pareto-y", numbers, goal, redraw);
  const paretoX = choice("pareto-x", numbers, other, redraw);
  const free = columns.filter((c) => varies(c) && ![goal, other].includes(c.name));
  const paretoC = choice("pareto-c", columns.filter(varies), (free[0] || columns[0]).name, redraw);
  function pareto() {
    const x = paretoX(), y = paretoY(), c = paretoC();
    const line = front(x, y);
    const chosen = state.rows === null ? undefined : state.rows;
    const data = [
      { type: "scatter", mode: "markers", name: "points", x: x.values, y: y.values, hovertext: hover, hoverinfo: "text",
        selectedpoints: chosen, unselected: { marker: { opacity: 0.12 } },
        marker: { size: 7, opacity: 0.85, color: c.values, colorscale: sweep.sequential, showscale: !narrow(),
          line: { width: 0.5, color: "rgba(128,128,128,0.7)" },
          colorbar: { title: { text: c.label, side: "right" }, thickness: 12, outlinewidth: 0, tickformat: "~s",
            tickvals: c.kinds && c.kinds.map((_, i) => i), ticktext: c.kinds } } },
      { type: "scatter", mode: "lines+markers", name: "front", x: line.map((i) => x.values[i]), y: line.map((i) => y.values[i]),
        line: { color: sweep.palette.front, width: 1.5, shape: x.up === y.up ? "vh" : "hv" },
        marker: { color: sweep.palette.front, size: 9, symbol: "circle-open", line: { width: 2 } },
        hovertext: line.map((i) => hover[i]), hoverinfo: "text", customdata: line,
        selectedpoints: undefined, unselected: { marker: { opacity: 1 } } },
    ];
    const said = document.querySelector("#pareto").closest("figure").querySelector(".takeaway");
    if (x.name !== other || y.name !== goal) {
      said.textContent = line.length + " of " + count.toLocaleString("en") + " shown points are on the front of " +
        (y.up ? "most " : "least ") + y.name + " and " + (x.up ? "most " : "least ") + x.name + ".";
    } else if (pareto.said) said.textContent = pareto.said;
    else pareto.said = said.textContent;
    return { data, layout: { xaxis: axis(x), yaxis: axis(y), dragmode: "select", hovermode: "closest", height: 460 } };
  }

  // --- all axes: plain SVG, so that it needs neither WebGL nor code made at run time -----------------------
  const SVG = "http://www.w3.org/2000/svg";
  const BINS = 12;
  const ranges = new Map(); // column: [low, high] that is selected on its axis
  function drawn(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function hue(share) {
    const stops = sweep.sequential;
    let at = 1;
    while (at < stops.length - 1 && share > stops[at][0]) at++;
    const [from, to] = [stops[at - 1], stops[at]];
    const u = (share - from[0]) / (to[0] - from[0]);
    const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
    return "rgb(" + [0, 1, 2].map((i) => Math.round(part(from[1], i) + u * (part(to[1], i) - part(from[1], i)))).join(",") + ")";
  }
  const plain = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&#x27;/g, "'").replace(/&amp;/g, "&");
  function extent(column) {
    const known = column.values.filter((v) => v !== null);
    const low = Math.min(...known), high = Math.max(...known);
    return high > low ? [low, high] : [low - 0.5, low + 0.5];
  }
  function parallel(div) {
    const c = by(goal);
    const dims = columns.filter((d) => varies(d) && d !== c).slice(0, narrow() ? 3 : 9).concat([c]);
    const width = div.clientWidth, height = 400, top = 46, bottom = 30;
    const left = 14, right = 54;
    const x = dims.map((_, i) => left + (i * (width - left - right)) / Math.max(dims.length - 1, 1));
    const scales = dims.map((d) => {
      const [low, high] = extent(d);
      return { up: (v) => height - bottom - ((v - low) / (high - low)) * (height - top - bottom),
        back: (y) => low + ((height - bottom - y) / (height - top - bottom)) * (high - low), low, high };
    });
    const svg = drawn("svg", { width, height, viewBox: "0 0 " + width + " " + height, class: "axes" });
    const [low, high] = extent(c);
    const inside = state.rows === null ? null : new Set(state.rows);
    const paths = Array.from({ length: BINS }, () => []);
    const dull = [];
    for (const i of every) {
      let path = "", pen = "M";
      dims.forEach((d, at) => {
        const v = d.values[i];
        if (v === null) { pen = "M"; return; }
        path += pen + x[at].toFixed(1) + " " + scales[at].up(v).toFixed(1);
        pen = "L";
      });
      if (inside && !inside.has(i)) dull.push(path);
      else if (c.values[i] !== null) paths[Math.min(Math.floor(((c.values[i] - low) / (high - low)) * BINS), BINS - 1)].push(path);
    }
    if (dull.length) svg.append(drawn("path", { d: dull.join(""), class: "dull" }));
    const lit = inside ? inside.size : count;
    paths.forEach((members, bin) => {
      const style = { d: members.join(""), stroke: hue((bin + 0.5) / BINS), class: "line", "stroke-opacity": lit > 600 ? 0.35 : 0.7 };
      if (members.length) svg.append(drawn("path", style));
    });
    dims.forEach((d, at) => {
      const scale = scales[at];
      const anchor = at === 0 && dims.length > 1 ? "start" : at === dims.length - 1 ? "end" : "middle";
      const place = at === 0 ? 2 : at === dims.length - 1 ? width - 2 : x[at];
      const room = Math.max(Math.floor((1.4 * width) / dims.length / 6.8), 9);
      const name = plain(d.label).replace(/^system\.(node\.)?/, "") + (d.unit ? " [" + plain(d.unit) + "]" : "");
      const said = name.length > room ? "\u2026" + name.slice(1 - room) : name;
      svg.append(drawn("text", { x: place, y: 13 + (at % 2) * 15, "text-anchor": anchor, class: "name" }, said));
      svg.append(drawn("line", { x1: x[at], x2: x[at], y1: top, y2: height - bottom, class: "axis" }));
      const ticks = d.kinds ? d.kinds.map((k, i) => [i, plain(k)]) : [0, 0.25, 0.5, 0.75, 1].map((u) => {
        const v = scale.low + u * (scale.high - scale.low);
        return [v, d.unit ? si(Number(v.toPrecision(3)), "").trim() : Number(v.toPrecision(4)).toLocaleString("en")];
      });
      for (const [v, text] of ticks.slice(0, 30)) {
        const spot = { x: x[at] + 5, y: scale.up(v) + 4, class: "tick" };
        svg.append(drawn("text", spot, text.length > 14 ? text.slice(0, 13) + "\u2026" : text));
      }
      const range = ranges.get(d);
      const brush = drawn("rect", { x: x[at] - 7, width: 14, y: top, height: 0, class: "brush" });
      if (range) {
        brush.setAttribute("y", scale.up(range[1]));
        brush.setAttribute("height", Math.max(scale.up(range[0]) - scale.up(range[1]), 3));
      }
      const handle = drawn("rect", { x: x[at] - 12, y: top - 6, width: 24, height: height - top - bottom + 12, class: "handle" });
      handle.dataset.column = d.name;
      const at_y = (event) => Math.max(top, Math.min(height - bottom, event.clientY - svg.getBoundingClientRect().top));
      let begin = null;
      handle.addEventListener("pointerdown", (event) => { begin = at_y(event); handle.setPointerCapture(event.pointerId); });
      handle.addEventListener("pointermove", (event) => {
        if (begin === null) return;
        brush.setAttribute("y", Math.min(begin, at_y(event)));
        brush.setAttribute("height", Math.abs(begin - at_y(event)));
      });
      handle.addEventListener("pointerup", (event) => {
        const end = at_y(event);
        if (begin === null) return;
        if (Math.abs(end - begin) < 3) ranges.delete(d);
        else {
          const slack = (scale.high - scale.low) * 1e-9;
          ranges.set(d, [scale.back(Math.max(begin, end)) - slack, scale.back(Math.min(begin, end)) + slack]);
        }
        begin = null;
        select(ranges.size ? every.filter((i) => Array.from(ranges).every(([col, [a, b]]) => col.values[i] !== null && col.values[i] >= a && col.values[i] <= b)) : null, "parallel");
      });
      svg.append(brush, handle);
    });
    div.replaceChildren(svg);
  }

  // --- two axes -------------------------------------------------------------------------------------------
  const inputs = columns.filter((c) => c.input && varies(c));
  const axes = inputs.length ? inputs : columns.filter(varies);
  const heatX = choice("heat-x", axes, sweep.axes[0], redraw);
  const heatY = choice("heat-y", inputs.length > 1 ? axes : columns.filter(varies), sweep.axes[1] || goal, redraw);
  const heatZ = choice("heat-z", numbers, goal, redraw);
  const CELLS = 24;
  function cells(column) {
    const distinct = Array.from(new Set(column.values.filter((v) => v !== null))).sort((a, b) => a - b);
    if (column.kinds) return { of: column.values, names: column.kinds };
    const format = (v) => Number(v.toPrecision(4));
    if (distinct.length <= CELLS) {
      const place = new Map(distinct.map((v, i) => [v, i]));
      return { of: column.values.map((v) => (v === null ? null : place.get(v))), names: distinct.map((v) => amount(format(v), column.unit)) };
    }
    const low = distinct[0], high = distinct[distinct.length - 1];
    const log = low > 0 && high / low > 100;
    const scale = (v) => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    const back = (u) => (log ? low * Math.pow(high / low, u) : low + u * (high - low));
    const bins = 12;
    return {
      of: column.values.map((v) => (v === null ? null : Math.min(Math.floor(scale(v) * bins), bins - 1))),
      names: Array.from({ length: bins }, (_, i) => amount(format(back(i / bins)), column.unit) + " to " + amount(format(back((i + 1) / bins)), column.unit)),
    };
  }
  function si(value, unit) {
    if (value === 0) return "0 " + unit;
    const steps = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"], [1e-12, "p"]];
    const [size, prefix] = steps.find(([s]) => Math.abs(value) >= s) || [1, ""];
    return String(Number((value / size).toPrecision(4))) + " " + prefix + unit;
  }
  const amount = (v, unit) => (unit ? si(v, unit) : Number(v.toPrecision(5)).toLocaleString("en"));
  function heat() {
    const x = heatX(), y = heatY(), z = heatZ();
    const across = cells(x), up = cells(y);
    const grid = up.names.map(() => across.names.map(() => null));
    heat.rows = up.names.map(() => across.names.map(() => []));
    const wanted = state.rows === null || state.from === "heat" ? every : state.rows;
    for (const i of wanted) {
      const a = across.of[i], b = up.of[i], v = z.values[i];
      if (a === null || b === null || v === null) continue;
      heat.rows[b][a].push(i);
      const best = grid[b][a];
      if (best === null || (z.up ? v > best : v < best)) grid[b][a] = v;
    }
    const told = grid.map((row, b) => row.map((v, a) => v === null ? "" :
      x.label + ": " + across.names[a] + "<br>" + y.label + ": " + up.names[b] + "<br>" + (z.up ? "most " : "least ") + z.label + ": " +
      amount(v, z.unit) + "<br>points: " + heat.rows[b][a].length));
    const data = [{
      type: "heatmap", x: across.names.map((_, i) => i), y: up.names.map((_, i) => i), z: grid, text: told, hoverinfo: "text",
      colorscale: sweep.sequential, hoverongaps: false, xgap: 1, ygap: 1,
      colorbar: { title: { text: z.label + (z.unit ? " [" + z.unit + "]" : ""), side: "right" }, tickformat: "~s", thickness: 12, outlinewidth: 0 },
    }];
    const ticks = (names) => ({ tickvals: names.map((_, i) => i), ticktext: names, showgrid: false, automargin: true, zeroline: false });
    return {
      data,
      layout: { height: 420, xaxis: Object.assign(ticks(across.names), { title: { text: x.label } }),
        yaxis: Object.assign(ticks(up.names), { title: { text: y.label } }) },
    };
  }

  // --- together -------------------------------------------------------------------------------------------
  const makers = { pareto, heat };
  for (const name of Object.keys(makers)) page.figures[name] = Object.assign(makers[name](), { narrow: {} });
  page.figures.parallel = { custom: parallel };
  window.addEventListener("resize", () => parallel(document.getElementById("parallel")));
  function redraw() {
    for (const name of Object.keys(makers)) {
      const div = document.getElementById(name);
      if (!div.data) continue;
      const made = makers[name]();
      made.layout.template = page.themes[document.documentElement.dataset.theme];
      made.layout.autosize = true;
      if (narrow() && name !== "pareto") made.layout.dragmode = false;
      Plotly.react(div, made.data, made.layout, { responsive: true, displayModeBar: false });
    }
    parallel(document.getElementById("parallel"));
  }
  const counted = (n) => n.toLocaleString("en");
  function select(rows, from) {
    state.rows = rows && rows.length < count ? rows : null;
    state.from = state.rows === null ? "" : from;
    if (from !== "parallel") ranges.clear();
    tables.points(state.rows === null ? all : state.rows.map((i) => all[i]));
    document.getElementById("selected").textContent = state.rows === null
      ? "No selection; all " + counted(count) + " points."
      : counted(state.rows.length) + " of " + counted(count) + " points selected.";
    document.documentElement.dataset.selected = state.rows === null ? "" : String(state.rows.length);
    redraw();
  }
  function listen() {
    if (document.documentElement.dataset.ready !== "true") return setTimeout(listen, 30);
    const at = (name) => document.getElementById(name);
    at("pareto").on("plotly_selected", (event) => {
      if (!event || !event.points) return;
      const rows = event.points.map((p) => (p.curveNumber === 0 ? p.pointNumber : p.customdata));
      if (rows.length) select(Array.from(new Set(rows)).sort((a, b) => a - b), "pareto");
    });
    at("pareto").on("plotly_deselect", () => select(null, ""));
    at("heat").on("plotly_click", (event) => {
      const p = event.points[0];
      select(heat.rows[p.y][p.x], "heat");
    });
    document.getElementById("clear").addEventListener("click", () => select(null, ""));
    select(null, "");
  }
  listen();
};
