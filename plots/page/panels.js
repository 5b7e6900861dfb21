// The four panels. What is said of a point is read out of results.csv.

const hidden = { networks: new Set(), stores: new Set() };
let logarithmic = true;
let zoom = 0; // another number forgets how far panels are zoomed

const PANELS = {
  rate: { column: "images_per_second", unit: "images/s", log: true },
  speedup: { column: "speedup_device", unit: "times one device", log: true },
  efficiency: { column: "efficiency_device", unit: "% of ideal", factor: 100 },
  windows: { unit: "seconds" },
};

function shown(row) {
  return !hidden.networks.has(row.network) && !hidden.stores.has(row.kvstore);
}

/** The points of a line that are switched on, each with its row and its place along the axis. */
function pointsOf(line, at, drawing) {
  const shift = 1.012 ** (at - (drawing.lines.length - 1) / 2); // so that bars do not hide bars
  return line.points
    .map((point) => ({ ...point, cells: drawing.rows[point.row] }))
    .filter(({ cells }) => shown(cells))
    .map((point) => ({ ...point, x: Number(point.cells.devices) * shift }));
}

/** [value, low, high] of a point in a panel, or null; low and high may be missing. */
function valueOf(point, id) {
  const { column, factor = 1 } = PANELS[id];
  const text = point.cells[column];
  if (!text) return null;
  const value = Number(text) * factor;
  if (id === "rate") {
    return point.cells.low ? [value, Number(point.cells.low), Number(point.cells.high)] : [value];
  }
  const speedup = Number(point.cells.speedup_device);
  return point.speedup ? [value, ...point.speedup.map((end) => (end / speedup) * value)] : [value];
}

function hoverOf(point, id, drawing) {
  const { cells } = point;
  const lines = [`<b>${plain(drawing.names[point.row])}</b>`];
  if (drawing === data.over) lines.push(plain(drawing.name));
  lines.push(`images/s: ${cells.images_per_second}`);
  if (cells.low) lines.push(`95 %: ${cells.low} to ${cells.high}`);
  if (cells.speedup_device) {
    lines.push(`speed-up: ${cells.speedup_device}`, `efficiency: ${cells.efficiency_device}`);
    if (id !== "rate" && point.speedup) {
      const ends = id === "speedup" ? point.speedup : valueOf(point, "efficiency").slice(1);
      lines.push(`95 %: ${ends.map(short).join(" to ")}${id === "speedup" ? "" : " % of ideal"}`);
    }
  }
  if (cells.emulated === "True") lines.push("emulated: not a claim about speed");
  return lines.join("<br>");
}

function lineTrace(line, points, id, drawing) {
  const { ink, paper } = colours();
  const over = drawing === data.over;
  const colour = over ? "#8a8f94" : line.colour === "#000000" ? ink : line.colour;
  const kept = points.filter((point) => valueOf(point, id));
  const values = kept.map((point) => valueOf(point, id));
  return {
    x: kept.map((point) => point.x),
    y: values.map(([value]) => value),
    error_y: {
      type: "data",
      array: values.map(([value, , high = value]) => high - value),
      arrayminus: values.map(([value, low = value]) => value - low),
      color: colour,
      thickness: 1.2,
      width: 3,
    },
    mode: "lines+markers",
    line: { color: colour, width: 1.8, dash: over ? "dash" : line.dash },
    marker: {
      symbol: line.marker,
      size: over ? 6 : 8,
      color: kept.map(({ cells }) => (cells.emulated === "True" ? paper : colour)),
      line: { color: colour, width: 1.8 },
      opacity: 1,
    },
    hoverinfo: "text",
    hovertext: kept.map((point) => hoverOf(point, id, drawing)),
    customdata: kept.map((point) => (over ? null : point.row)),
    opacity: over ? 0.75 : 1,
  };
}

