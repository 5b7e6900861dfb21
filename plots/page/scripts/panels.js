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

const GAP = { row: null, x: null, cells: {}, windows: [] }; // between lines of one trace
const CROWDED = 500; // marks of a panel; Plotly is slow with more
const hovers = new Map(); // texts by point; panels share them

function hoverText(point, drawing) {
  if (point.row === null) return "";
  const key = drawing === data.over ? -1 - point.row : point.row;
  if (!hovers.has(key)) hovers.set(key, hoverOf(point, drawing));
  return hovers.get(key);
}

/** Lines with their points, in groups of equal properties; each group is one trace. */
function alike(visible, properties) {
  const groups = new Map();
  for (const [line, points] of visible) {
    const looks = properties.map((name) => line[name]).join();
    groups.set(looks, [...(groups.get(looks) ?? []), [line, points]]);
  }
  return [...groups.values()];
}

/** The name of a group of lines, for the legend of a picture. */
function groupName(group) {
  const [[{ label, network }]] = group;
  return group.length === 1 ? label : `${network}, ${group.length} lines`;
}

/** The items of several lists, with a gap between the lists. */
function chained(lists, gap) {
  return lists.filter((list) => list.length > 0).flatMap((list, at) => (at > 0 ? [gap, ...list] : list));
}

/** Whether all points have the same symbol. */
function isAlike(symbols) {
  return symbols.every(([, symbol]) => symbol === symbols[0][1]);
}

function lineTrace(group, id, drawing) {
  const { paper, bad } = colors();
  const over = drawing === data.over;
  const [[line]] = group;
  const color = over ? "#8a8f94" : visibleColor(line.color);
  const known = (points) => points.filter((point) => valueOf(point, id));
  const kept = chained(group.map(([one, points]) => withGaps(one, known(points), drawing)), GAP);
  const symbols = group.flatMap(([{ marker, points }]) => points.map(({ row }) => [row, marker]));
  const symbolOf = new Map(symbols);
  const values = kept.map((point) => (point.row === null ? [null] : valueOf(point, id)));
  const ringed = kept.map((point) => isRinged(point, over));
  return {
    name: plain(over ? `${groupName(group)} (${drawing.name})` : groupName(group)),
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
      symbol: isAlike(symbols) ? line.marker : kept.map(({ row }) => symbolOf.get(row) ?? line.marker),
      size: ringed.some(Boolean) ? ringed.map((is) => (is ? 13 : 8)) : over ? 6 : 8,
      color: kept.map(({ cells }) => (cells.emulated === "True" ? paper : color)),
      line: ringed.some(Boolean)
        ? { color: ringed.map((is) => (is ? bad : color)), width: ringed.map((is) => (is ? 2.8 : 1.8)) }
        : { color: color, width: 1.8 },
      opacity: 1,
    },
    hoverinfo: "text",
    hovertext: kept.map((point) => hoverText(point, drawing)),
    customdata: kept.map((point) => (over ? null : point.row)),
    opacity: over ? 0.75 : 1,
  };
}

/** Every counted window as a dot. */
function windowsTrace(group) {
  const { paper } = colors();
  const [[line]] = group;
  const color = visibleColor(line.color);
  const points = group.flatMap(([, some]) => some);
  const dots = points.flatMap((point) => point.windows.map((seconds) => ({ point, seconds })));
  const hover = ({ point, seconds }) =>
    `<b>${plain(data.run.names[point.row])}</b><br>one of ${point.of} windows: ${seconds} s`;
  return {
    meta: "windows",
    x: dots.map(({ point }) => point.x),
    y: dots.map(({ seconds }) => seconds),
    mode: "markers",
    marker: {
      symbol: line.marker,
      size: 5,
      color: dots.map(({ point }) => (point.cells.emulated === "True" ? paper : color)),
      line: { color: color, width: 1 },
    },
    opacity: 0.55,
    hoverinfo: "text",
    hovertext: dots.map(hover),
    customdata: dots.map(({ point }) => point.row),
  };
}

