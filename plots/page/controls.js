// What is switched on, which axes, and the legend.

const SYMBOLS = {
  circle: '<circle cx="20" cy="7" r="4.5"/>',
  square: '<path d="M16 3h8v8h-8z"/>',
  diamond: '<path d="M20 2l5 5-5 5-5-5z"/>',
  "triangle-up": '<path d="M20 2l5 9H15z"/>',
  "triangle-down": '<path d="M20 12l5-9H15z"/>',
  cross: '<path d="M18 2h4v3h3v4h-3v3h-4V9h-3V5h3z"/>',
  x: '<path d="M16 3l2-1 2 3 2-3 2 1-2 4 2 4-2 1-2-3-2 3-2-1 2-4z"/>',
};
const STROKES = { solid: "", dash: "7 3", dot: "2 2", dashdot: "7 2 2 2" };

function legendItem(label, colour, dash, marker) {
  const item = document.createElement("li");
  item.style.color = colour;
  item.innerHTML =
    '<svg viewBox="0 0 40 14" fill="currentColor" aria-hidden="true"><path d="M0 7h40" ' +
    `stroke="currentColor" stroke-width="1.8" stroke-dasharray="${STROKES[dash] ?? ""}"/>` +
    `${SYMBOLS[marker] ?? ""}</svg>`;
  item.append(element("span", label, { style: "color: var(--ink)" }));
  return item;
}

function drawLegend() {
  const legend = document.getElementById("legend");
  const on = data.run.lines.filter((line) =>
    line.points.some(({ row }) => shown(data.run.rows[row])),
  );
  const items = on.map(({ label, colour, dash, marker }) =>
    legendItem(label, colour === "#000000" ? "var(--ink)" : colour, dash, marker),
  );
  if (data.over) items.push(legendItem(data.over.name, "#8a8f94", "dash", "circle"));
  legend.replaceChildren(...items);
}

function addSwitches(id, column, off) {
  const group = document.getElementById(id);
  const drawn = data.run.lines.flatMap((line) => line.points.map(({ row }) => row));
  const names = new Set([...drawn, ...data.run.failed].map((row) => data.run.rows[row][column]));
  for (const name of names) {
    const button = element("button", name, { type: "button", "aria-pressed": "true" });
    button.addEventListener("click", () => {
      if (!off.delete(name)) off.add(name);
      button.setAttribute("aria-pressed", String(!off.has(name)));
      drawPanels();
      drawLegend();
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
    drawPanels();
  });
  document.getElementById("reset").addEventListener("click", () => {
    zoom += 1;
    drawPanels();
  });
}

if (panelIds.length > 0) {
  addSwitches("networks", "network", hidden.networks);
  addSwitches("stores", "kvstore", hidden.stores);
  addAxes();
  drawLegend();
  document.getElementById("thinned").hidden = !data.run.thinned;
}
