// The four panels. The values of a point come from results.csv.

const UNSEEN = { visible: false };
const EFFICIENCIES = { [BASE]: "efficiency", host: "efficiency vs 1 host", worker: "efficiency vs 1 worker" };
const hidden = { networks: new Set(), stores: new Set() };

/** The theme's text color in place of black, otherwise the color itself. */
function visibleColor(color) {
  return color === "#000000" ? colors().ink : color;
}

function shown(row) {
  return !hidden.networks.has(row.network) && !hidden.stores.has(row.kvstore);
}

/** The visible points of a line, each with its cells and its place on the device axis. */
function pointsOf(line, at, drawing, last) {
  return line.points
    .map((point) => ({ ...point, cells: drawing.rows[point.row] }))
    .filter(({ cells }) => shown(cells))
    .map((point) => {
      const devices = Number(point.cells.devices);
      return { ...point, devices, x: beside(devices, at, drawing.lines.length, last) };
    });
}

/** The points of a line, with gaps at the device counts where a point of it failed. */
function withGaps(line, points, drawing) {
  const counts = points.map(({ devices }) => devices);
  const stores = points.map(({ cells }) => cells.kvstore);
  const isSpanned = (devices) =>
    !counts.includes(devices) && devices > counts[0] && devices < counts[counts.length - 1];
  const gaps = drawing.failed
    .filter(({ network }) => network === line.network)
    .map(({ row }) => drawing.rows[row])
    .filter((cells) => shown(cells) && stores.includes(cells.kvstore))
    .map((cells) => ({ row: null, cells, devices: Number(cells.devices), x: Number(cells.devices) }))
    .filter(({ devices }) => isSpanned(devices));
  return [...points, ...gaps].sort((one, other) => one.devices - other.devices);
}

/** [value, low, high] of a point in a panel, or null; low and high may be missing. */
function valueOf(point, id) {
  if (id === "ratio") return data.ratios[point.row]?.filter((end) => end !== null) ?? null;
  const { column, factor = 1 } = PANELS[id];
  const text = point.cells[column];
  if (!text) return null;
  const value = Number(text) * factor;
  if (id === "rate") {
    return point.cells.low ? [value, Number(point.cells.low), Number(point.cells.high)] : [value];
  }
  const speedup = Number(point.cells[PANELS.speedup.column]);
  return point.speedup ? [value, ...point.speedup.map((end) => (end / speedup) * value)] : [value];
}

/** An efficiency with its interval: '86.0 % (95 % CI 47.0 to 156.0)'. */
function percentOf(cells, base) {
  const [value, ...ends] = ["", "_low", "_high"].map((end) => cells[`efficiency_${base}${end}`]);
  const shown = (text) => (100 * Number(text)).toFixed(1);
  return ends.every(Boolean)
    ? `${shown(value)} % (95 % CI ${ends.map(shown).join(" to ")})`
    : `${shown(value)} %`;
}

function hoverOf(point, drawing) {
  const { cells } = point;
  const lines = [`<b>${plain(drawing.names[point.row])}</b>`];
  if (drawing === data.over) lines.push(plain(drawing.name));
  lines.push(`images/s: ${six(cells.images_per_second)}`);
  if (cells.low) lines.push(`95 % CI: ${six(cells.low)} to ${six(cells.high)}`);
  if (cells[`speedup_${BASE}`]) {
    lines.push(`speed-up: ${six(cells[`speedup_${BASE}`])}`);
    if (point.speedup) lines.push(`95 % CI: ${point.speedup.map(six).join(" to ")}`);
  }
  const ratio = drawing === data.run && data.ratios?.[point.row];
  if (ratio) {
    const [value, ...ends] = ratio.map((end) => end?.toFixed(3));
    const interval = ends.every(Boolean) ? ` (95 % CI ${ends.join(" to ")})` : "";
    lines.push(`ratio to ${plain(data.over.name)}: ${value}${interval}`);
  }
  for (const [base, name] of Object.entries(EFFICIENCIES)) {
    if (cells[`efficiency_${base}`]) lines.push(`${name}: ${percentOf(cells, base)}`);
  }
  if (cells.emulated === "True") lines.push("oversubscribed: not a performance result");
  for (const mark of point.marks) lines.push(`! ${plain(mark)}`);
  return lines.join("<br>");
}

/** Whether a point has caveats. */
function isRinged(point, over) {
  return !over && point.marks?.length > 0;
}

function lineTrace(line, points, id, drawing) {
  const { paper, bad } = colors();
  const over = drawing === data.over;
  const color = over ? "#8a8f94" : visibleColor(line.color);
  const kept = withGaps(line, points.filter((point) => valueOf(point, id)), drawing);
  const values = kept.map((point) => valueOf(point, id) ?? [null]);
  const ringed = kept.map((point) => isRinged(point, over));
  return {
    name: plain(over ? `${line.label} (${drawing.name})` : line.label),
    x: kept.map((point) => point.x),
    y: values.map(([value]) => value),
    error_y: {
      type: "data",
      array: values.map(([value, , high = value]) => high - value),
      arrayminus: values.map(([value, low = value]) => value - low),
      color: color,
      thickness: 1.2,
      width: 3,
    },
    mode: "lines+markers",
    connectgaps: false,
    line: { color: color, width: 1.8, dash: over ? "dash" : line.dash },
    marker: {
      symbol: line.marker,
      size: ringed.some(Boolean) ? ringed.map((is) => (is ? 13 : 8)) : over ? 6 : 8,
      color: kept.map(({ cells }) => (cells.emulated === "True" ? paper : color)),
      line: ringed.some(Boolean)
        ? { color: ringed.map((is) => (is ? bad : color)), width: ringed.map((is) => (is ? 2.8 : 1.8)) }
        : { color: color, width: 1.8 },
      opacity: 1,
    },
    hoverinfo: "text",
    hovertext: kept.map((point) => (point.row === null ? "" : hoverOf(point, drawing))),
    customdata: kept.map((point) => (over ? null : point.row)),
    opacity: over ? 0.75 : 1,
  };
}