/** A bar at the median of each point's windows. */
function mediansTrace(group) {
  const color = visibleColor(group[0][0].color);
  const medians = chained(group.map(([, points]) => points.filter(({ windows }) => windows.length > 0)), GAP);
  const middle = ({ row, windows }) =>
    row === null ? null : (windows[(windows.length - 1) >> 1] + windows[windows.length >> 1]) / 2;
  const hover = (point) =>
    `<b>${plain(data.run.names[point.row])}</b><br>median window: ${short(middle(point))} s`;
  return {
    name: plain(groupName(group)),
    x: medians.map((point) => point.x),
    y: medians.map(middle),
    mode: "markers",
    marker: { symbol: "line-ew", size: 18, line: { color: color, width: 2.5 } },
    hoverinfo: "text",
    hovertext: medians.map((point) => (point.row === null ? "" : hover(point))),
    customdata: medians.map((point) => point.row),
  };
}

/** The lines of the overlaid run that a panel shows, with their points. */
function linesBehind(id, last) {
  const over = ["ratio", "windows"].includes(id) ? [] : (data.over?.lines ?? []);
  return over.map((line, at) => [line, pointsOf(line, at, data.over, last)]);
}

/** The traces of a panel, those of the overlaid run first; for windows, dots and bars. */
function lineTraces(id, visible, behind, crowded) {
  if (id === "windows") {
    const groups = alike(visible, crowded ? ["network", "color"] : ["network", "color", "dash", "marker"]);
    return groups.flatMap((group) => [windowsTrace(group), mediansTrace(group)]);
  }
  // Plotly's time grows with the traces; only it needs one symbol per trace, for its legend.
  const looks = ["network", "color", "dash", ...(crowded ? [] : ["marker"])];
  return [
    ...alike(behind, looks).map((group) => lineTrace(group, id, data.over)),
    ...alike(visible, looks).map((group) => lineTrace(group, id, data.run)),
  ];
}

/** Whether a panel has more marks than Plotly can draw one by one. */
function isCrowded(id, lines) {
  const marks = (point) => (id === "windows" ? 1 + point.windows.length : 1);
  return lines.reduce((sum, [, points]) => points.reduce((own, one) => own + marks(one), sum), 0) > CROWDED;
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
  const lines = data.run.lines.map((line, at) => [line, pointsOf(line, at, data.run, last)]);
  const visible = lines.filter(([, points]) => points.length > 0);
  const behind = linesBehind(id, last);
  const crowded = isCrowded(id, [...behind, ...visible]);
  const traces = lineTraces(id, visible, behind, crowded);
  const empty = !traces.some(({ x }) => x.length > 0);
  if (!empty) {
    if (id === "rate") traces.push(...ceilingTraces(traces));
    traces.unshift(...idealTraces(id, counts, visible));
  }
  const failed = failedTrace();
  const yaxis = valueAxis(id, traces);
  const labels = endLabels(id, visible, yaxis, layout);
  layout.margin.r += labels.width;
  const xaxis = deviceAxis(counts);
  if (counts.length > 0) {
    const fitted = fittedTicks({ ...layout, xaxis, yaxis }, counts);
    layout.margin.l = fitted.left;
    Object.assign(xaxis, fitted.xaxis);
    Object.assign(yaxis, fitted.yaxis);
  }
  const hosts = secondHost();
  const all = [...traces, failed];
  crowdedTraces.set(id, crowded ? traces : []);
  Plotly.react(
    box,
    crowded ? all.map(withoutMarks) : all,
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
  listen(box);
  drawMarks(box);
  if (empty) return;
  renewTicks(box);
  const whole = { "xaxis.range": [...xaxis.range], "yaxis.range": [...yaxis.range] };
  onDoubleClick(box, () => structuredClone(whole));
}

const listening = new Set(); // panels
const panelIds = document.getElementById("rate") ? Object.keys(PANELS) : [];

for (const id of panelIds) figures.set(id, () => drawPanel(id));

/** Renew the ticks after each zoom, and show a point after a click; once per panel. */
function listen(box) {
  if (listening.has(box)) return;
  listening.add(box);
  box.on("plotly_relayout", () => {
    drawMarks(box);
    renewTicks(box);
  });
  box.on("plotly_click", ({ points: [{ customdata }] }) => {
    if (details && customdata !== null && customdata !== undefined) showPoint(customdata);
  });
}
