// Axes of the panels: ranges and ticks.

// The speed-up baseline: the one the report was built with, otherwise 1 device.
const { baseline } = data.run;
const BASE = baseline ? "baseline" : "device";
const PANELS = {
  rate: { column: "images_per_second", unit: "images/s", log: true, empty: "No point has a throughput." },
  speedup: { column: `speedup_${BASE}`, unit: `vs ${baseline?.name ?? "1 device"}`, log: true },
  efficiency: { column: `efficiency_${BASE}`, unit: "% of ideal", factor: 100, least: 110 },
  windows: { unit: "seconds", empty: "No windows were recorded." },
};
if (data.ratios) PANELS.ratio = { unit: "ratio", empty: "No point drawn here is in both runs." };
const NO_BASELINE = baseline
  ? `Needs a point ${plain(baseline.name)}.`
  : "Needs a point on 1 device<br>and another to compare with it.";

let logarithmic = true; // devices, images per second and speed-ups
let zoom = 0; // a new number resets the zoom of all panels

const MOST_STEPS = 10; // by which all lines together are shifted

/** Shift a line's point a little from its device count so that error bars do not overlap. */
function beside(count, at, lines, last) {
  const steps = (at - (lines - 1) / 2) * Math.min(1, MOST_STEPS / lines);
  return logarithmic ? count * 1.012 ** steps : count + 0.003 * last * steps;
}

/** A device count in the units of the axis range. */
function placeOf(count) {
  return logarithmic ? Math.log10(count) : count;
}

/** The visible device counts, without those whose labels would overlap on so many pixels. */
function ticks(counts, width, [low, high]) {
  const least = ((high - low) * 28) / Math.max(width, 100);
  const kept = [];
  const inSight = counts.filter((count) => placeOf(count) >= low && placeOf(count) <= high);
  for (const count of inSight.reverse()) {
    if (kept.length === 0 || placeOf(kept[0]) - placeOf(count) >= least) kept.unshift(count);
  }
  return kept;
}

/** The range of the device axis; a linear axis starts just below 0 so that marks fit. */
function deviceRange(counts) {
  const [first, last] = [counts[0], counts[counts.length - 1]];
  if (!logarithmic && first < last) return [-0.04 * last, 1.06 * last];
  return [first / 1.35, last * 1.35].map(placeOf);
}

function deviceAxis(counts) {
  if (counts.length === 0) return { visible: false };
  return {
    type: logarithmic ? "log" : "linear",
    range: deviceRange(counts),
    // Transparent ticks keep the crosses on the axis clear of its numbers.
    ticks: "outside",
    ticklen: 7,
    tickcolor: "rgba(0,0,0,0)",
    tickangle: 0,
    title: { text: "devices", standoff: 6 },
  };
}

/** The value axis, fitted to the values and not to their intervals, which can be huge. */
function valueAxis(id, traces) {
  const { log, unit, least = 0 } = PANELS[id];
  const drawn = traces.filter(({ yaxis }) => yaxis !== "y2").flatMap(({ y }) => y);
  const values = drawn.filter((value) => value !== null);
  const title = { text: unit, standoff: 8 };
  if (id === "ratio") {
    const [low, high] = [Math.min(...values, 1), Math.max(...values, 1)];
    const edge = Math.max(0.05, 0.4 * (high - low));
    return { title, type: "linear", range: [Math.max(0, low - edge), high + edge] };
  }
  if (log && logarithmic) {
    const above = values.filter((value) => value > 0);
    const ends = above.length > 0 ? [Math.min(...above) / 1.6, Math.max(...above) * 1.6] : [1, 10];
    return { title, type: "log", range: ends.map(Math.log10) };
  }
  const top = Math.max(least, 1.1 * Math.max(0, ...values)) || 1;
  return { title, type: "linear", range: [0, top] };
}

/** About `most` round values in a range: 1, 10, 100, or 1, 2, 5, or evenly spaced. */
function roundValues(low, high, most) {
  const exponents = [];
  for (let at = Math.floor(Math.log10(low)); at <= Math.log10(high); at += 1) exponents.push(at);
  const of = (digits) =>
    exponents
      .flatMap((at) => digits.map((digit) => Number(`${digit}e${at}`)))
      .filter((value) => value >= low && value <= high);
  const fits = [[1, 2, 5], [1, 3], [1]].map(of).find((some) => some.length <= most);
  if (fits === undefined) return of([1]).filter((_, at, all) => at % Math.ceil(all.length / most) === 0);
  return fits.length >= 3 ? fits : evenValues(low, high, most);
}

/** At most about `most` round values at equal distances. */
function evenValues(low, high, most) {
  const unit = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = [1, 2, 5, 10].map((one) => one * unit).find((one) => (high - low) / one <= most);
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

const LEAST_MARGIN = 52; // left of a panel, px
const TITLE_HEIGHT = 32; // the title of the value axis, and its distances

/** The values and texts of an axis's ticks. */
function ticksAt(values) {
  const text = (one) => one.toLocaleString("en", { maximumSignificantDigits: 12, useGrouping: false });
  return { tickvals: values, ticktext: values.map(text) };
}

/**
 * Ticks of the visible range and the left margin that they need: Plotly would draw a panel twice to
 * find it. Ticks are device counts, and round values.
 */
function fittedTicks({ xaxis, yaxis, width, height, margin }, counts) {
  const most = Math.max(3, Math.floor(height / 42));
  const [low, high] = yaxis.range;
  const values = yaxis.type === "log" ? roundValues(10 ** low, 10 ** high, most) : evenValues(low, high, most);
  const vertical = ticksAt(values);
  const widest = Math.max(0, ...vertical.ticktext.map((text) => textWidth(text, AXIS_FONT)));
  const left = Math.max(LEAST_MARGIN, TITLE_HEIGHT + widest);
  const across = ticks(counts, width - left - margin.r, xaxis.range);
  return { xaxis: ticksAt(across), yaxis: vertical, left };
}

/** Renew ticks and margin after a zoom. */
function renewTicks(box) {
  const found = fittedTicks(box.layout, countsShown());
  const change = {};
  for (const name of ["xaxis", "yaxis"]) {
    if (String(found[name].tickvals) === String(box.layout[name].tickvals)) continue;
    for (const [key, value] of Object.entries(found[name])) change[`${name}.${key}`] = value;
  }
  if (Object.keys(change).length > 0) Plotly.relayout(box, { ...change, "margin.l": found.left });
}

/** An annotation with the reason why a panel is empty. */
function whyEmpty(id, anyShown) {
  const { quiet } = colors();
  const text = anyShown ? (PANELS[id].empty ?? NO_BASELINE) : "All points are hidden.";
  const middle = { x: 0.5, y: 0.5, xref: "paper", yref: "paper", font: { color: quiet } };
  return { annotations: [{ ...middle, text, showarrow: false }] };
}

/** A dashed line where jobs start to use more than one host. */
function secondHost() {
  const { quiet } = colors();
  const at = data.run.second_host;
  if (at === null) return { annotations: [] };
  const line = { color: quiet, width: 1, dash: "dash" };
  const label = {
    text: "second host",
    xanchor: "left",
    yanchor: "top",
    font: { size: 11, color: quiet },
  };
  return {
    shapes: [{ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line }],
    annotations: [{ ...label, x: placeOf(at), y: 1, yref: "paper", showarrow: false }],
  };
}
