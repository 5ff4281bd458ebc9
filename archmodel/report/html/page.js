"use strict";
(function () {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const root = document.documentElement;
  const narrow = () => window.innerWidth < 600;
  const plots = () => Array.from(document.querySelectorAll(".plot")).filter((div) => div.data);

  // --- themes ---------------------------------------------------------------------------------------------
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const theme = () => chosen || (dark.matches ? "dark" : "light");
  function apply(name) {
    root.dataset.theme = name;
    const button = document.getElementById("theme");
    button.textContent = name === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", "switch to the " + button.textContent + " theme");
    for (const div of plots()) Plotly.relayout(div, { template: page.themes[name] });
  }
  dark.addEventListener("change", () => apply(theme()));
  document.getElementById("theme").addEventListener("click", () => {
    chosen = theme() === "dark" ? "light" : "dark";
    apply(chosen);
  });
  document.getElementById("print").addEventListener("click", () => window.print());
  window.addEventListener("beforeprint", () => {
    waiting.splice(0).forEach(draw);
    apply("light");
    for (const div of plots()) Plotly.relayout(div, { width: 690 });
  });
  window.addEventListener("afterprint", () => {
    for (const div of plots()) Plotly.relayout(div, { width: null, autosize: true });
    apply(theme());
  });

  // --- figures --------------------------------------------------------------------------------------------
  function set(layout, path, value) {
    const keys = path.split(".");
    let at = layout;
    for (const key of keys.slice(0, -1)) at = at[key] = Object.assign({}, at[key]);
    at[keys[keys.length - 1]] = value;
  }
  function draw(div) {
    const figure = page.figures[div.id];
    if (figure.custom) {
      div.closest("figure").querySelector("button.png").hidden = true;
      return Promise.resolve(figure.custom(div));
    }
    for (const trace of figure.texts ? figure.data : []) {
      if (trace.hovertext) trace.hovertext = trace.hovertext.map((place) => figure.texts[place]);
    }
    const layout = Object.assign({}, figure.layout, { template: page.themes[theme()], autosize: true });
    if (narrow()) {
      for (const path of Object.keys(figure.narrow)) set(layout, path, figure.narrow[path]);
      if (!layout.dragmode) layout.dragmode = false; // a finger scrolls the page
    }
    return Plotly.newPlot(div, figure.data, layout, { responsive: true, displayModeBar: false }).then(() => linked(div));
  }
  for (const button of document.querySelectorAll("button.png")) {
    button.addEventListener("click", () => {
      const name = button.dataset.figure;
      Plotly.downloadImage(document.getElementById(name), { format: "png", scale: 2, filename: name });
    });
  }
  function linked(div) {
    if (div.id !== "timeline" && div.id !== "roofline") return;
    div.on("plotly_click", (event) => {
      const op = event.points[0].customdata;
      const laws = Array.from(document.querySelectorAll("details.law"));
      const law = laws.find((item) => item.dataset.ops.split(" ").includes(op));
      if (!law) return;
      for (const item of laws) item.open = item === law;
      law.scrollIntoView({ block: "center" });
    });
  }

  // --- tables ---------------------------------------------------------------------------------------------
  const text = (cell) => (Array.isArray(cell) ? cell[0] : cell);
  const order = (cell) => (Array.isArray(cell) ? cell[1] : cell);
  function element(name, content, kind) {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    if (kind) made.className = kind;
    return made;
  }
  function compare(a, b) {
    if (a === b) return 0;
    if (a === null) return 1; // unknown numbers last
    if (b === null) return -1;
    if (typeof a === "number") return a - b;
    return a.localeCompare(b, "en", { numeric: true });
  }
  function csv(table, rows) {
    const cell = (value) => {
      if (typeof value === "number") return String(value);
      let plain = value === null || value === undefined ? "" : String(value);
      if (/^[=+\-@\t\r]/.test(plain)) plain = "'" + plain; // a spreadsheet must not take it for a formula
      return '"' + plain.replace(/"/g, '""') + '"';
    };
    const head = table.columns.map((c) => cell(c.unit && c.unit !== "number" ? c.name + " [" + c.unit + "]" : c.name));
    return [head].concat(rows.map((row) => row.map((c) => cell(order(c))))).map((row) => row.join(",")).join("\r\n") + "\r\n";
  }
  function save(name, content) {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([content], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  function build(host) {
    const table = page.tables[host.dataset.table];
    const state = { column: -1, up: true, find: "", shown: table.page, rows: table.rows };
    const bar = element("div", undefined, "bar");
    const find = element("input");
    find.type = "search";
    find.placeholder = "search " + table.rows.length.toLocaleString("en") + " rows";
    find.setAttribute("aria-label", "search this table");
    const download = element("button", "CSV");
    download.type = "button";
    const more = element("button", "show all");
    more.type = "button";
    const counted = element("span", "", "count");
    if (table.rows.length > 6) bar.append(find);
    bar.append(download, more, counted);
    const frame = element("table");
    const head = element("tr");
    table.columns.forEach((column, index) => {
      const cell = element("th", column.name, "sortable" + (column.unit ? " number" : ""));
      cell.tabIndex = 0;
      cell.setAttribute("aria-sort", "none");
      const sort = () => {
        state.up = state.column === index ? !state.up : !column.unit;
        state.column = index;
        update();
      };
      cell.addEventListener("click", sort);
      cell.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
      });
      head.append(cell);
    });
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    frame.append(top, body);
    const scroll = element("div", undefined, "scroll");
    scroll.append(frame);
    host.append(bar, scroll);
    function update() {
      const wanted = state.find.toLowerCase().split(/\s+/).filter(Boolean);
      state.rows = table.rows.filter((row) => {
        if (!wanted.length) return true;
        const all = row.map(text).join("\u0000").toLowerCase();
        return wanted.every((word) => all.includes(word));
      });
      if (state.column >= 0) {
        const sign = state.up ? 1 : -1;
        const at = state.column;
        state.rows = state.rows.slice().sort((a, b) => {
          const x = order(a[at]), y = order(b[at]);
          return x === null || y === null ? compare(x, y) : sign * compare(x, y);
        });
      }
      Array.from(head.children).forEach((cell, index) =>
        cell.setAttribute("aria-sort", index !== state.column ? "none" : state.up ? "ascending" : "descending"));
      body.replaceChildren(...state.rows.slice(0, state.shown).map((row) => {
        const line = element("tr");
        row.forEach((cell, index) => {
          const kind = table.columns[index].unit ? "number" : text(cell).length > 60 ? "long" : text(cell).length > 12 ? "wide" : "";
          line.append(element("td", text(cell), kind));
        });
        return line;
      }));
      const hidden = state.rows.length - Math.min(state.shown, state.rows.length);
      more.hidden = hidden <= 0;
      more.textContent = "show all " + state.rows.length.toLocaleString("en");
      const parts = [];
      if (wanted.length) parts.push(state.rows.length.toLocaleString("en") + " of " + table.rows.length.toLocaleString("en") + " rows match");
      if (table.left_out) parts.push(table.left_out.toLocaleString("en") + " more rows are not on this page");
      counted.textContent = parts.join("; ");
    }
    find.addEventListener("input", () => { state.find = find.value; update(); });
    more.addEventListener("click", () => { state.shown = Infinity; update(); });
    download.addEventListener("click", () => save(host.dataset.table + ".csv", csv(table, state.rows)));
    update();
    tables[host.dataset.table] = (rows) => { table.rows = rows; find.placeholder = "search " + rows.length.toLocaleString("en") + " rows"; update(); };
  }
  const tables = {}; // by name: shows other rows

  // --- begin ----------------------------------------------------------------------------------------------
  apply(theme());
  document.querySelectorAll(".table").forEach(build);
  // Plotly comes after this script, so that text and tables are there before it. What is in the window is drawn first, the
  // rest when the browser has nothing else to do.
  const waiting = Array.from(document.querySelectorAll(".plot"));
  const idle = window.requestIdleCallback || ((then) => setTimeout(then, 0));
  const inSight = (div) => {
    const box = div.getBoundingClientRect();
    return box.bottom > -100 && box.top < window.innerHeight + 100;
  };
  function next() {
    const seen = waiting.findIndex(inSight);
    if (seen < 0 && !root.dataset.usable) {
      root.dataset.usable = "true";
      performance.mark("usable");
      idle(next, { timeout: 100 });
      return;
    }
    const div = waiting.splice(Math.max(seen, 0), 1)[0];
    if (!div) root.dataset.ready = "true";
    else draw(div).then(() => (seen < 0 ? idle(next, { timeout: 100 }) : setTimeout(next, 0)));
  }
  if (window.archmodelDraw) window.archmodelDraw({ page, tables, narrow, theme, element });
  document.addEventListener("DOMContentLoaded", next);
})();