/** Every counted window as a dot, and a bar at their median. */
function windowTraces(line, points) {
  const { paper } = colors();
  const color = visibleColor(line.color);
  const dots = points.flatMap((point) => point.windows.map((seconds) => ({ point, seconds })));
  const fills = dots.map(({ point }) => (point.cells.emulated === "True" ? paper : color));
  const hover = ({ point, seconds }) =>
    `<b>${plain(data.run.names[point.row])}</b><br>one of ${point.of} windows: ${seconds} s`;
  const medians = points.filter((point) => point.windows.length > 0);
  const middle = ({ windows }) =>
    (windows[(windows.length - 1) >> 1] + windows[windows.length >> 1]) / 2;
  return [
    {
      x: dots.map(({ point }) => point.x),
      y: dots.map(({ seconds }) => seconds),
      mode: "markers",
      marker: { symbol: line.marker, size: 5, color: fills, line: { color: color, width: 1 } },
      opacity: 0.55,
      hoverinfo: "text",
      hovertext: dots.map(hover),
      customdata: dots.map(({ point }) => point.row),
    },
    {
      name: plain(line.label),
      x: medians.map((point) => point.x),
      y: medians.map(middle),
      mode: "markers",
      marker: { symbol: "line-ew", size: 18, line: { color: color, width: 2.5 } },
      hoverinfo: "text",
      hovertext: medians.map(
        (point) =>
          `<b>${plain(data.run.names[point.row])}</b><br>median window: ${short(middle(point))} s`,
      ),
      customdata: medians.map((point) => point.row),
    },
  ];
}

/** The traces of a panel, those of the overlaid run first; for windows, dots and bars. */
function lineTraces(id, visible, last) {
  if (id === "windows") return visible.flatMap(([line, points]) => windowTraces(line, points));
  const behind = id === "ratio" ? [] : (data.over?.lines ?? []);
  return [
    ...behind.map((line, at) => lineTrace(line, pointsOf(line, at, data.over, last), id, data.over)),
    ...visible.map(([line, points]) => lineTrace(line, points, id, data.run)),
  ];
}

/** The device counts of all visible points. */
function countsShown() {
  const of = (drawing) => drawing.lines.flatMap(({ points }) => points.map(({ row }) => drawing.rows[row]));
  const failed = data.run.failed.map(({ row }) => data.run.rows[row]);
  const rows = [...of(data.run), ...(data.over ? of(data.over) : []), ...failed].filter(shown);
  return [...new Set(rows.map(({ devices }) => Number(devices)))].sort((a, b) => a - b);
}

function drawPanel(id) {
  const box = document.getElementById(id);
  const { layout, axis } = baseLayout(box);
  const counts = countsShown();
  const last = counts[counts.length - 1];
  const all = data.run.lines.map((line, at) => [line, pointsOf(line, at, data.run, last)]);
  const visible = all.filter(([, points]) => points.length > 0);
  const traces = lineTraces(id, visible, last);
  const empty = !traces.some(({ x }) => x.length > 0);
  if (!empty) {
    if (id === "rate") traces.push(...ceilingTraces(traces));
    traces.unshift(...idealTraces(id, counts, visible));
  }
  const failed = failedTrace();
  const yaxis = valueAxis(id, traces);
  const labels = endLabels(id, visible, yaxis, layout);
  layout.margin.r += labels.width;
  const xaxis = deviceAxis(counts, layout.width - labels.width);
  const hosts = secondHost();
  Plotly.react(
    box,
    [...traces, failed],
    {
      ...layout,
      uirevision: `${zoom}`,
      ...(empty
        ? whyEmpty(id, counts.length > 0)
        : { ...hosts, annotations: [...hosts.annotations, ...labels.annotations] }),
      hovermode: "closest",
      xaxis: { ...axis, ...xaxis, ...(empty && failed.x.length === 0 && UNSEEN) },
      yaxis: { ...axis, ...yaxis, ...(empty && UNSEEN) },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    },
    plotConfig,
  );
  if (empty) return;
  tickValues(box);
  const whole = { "xaxis.range": [...xaxis.range], "yaxis.range": [...yaxis.range] };
  onDoubleClick(box, () => structuredClone(whole));
}

const panelIds = document.getElementById("rate") ? Object.keys(PANELS) : [];

function drawPanels() {
  panelIds.forEach(drawPanel);
}

redraws.push(drawPanels);

/** Renew the ticks after each zoom. */
function watchZoom() {
  for (const box of panelIds.map((id) => document.getElementById(id))) {
    box.on("plotly_relayout", () => tickValues(box));
  }
}
