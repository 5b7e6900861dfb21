// The axes of the panels: how far they reach, and which ticks they have.

const PANELS = {
  rate: { column: "images_per_second", unit: "images/s", log: true, lacking: "no point has a number" },
  speedup: { column: "speedup_device", unit: "times one device", log: true },
  efficiency: { column: "efficiency_device", unit: "% of ideal", factor: 100, least: 110 },
  windows: { unit: "seconds", lacking: "no window was kept" },
};
const NO_BASE = "needs a point on one device<br>and another to compare with it";

let logarithmic = true; // images per second and speed-ups; devices always are
let zoom = 0; // another number forgets how far panels are zoomed

/** The real device counts, without those whose label would run into another's. */
function ticks(counts, width) {
  const span = Math.log2(counts[counts.length - 1] / counts[0]) || 1;
  const least = (span * 30) / Math.max(width - 90, 100);
  const kept = [];
  for (const count of [...counts].reverse()) {
    if (kept.length === 0 || Math.log2(kept[0] / count) >= least) kept.unshift(count);
  }
  return kept;
}

function deviceAxis(counts, box) {
  if (counts.length === 0) return { visible: false };
  const shownTicks = ticks(counts, box.clientWidth);
  return {
    type: "log",
    range: [counts[0] / 1.35, counts[counts.length - 1] * 1.35].map(Math.log10),
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

/** Around what is drawn, not around its intervals: a huge one would leave nothing to see. */
function valueAxis(id, traces) {
  const { log, unit, least = 0 } = PANELS[id];
  const values = traces.filter(({ yaxis }) => yaxis !== "y2").flatMap(({ y }) => y);
  const title = { text: unit, standoff: 8 };
  if (log && logarithmic) {
    const drawn = values.filter((value) => value > 0);
    const ends = drawn.length > 0 ? [Math.min(...drawn) / 1.6, Math.max(...drawn) * 1.6] : [1, 10];
    return { title, type: "log", range: ends.map(Math.log10) };
  }
  const top = Math.max(least, 1.1 * Math.max(0, ...values)) || 1;
  return { title, type: "linear", range: [0, top], tickmode: "auto", tickformat: "," };
}

/** Round values between two, about `most` of them: 1, 10, 100, or 1, 2, 5, or evenly spread. */
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

/** Gives a logarithmic axis whole numbers for what is in sight, which a zoom changes. */
function tickValues(box) {
  const { type, range } = box.layout.yaxis;
  if (type !== "log") return;
  const [low, high] = range.map((end) => 10 ** end);
  const vals = roundValues(low, high, Math.max(3, Math.floor(box.layout.height / 42)));
  if (String(vals) === String(box.layout.yaxis.tickvals)) return;
  const text = vals.map((one) => one.toLocaleString("en", { maximumSignificantDigits: 12 }));
  Plotly.relayout(box, { "yaxis.tickvals": vals, "yaxis.ticktext": text });
}

/** Why there is nothing to see in a panel. */
function whyEmpty(id, anyShown) {
  const { quiet } = colours();
  const text = anyShown ? (PANELS[id].lacking ?? NO_BASE) : "all of it is switched off";
  const middle = { x: 0.5, y: 0.5, xref: "paper", yref: "paper", font: { color: quiet } };
  return { annotations: [{ ...middle, text, showarrow: false }] };
}

/** A dashed line where jobs begin to take more than one host. */
function secondHost() {
  const { quiet } = colours();
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
    annotations: [{ ...label, x: Math.log10(at), y: 1, yref: "paper", showarrow: false }],
  };
}