/** Every window that counts as a dot, and a bar at their median. */
function windowTraces(line, points) {
  const { ink, paper } = colours();
  const colour = line.colour === "#000000" ? ink : line.colour;
  const dots = points.flatMap((point) => point.windows.map((seconds) => ({ point, seconds })));
  const fills = dots.map(({ point }) => (point.cells.emulated === "True" ? paper : colour));
  const hover = ({ point, seconds }) =>
    `<b>${plain(data.run.names[point.row])}</b><br>a window: ${seconds} s<br>of ${point.of}`;
  const medians = points.filter((point) => point.windows.length > 0);
  const middle = ({ windows }) =>
    (windows[(windows.length - 1) >> 1] + windows[windows.length >> 1]) / 2;
  return [
    {
      x: dots.map(({ point }) => point.x),
      y: dots.map(({ seconds }) => seconds),
      mode: "markers",
      marker: { symbol: line.marker, size: 5, color: fills, line: { color: colour, width: 1 } },
      opacity: 0.55,
      hoverinfo: "text",
      hovertext: dots.map(hover),
      customdata: dots.map(({ point }) => point.row),
    },
    {
      x: medians.map((point) => point.x),
      y: medians.map(middle),
      mode: "markers",
      marker: { symbol: "line-ew", size: 18, line: { color: colour, width: 2.5 } },
      hoverinfo: "text",
      hovertext: medians.map(
        (point) =>
          `<b>${plain(data.run.names[point.row])}</b><br>median window: ${short(middle(point))} s`,
      ),
      customdata: medians.map((point) => point.row),
    },
  ];
}

/** Points without a number, on the bottom of the panel. */
function failedTrace() {
  const rows = data.run.failed.filter((row) => shown(data.run.rows[row]));
  const text = ({ status, message }) => plain(`${status}: ${message.slice(0, 300)}`);
  return {
    x: rows.map((row) => Number(data.run.rows[row].devices)),
    y: rows.map(() => 0),
    yaxis: "y2",
    mode: "markers",
    cliponaxis: false,
    marker: { symbol: "x-thin", size: 10, line: { color: colours().bad, width: 2.5 } },
    hoverinfo: "text",
    hovertext: rows.map(
      (row) =>
        `<b>${plain(data.run.names[row])}</b><br>` +
        text(data.run.rows[row]).replace(/(.{50}\S*)\s/g, "$1<br>"),
    ),
    customdata: rows,
  };
}

function dotted(x, y) {
  const line = { color: colours().quiet, width: 1.2, dash: "dot" };
  return { x, y, mode: "lines", line, hoverinfo: "skip" };
}

/** What perfect scaling would be, between the least and the greatest device count. */
function idealTraces(id, counts, lines) {
  if (counts.length < 2 || id === "windows") return [];
  const ends = [counts[0], counts[counts.length - 1]];
  // On linear axes too a straight line, so two ends will do.
  if (id === "efficiency") return [dotted(ends, [100, 100])];
  if (id === "speedup") return [dotted(ends, ends)];
  const rates = new Set(lines.map(({ one }) => one).filter((one) => one !== null));
  return [...rates].map((one) => dotted(ends, ends.map((count) => count * one)));
}

/** The real device counts, without those whose label would run into another's. */
function ticks(counts, width) {
  const place = (count) => (logarithmic ? Math.log2(count) : count);
  const span = place(counts[counts.length - 1]) - place(counts[0]) || 1;
  const least = (span * 30) / Math.max(width - 90, 100);
  const kept = [];
  for (const count of [...counts].reverse()) {
    if (kept.length === 0 || place(kept[0]) - place(count) >= least) kept.unshift(count);
  }
  return kept;
}

