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

/** Shift a line's point a little from its device count so that error bars do not overlap. */
function beside(count, at, lines, last) {
  const steps = at - (lines - 1) / 2;
  return logarithmic ? count * 1.012 ** steps : count + 0.003 * last * steps;
}

/** A device count in the units of the axis range. */
function placeOf(count) {
  return logarithmic ? Math.log10(count) : count;
}

/** The visible device counts, without those whose labels would overlap. */
function ticks(counts, width, [low, high]) {
  const least = ((high - low) * 28) / Math.max(width - 70, 100);
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

function deviceAxis(counts, width) {
  if (counts.length === 0) return { visible: false };
  const range = deviceRange(counts);
  const shownTicks = ticks(counts, width, range);
  return {
    type: logarithmic ? "log" : "linear",
    range,
    tickvals: shownTicks,
    ticktext: shownTicks.map(String),
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
  const values = traces.filter(({ yaxis }) => yaxis !== "y2").flatMap(({ y }) => y);
  const title = { text: unit, standoff: 8 };
  if (id === "ratio") {
    const [low, high] = [Math.min(...values, 1), Math.max(...values, 1)];
    const edge = Math.max(0.05, 0.4 * (high - low));
    return { title, type: "linear", range: [Math.max(0, low - edge), high + edge], tickmode: "auto", tickformat: "~f" };
  }
  if (log && logarithmic) {
    const drawn = values.filter((value) => value > 0);
    const ends = drawn.length > 0 ? [Math.min(...drawn) / 1.6, Math.max(...drawn) * 1.6] : [1, 10];
    return { title, type: "log", range: ends.map(Math.log10) };
  }
  const top = Math.max(least, 1.1 * Math.max(0, ...values)) || 1;
  return { title, type: "linear", range: [0, top], tickmode: "auto", tickformat: "~f" };
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
  if (fits.length >= 3) return fits;
  const unit = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = [1, 2, 5, 10].map((one) => one * unit).find((one) => (high - low) / one <= most);
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/** Set the ticks of the visible range: device counts, and round values on logarithmic axes. */
function tickValues(box) {
  const { xaxis, yaxis, width, height } = box.layout;
  const change = {};
  const put = (name, vals, texts) => {
    if (String(vals) === String(box.layout[name].tickvals)) return;
    Object.assign(change, { [`${name}.tickvals`]: vals, [`${name}.ticktext`]: texts });
  };
  const counts = ticks(countsShown(), width, xaxis.range);
  put("xaxis", counts, counts.map(String));
  if (yaxis.type === "log") {
    const [low, high] = yaxis.range.map((end) => 10 ** end);
    const vals = roundValues(low, high, Math.max(3, Math.floor(height / 42)));
    put("yaxis", vals, vals.map((one) => one.toLocaleString("en", { maximumSignificantDigits: 12, useGrouping: false })));
  }
  if (Object.keys(change).length > 0) Plotly.relayout(box, change);
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
