// The four panels. What is said of a point is read out of results.csv.

const FAR = 8; // times what was reached: a ceiling further up is told, not drawn
const UNSEEN = { visible: false };
const hidden = { networks: new Set(), stores: new Set() };
/** Black is the colour of ink, which is light in the dark. */
function visibleColour(colour) {
  return colour === "#000000" ? colours().ink : colour;
}

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
  lines.push(`images/s: ${six(cells.images_per_second)}`);
  if (cells.low) lines.push(`95 %: ${six(cells.low)} to ${six(cells.high)}`);
  if (cells.speedup_device) {
    const efficiency = 100 * Number(cells.efficiency_device);
    lines.push(`speed-up: ${six(cells.speedup_device)}`, `efficiency: ${efficiency.toFixed(1)} %`);
    if (id === "speedup" && point.speedup) lines.push(`95 %: ${point.speedup.map(six).join(" to ")}`);
    if (id === "efficiency" && point.speedup) {
      const ends = valueOf(point, id).slice(1);
      lines.push(`95 %: ${ends.map((end) => end.toFixed(1)).join(" to ")} %`);
    }
  }
  if (cells.emulated === "True") lines.push("emulated: not a claim about speed");
  return lines.join("<br>");
}

function lineTrace(line, points, id, drawing) {
  const { paper } = colours();
  const over = drawing === data.over;
  const colour = over ? "#8a8f94" : visibleColour(line.colour);
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
  const { paper } = colours();
  const colour = visibleColour(line.colour);
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

/** Points without a number, on the bottom of the panel, those on as many devices one above another. */
function failedTrace() {
  const failed = data.run.failed.filter(({ row }) => shown(data.run.rows[row]));
  const count = ({ row }) => Number(data.run.rows[row].devices);
  const below = failed.map((one, at) => failed.slice(0, at).filter((o) => count(o) === count(one)));
  const text = ({ status, message }) => plain(`${status}: ${message.slice(0, 300)}`);
  return {
    x: failed.map(count),
    y: below.map(({ length }) => 0.035 * length),
    yaxis: "y2",
    mode: "markers",
    cliponaxis: false,
    marker: {
      symbol: "x-thin",
      size: 10,
      line: { color: failed.map(({ colour }) => visibleColour(colour)), width: 2.5 },
    },
    hoverinfo: "text",
    hovertext: failed.map(
      ({ row }) =>
        `<b>${plain(data.run.names[row])}</b><br>` +
        text(data.run.rows[row]).replace(/(.{50}\S*)\s/g, "$1<br>"),
    ),
    customdata: failed.map(({ row }) => row),
  };
}

function dotted(x, y) {
  const line = { color: colours().quiet, width: 1.2, dash: "dot" };
  return { x, y, mode: "lines", line, hoverinfo: "skip" };
}

/** What perfect scaling would be, between the least and the greatest device count. */
function idealTraces(id, counts, lines) {
  if (counts.length < 2 || id === "windows") return [];
  const [first, last] = [counts[0], counts[counts.length - 1]];
  // Many places, for against a linear axis it is a curve.
  const along = Array.from({ length: 65 }, (_, at) => first * (last / first) ** (at / 64));
  const ideal = (one) => dotted(along, along.map((count) => count * one));
  if (id === "efficiency") return [dotted([first, last], [100, 100])];
  if (id === "speedup") return [ideal(1)];
  return [...new Set(lines.map(({ one }) => one).filter((one) => one !== null))].map(ideal);
}

/** What reading alone gives: a line, or words above the panel where that is far away. */
function ceilingTraces(traces) {
  const top = Math.max(...traces.flatMap(({ y }) => y));
  const [near, far] = [true, false].map((wanted) =>
    data.run.inputs.filter(({ rates }) => Math.min(...rates) <= FAR * top === wanted),
  );
  const told = far.map(({ label, rates }) => {
    const least = Math.min(...rates).toLocaleString("en", { maximumFractionDigits: 0 });
    return `far above: ${label}, ${least} images/s and more`;
  });
  document.getElementById("rate-said").textContent = told.join("; ");
  return near.map(({ label, devices, rates }) => {
    const [one] = devices;
    const x = devices.length > 1 ? devices : [one / 1.2, one * 1.2];
    const y = devices.length > 1 ? rates : [rates[0], rates[0]];
    const text = x.map((_, at) => (at === x.length - 1 ? label : ""));
    const { ink } = colours();
    return {
      ...dotted(x, y),
      line: { color: ink, width: 1.4, dash: "dot" },
      mode: "lines+text",
      text,
      textposition: "top left",
      textfont: { size: 11, color: ink },
    };
  });
}

/** The lines of a panel, the other run's first; of windows, dots and bars. */
function lineTraces(id, visible) {
  if (id === "windows") return visible.flatMap(([line, points]) => windowTraces(line, points));
  const behind = (data.over?.lines ?? []).map((line, at) => [line, pointsOf(line, at, data.over)]);
  return [
    ...behind.map(([line, points]) => lineTrace(line, points, id, data.over)),
    ...visible.map(([line, points]) => lineTrace(line, points, id, data.run)),
  ];
}

/** The device counts of all points that are switched on. */
function countsShown() {
  const of = (drawing) => drawing.lines.flatMap(({ points }) => points.map(({ row }) => drawing.rows[row]));
  const failed = data.run.failed.map(({ row }) => data.run.rows[row]);
  const rows = [...of(data.run), ...(data.over ? of(data.over) : []), ...failed].filter(shown);
  return [...new Set(rows.map(({ devices }) => Number(devices)))].sort((a, b) => a - b);
}

function drawPanel(id) {
  const box = document.getElementById(id);
  const { layout, axis } = baseLayout(box);
  const all = data.run.lines.map((line, at) => [line, pointsOf(line, at, data.run)]);
  const visible = all.filter(([, points]) => points.length > 0);
  const counts = countsShown();
  const traces = lineTraces(id, visible);
  const empty = !traces.some(({ x }) => x.length > 0);
  if (!empty) {
    if (id === "rate") traces.push(...ceilingTraces(traces));
    traces.unshift(...idealTraces(id, counts, visible.map(([line]) => line)));
  }
  const failed = failedTrace();
  Plotly.react(
    box,
    [...traces, failed],
    {
      ...layout,
      uirevision: `${zoom}`,
      ...(empty ? whyEmpty(id, counts.length > 0) : secondHost()),
      hovermode: "closest",
      xaxis: { ...axis, ...deviceAxis(counts, box), ...(empty && failed.x.length === 0 && UNSEEN) },
      yaxis: { ...axis, ...valueAxis(id, traces), ...(empty && UNSEEN) },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    },
    plotConfig,
  );
  if (!empty) tickValues(box);
}

const panelIds = document.getElementById("rate") ? Object.keys(PANELS) : [];

function drawPanels() {
  panelIds.forEach(drawPanel);
}

redraws.push(drawPanels);

/** A zoom shows other values, and needs other ticks. */
function watchZoom() {
  for (const box of panelIds.map((id) => document.getElementById(id))) {
    box.on("plotly_relayout", (change) => {
      if (!("yaxis.tickvals" in change)) tickValues(box);
    });
  }
}