function deviceAxis(counts, box) {
  if (counts.length === 0) return { visible: false };
  const [first, last] = [counts[0], counts[counts.length - 1]];
  const room = Math.max(0.06 * (last - first), 0.3);
  const shownTicks = ticks(counts, box.clientWidth);
  return {
    type: logarithmic ? "log" : "linear",
    range: logarithmic
      ? [Math.log10(first / 1.35), Math.log10(last * 1.35)]
      : [Math.max(0, first - room), last + room],
    tickvals: shownTicks,
    ticktext: shownTicks.map(String),
    // Unseen, so that a cross on the axis does not stand on a number.
    ticks: "outside",
    ticklen: 7,
    tickcolor: "rgba(0,0,0,0)",
    tickangle: 0,
    title: { text: "devices", standoff: 6 },
  };
}

/** Lines at 1, 10, 100; also at 2 and 5 where that leaves room; else as Plotly likes. */
function logStep(values) {
  const decades = Math.log10(Math.max(...values) / Math.min(...values));
  if (decades > 2.2) return { dtick: 1 };
  return decades > 0.7 ? { dtick: "D2" } : {};
}

function valueAxis(id, traces) {
  const { log, unit } = PANELS[id];
  const values = traces.filter((trace) => trace.yaxis !== "y2").flatMap((trace) => trace.y);
  const common = { title: { text: unit, standoff: 8 }, exponentformat: "none" };
  if (log && logarithmic) return { ...common, type: "log", ...logStep(values) };
  return { ...common, type: "linear", rangemode: "tozero", separatethousands: true };
}

/** Says that a panel is empty; else a dashed line where jobs begin to take more than one host. */
function marks(empty) {
  const { quiet } = colours();
  const at = data.run.second_host;
  if (empty) {
    const middle = { x: 0.5, y: 0.5, xref: "paper", yref: "paper", font: { color: quiet } };
    return { annotations: [{ ...middle, text: "nothing to draw", showarrow: false }] };
  }
  if (at === null) return {};
  const line = { color: quiet, width: 1, dash: "dash" };
  const x = logarithmic ? Math.log10(at) : at;
  const label = { text: "2 hosts", xanchor: "left", yanchor: "top", font: { size: 11, color: quiet } };
  return {
    shapes: [{ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line }],
    annotations: [{ ...label, x, y: 1, yref: "paper", showarrow: false }],
  };
}

function drawPanel(id) {
  const box = document.getElementById(id);
  const { layout, axis } = baseLayout(box);
  const kept = data.run.lines.map((line, at) => [line, pointsOf(line, at, data.run)]);
  const behind = (data.over?.lines ?? []).map((line, at) => [line, pointsOf(line, at, data.over)]);
  const visible = kept.filter(([, points]) => points.length > 0);
  const failed = data.run.failed.filter((row) => shown(data.run.rows[row]));
  const rows = [
    ...[...kept, ...behind].flatMap(([, points]) => points.map(({ cells }) => cells)),
    ...failed.map((row) => data.run.rows[row]),
  ];
  const counts = [...new Set(rows.map(({ devices }) => Number(devices)))].sort((a, b) => a - b);
  const traces = [];
  if (id === "windows") {
    traces.push(...visible.flatMap(([line, points]) => windowTraces(line, points)));
  } else {
    traces.push(...behind.map(([line, points]) => lineTrace(line, points, id, data.over)));
    traces.push(...visible.map(([line, points]) => lineTrace(line, points, id, data.run)));
  }
  const empty = !traces.some(({ x }) => x.length > 0);
  if (!empty) traces.unshift(...idealTraces(id, counts, visible.map(([line]) => line)));
  traces.push(failedTrace());
  Plotly.react(
    box,
    traces,
    {
      ...layout,
      uirevision: `${zoom}`,
      ...marks(empty),
      hovermode: "closest",
      xaxis: { ...axis, ...deviceAxis(counts, box) },
      yaxis: { ...axis, ...valueAxis(id, traces), showticklabels: !empty },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    },
    plotConfig,
  );
}

const panelIds = document.getElementById("rate") ? Object.keys(PANELS) : [];

function drawPanels() {
  panelIds.forEach(drawPanel);
}

redraws.push(drawPanels);
