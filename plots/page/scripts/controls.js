// Switches, axis buttons and the legend.

// Marks around a place.
const SHAPES = {
  circle: "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
  square: "m-4-4h8v8h-8z",
  diamond: "m0-5l5 5-5 5-5-5z",
  "triangle-up": "m0-5l5 9h-10z",
  "triangle-down": "m0 5l5-9h-10z",
  cross: "m-2-5h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
  pentagon: "m0-5l5 4-2 6h-6l-2-6z",
  "triangle-left": "m-5 0l9-5v10z",
  "triangle-right": "m5 0l-9-5v10z",
  hexagon: "m0-5l4.5 2.5v5l-4.5 2.5-4.5-2.5v-5z",
  star: "m0-6l1.5 4.5h4.5l-3.6 2.8 1.4 4.5-3.8-2.8-3.8 2.8 1.4-4.5-3.6-2.8h4.5z",
  octagon: "m-2-5h4l3 3v4l-3 3h-4l-3-3v-4z",
  "line-ew": "m-9 0h18",
  dot: "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z",
};
const SYMBOLS = {
  hollow: '<circle cx="20" cy="7" r="4" fill="none" stroke="currentColor" stroke-width="1.8"/>',
  "x-thin": '<path d="M16 3l8 8m0-8l-8 8" stroke="currentColor" stroke-width="2.2"/>',
};
const STROKES = { solid: "", dash: "7 3", dot: "2 2", dashdot: "7 2 2 2" };

/** The shape of a mark; windows are small dots. */
function shapeOf(symbol, size) {
  return SHAPES[size === 5 ? "dot" : symbol];
}

function stroke(dashes) {
  return `<path d="M0 7h40" stroke="currentColor" stroke-width="1.8" stroke-dasharray="${dashes}"/>`;
}

function legendItem(label, color, dash, marker) {
  const item = document.createElement("li");
  item.style.color = color;
  item.innerHTML =
    '<svg viewBox="0 0 40 14" fill="currentColor" aria-hidden="true">' +
    (dash in STROKES ? stroke(STROKES[dash]) : "") +
    `${marker in SHAPES ? `<path d="M20 7${SHAPES[marker]}"/>` : (SYMBOLS[marker] ?? "")}</svg>`;
  item.append(element("span", label, { style: "color: var(--ink)" }));
  return item;
}

/** Legend entries for the marks that occur in the panels. */
function marksUsed() {
  const drawn = data.run.lines.flatMap(({ points }) => points.map(({ row }) => data.run.rows[row]));
  const gray = (text, dash, marker) => legendItem(text, "var(--quiet)", dash, marker);
  const found = [];
  if (drawn.some(({ emulated }) => emulated === "True")) {
    found.push(gray("hollow: oversubscribed", "none", "hollow"));
  }
  if (data.run.ringed) found.push(legendItem("ringed: has caveats, see notes", "var(--bad)", "none", "hollow"));
  if (data.run.failed.length > 0) found.push(gray("cross: no result", "none", "x-thin"));
  const counts = new Set(countsShown());
  if (counts.size > 1 && data.run.lines.some(({ one }) => one !== null)) {
    found.push(gray(baseline ? `ideal from ${baseline.name}` : "ideal: n x 1 device", "dot", ""));
  }
  if (data.over) found.push(legendItem(`compared with: ${data.over.name}`, "#8a8f94", "dash", "circle"));
  return found;
}

function drawLegend() {
  const items = data.run.lines.map(({ label, color, dash, marker, points }) => {
    const item = legendItem(label, color === "#000000" ? "var(--ink)" : color, dash, marker);
    item.classList.toggle("off", !points.some(({ row }) => shown(data.run.rows[row])));
    return item;
  });
  document.getElementById("legend").replaceChildren(...items, ...marksUsed());
}

function addSwitches(id, column, off) {
  const group = document.getElementById(id);
  const drawn = data.run.lines.flatMap((line) => line.points.map(({ row }) => row));
  const failed = data.run.failed.map(({ row }) => row);
  const names = new Set([...drawn, ...failed].map((row) => data.run.rows[row][column]));
  for (const name of names) {
    const button = element("button", name, { type: "button", "aria-pressed": "true" });
    button.addEventListener("click", () => {
      if (!off.delete(name)) off.add(name);
      button.setAttribute("aria-pressed", String(!off.has(name)));
      draw(panelIds);
      drawLegend();
      drawWhy();
      saveView();
    });
    group.append(button);
  }
}

function addAxes() {
  const scale = document.getElementById("scale");
  scale.addEventListener("click", () => {
    logarithmic = !logarithmic;
    zoom += 1;
    scale.setAttribute("aria-pressed", String(logarithmic));
    draw(panelIds);
    saveView();
  });
  document.getElementById("reset").addEventListener("click", () => {
    zoom += 1;
    draw(panelIds);
  });
}

if (panelIds.length > 0) {
  addSwitches("networks", "network", hidden.networks);
  addSwitches("stores", "kvstore", hidden.stores);
  addAxes();
  document.getElementById("thinned").hidden = !data.run.thinned;
}
