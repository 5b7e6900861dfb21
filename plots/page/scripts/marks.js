// Marks in the panels besides lines: failed points, ideal scaling, input-pipeline limits.

const FAR = 8; // a limit above this multiple of the highest value is named, not drawn

function failedShown() {
  return data.run.failed.filter(({ row }) => shown(data.run.rows[row]));
}

function devicesOf({ row }) {
  return Number(data.run.rows[row].devices);
}

/** Points without a result, as crosses on the device axis, stacked for equal device counts. */
function failedTrace() {
  const failed = failedShown();
  const heights = new Map(); // crosses so far, by devices
  const below = failed.map((one) => {
    const count = heights.get(devicesOf(one)) ?? 0;
    heights.set(devicesOf(one), count + 1);
    return count;
  });
  const text = ({ status, message }) => plain(`${status}: ${message.slice(0, 300)}`);
  return {
    x: failed.map(devicesOf),
    y: below.map((count) => 0.035 * count),
    yaxis: "y2",
    mode: "markers",
    cliponaxis: false,
    marker: {
      symbol: "x-thin",
      size: 10,
      line: { color: failed.map(({ color }) => visibleColor(color)), width: 2.5 },
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
  const line = { color: colors().quiet, width: 1.2, dash: "dot" };
  return { x, y, mode: "lines", line, hoverinfo: "skip" };
}

/** Ideal scaling; for throughput over each network's own device counts, otherwise over all. */
function idealTraces(id, counts, visible) {
  const ends = [counts[0], counts[counts.length - 1]];
  if (id === "ratio") return [dotted([ends[0] / 1.2, ends[1] * 1.2], [1, 1])];
  if (counts.length < 2 || id === "windows") return [];
  if (id === "efficiency") return [dotted(ends, [100, 100])];
  const of = baseline?.devices ?? 1;
  if (id === "speedup") return [dotted(ends, ends.map((count) => count / of))];
  const failed = failedShown();
  const reach = new Map(); // device counts by throughput on 1 device
  for (const [{ one, network }, points] of visible.filter(([{ one }]) => one !== null)) {
    const crosses = failed.filter((other) => other.network === network);
    const own = [...(reach.get(one) ?? []), ...points.map(({ devices }) => devices), ...crosses.map(devicesOf)];
    reach.set(one, [Math.min(...own), Math.max(...own)]);
  }
  const ideal = [...reach].filter(([, [first, last]]) => first < last);
  if (ideal.length === 0) return [];
  // One trace for all, with gaps between them.
  const x = ideal.flatMap(([, own]) => [...own, null]).slice(0, -1);
  const y = ideal.flatMap(([one, own]) => [...own.map((count) => count * one), null]).slice(0, -1);
  return [dotted(x, y)];
}

/** Input-pipeline throughput as a line, or as text above the panel if it is off scale. */
function ceilingTraces(traces) {
  const top = Math.max(...traces.flatMap(({ y }) => y));
  const [near, far] = [true, false].map((wanted) =>
    data.run.inputs.filter(({ rates }) => Math.min(...rates) <= FAR * top === wanted),
  );
  const offScale = far.map(({ label, rates }) => {
    const least = Math.min(...rates).toFixed(0);
    const limit = new Set(rates).size > 1 ? `at least ${least}` : least;
    return `${label}: ${limit} images/s (above this chart)`;
  });
  document.getElementById("rate-note").textContent = offScale.join("; ");
  return near.map(({ label, devices, rates }) => {
    const [one] = devices;
    const x = devices.length > 1 ? devices : [one / 1.2, one * 1.2];
    const y = devices.length > 1 ? rates : [rates[0], rates[0]];
    const text = x.map((_, at) => (at === x.length - 1 ? label : ""));
    const { ink } = colors();
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

const crowdedTraces = new Map(); // of panels with very many points, by id

/** A trace without the marks that Plotly would draw one by one; hover and clicks stay. */
function withoutMarks(trace) {
  if (!trace.customdata || trace.yaxis === "y2") return trace;
  const { error_y, ...rest } = trace;
  return { ...rest, mode: trace.mode === "markers" ? "none" : "lines" };
}

/** The traces of a panel with all their marks. */
function wholeTraces(box) {
  const whole = crowdedTraces.get(box.id);
  return box.data.map((trace, at) => whole[at] ?? trace);
}

const tenths = (value) => Math.round(10 * value) / 10;

/** The marks of a trace and its error bars as paths, by style. */
function marksOf({ x, y, marker, error_y: bars }, xaxis, yaxis) {
  const paths = new Map();
  const add = (style, text) => {
    if (!paths.has(style)) paths.set(style, []);
    paths.get(style).push(text);
  };
  const at = (values, place) => (Array.isArray(values) ? values[place] : values);
  const ofBars = bars && `fill:none;stroke:${bars.color};stroke-width:${bars.thickness}`;
  for (let place = 0; place < x.length; place += 1) {
    if (x[place] === null || y[place] === null) continue;
    const left = tenths(xaxis.d2p(x[place]));
    if (bars?.array[place] > 0) {
      const [high, low] = [y[place] + bars.array[place], y[place] - bars.arrayminus[place]];
      // A logarithmic axis has no 0.
      const end = low > 0 || yaxis.type !== "log" ? `${tenths(yaxis.d2p(low))}m-3 0h6` : yaxis._length;
      add(ofBars, `M${left} ${tenths(yaxis.d2p(high))}m-3 0h6m-3 0V${end}`);
    }
    const edge = at(marker.line.color, place);
    const style = `fill:${at(marker.color, place) ?? edge};stroke:${edge};stroke-width:${at(marker.line.width, place)}`;
    add(style, `M${left} ${tenths(yaxis.d2p(y[place]))}${shapeOf(at(marker.symbol, place), marker.size)}`);
  }
  return [...paths].map(([style, parts]) => [style, parts.join("")]);
}

/** Draw the marks of a crowded panel: one path for all that look alike. */
function drawMarks(box) {
  const { xaxis, yaxis, _plots } = box._fullLayout;
  const layer = _plots?.xy?.plot.node();
  if (!layer) return;
  const made = [];
  for (const trace of crowdedTraces.get(box.id)) {
    if (!trace.customdata) continue;
    for (const [style, d] of marksOf(trace, xaxis, yaxis)) {
      made.push(svgElement("path", { d, style, opacity: trace.opacity ?? 1 }));
    }
  }
  layer.querySelector(":scope > .marks")?.remove();
  if (made.length === 0) return;
  const group = svgElement("g", { class: "marks" });
  group.append(...made);
  layer.append(group);
}

const MOST_LABELS = 8; // more lines have no room at their ends; the legend names them
const LEAST_WIDTH = 480; // of a panel with labels, px
const LABEL_HEIGHT = 14;
const LABEL_FONT = { size: 11, family: "system-ui, sans-serif" };
const AXIS_FONT = { ...LABEL_FONT, size: 12 };
const ruler = document.createElement("canvas").getContext("2d");

/** Cut a long name in its middle: lines of one network differ in their last words. */
function labelText({ end }) {
  return end.length > 24 ? `${end.slice(0, 8)}…${end.slice(-15)}` : end;
}

function textWidth(text, { size, family, weight = 400 }) {
  ruler.font = `${weight} ${size}px ${family}`;
  return Math.ceil(ruler.measureText(text).width);
}

/** Move heights apart so that labels do not overlap; in the order given, from below. */
function spread(heights, top) {
  const moved = [];
  for (const height of heights) moved.push(Math.max(height, (moved.at(-1) ?? -Infinity) + LABEL_HEIGHT));
  let limit = top;
  return moved
    .reverse()
    .map((height) => {
      const kept = Math.min(height, limit);
      limit = kept - LABEL_HEIGHT;
      return kept;
    })
    .reverse();
}

/** Names at the ends of the lines, and the width that they need; none if there is no room. */
function endLabels(id, visible, yaxis, { width, height, margin }) {
  const none = { annotations: [], width: 0 };
  if (id === "windows" || printing || width < LEAST_WIDTH || visible.length > MOST_LABELS) return none;
  const tall = height - margin.t - margin.b;
  const [low, high] = yaxis.range;
  const placed = (value) => (yaxis.type === "log" ? Math.log10(value) : value);
  const ends = visible
    .map(([line, points]) => [line, points.filter((point) => valueOf(point, id)).at(-1)])
    .filter(([, point]) => point)
    .map(([line, point], _, all) => {
      // To the right of every mark at this device count.
      const beside = all.map(([, one]) => one).filter(({ devices }) => devices === point.devices);
      const x = placeOf(Math.max(...beside.map((one) => one.x)));
      return { line, x, y: placed(valueOf(point, id)[0]) };
    })
    .map((end) => ({ ...end, height: ((end.y - low) / (high - low)) * tall }))
    .sort((one, other) => one.height - other.height);
  const heights = spread(ends.map((end) => end.height), tall);
  const texts = ends.map(({ line }) => labelText(line));
  return {
    width: 10 + Math.max(0, ...texts.map((text) => textWidth(text, LABEL_FONT))),
    annotations: ends.map(({ line, x, y, height: own }, at) => ({
      x,
      y,
      text: plain(texts[at]),
      xanchor: "left",
      yanchor: "middle",
      xshift: 9,
      yshift: heights[at] - own,
      font: { ...LABEL_FONT, color: visibleColor(line.color) },
      showarrow: false,
    })),
  };
}
