// Downloads: pictures of the panels, and results.csv as a whole or as the filter shows it.

const PANEL_SIZE = { width: 720, height: 460 };
const EDGE = 16;
const LINE_HEIGHT = 17;
const SVG = legendItem("", "", "none", "circle").firstChild.namespaceURI;
const SIMULATED = [data.run, data.over].some((drawing) => drawing?.simulated);

/** A file name of the run: a simulation is marked in it. */
function fileName(what, ending) {
  const name = data.run.name.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[.-]+|-+$/g, "");
  return `${[name || "run", what, ...(SIMULATED ? ["SIMULATED"] : [])].join("-")}.${ending}`;
}

function saveFile(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", "", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** One panel as an SVG element, with its title and a legend, as far as it is zoomed now. */
async function panelPicture(id) {
  const box = document.getElementById(id);
  const { ink, paper } = colors();
  const caption = box.closest("figure").querySelector("figcaption");
  const words = [...caption.childNodes].map(({ textContent }) => textContent.trim());
  const title = plain(words.filter(Boolean).join("; "));
  const figure = {
    data: wholeTraces(box).map((trace) => ({ ...trace, showlegend: Boolean(trace.name) })),
    layout: {
      ...box.layout,
      ...PANEL_SIZE,
      title: { text: title, x: 0.02, font: { size: 15, color: ink } },
      margin: { ...box.layout.margin, t: 44 },
      paper_bgcolor: paper,
      showlegend: true,
      legend: { orientation: "h", y: -0.18 },
    },
  };
  const url = await Plotly.toImage(figure, { format: "svg", ...PANEL_SIZE });
  const text = decodeURIComponent(url.slice(url.indexOf(",") + 1));
  return new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
}

function svgElement(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** Lines of at most `most` characters. */
function folded(text, most) {
  const lines = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last === undefined || last.length + word.length >= most) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** Panels side by side, below the name of the run and above its caption. */
async function picture(ids) {
  const { ink, quiet, paper } = colors();
  const across = Math.min(2, ids.length);
  const down = Math.ceil(ids.length / across);
  const width = across * PANEL_SIZE.width;
  const captionLines = data.run.caption.split("\n").flatMap((line) => folded(line, width / 6.4));
  const top = EDGE + 2 * LINE_HEIGHT;
  const foot = top + down * PANEL_SIZE.height;
  const height = foot + captionLines.length * LINE_HEIGHT + EDGE;
  const whole = svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const words = { "font-family": "system-ui, sans-serif", x: EDGE };
  whole.append(svgElement("rect", { width, height, fill: paper }));
  const title = `${SIMULATED ? "SIMULATED, not measured - " : ""}${data.run.name}`;
  whole.append(
    svgElement("text", { ...words, y: EDGE + LINE_HEIGHT, fill: ink, "font-size": 17, "font-weight": 700 }, title),
  );
  for (const [at, id] of ids.entries()) {
    const panel = document.importNode(await panelPicture(id), true);
    panel.setAttribute("x", (at % across) * PANEL_SIZE.width);
    panel.setAttribute("y", top + Math.floor(at / across) * PANEL_SIZE.height);
    whole.append(panel);
  }
  for (const [at, line] of captionLines.entries()) {
    const y = foot + (at + 0.8) * LINE_HEIGHT;
    whole.append(svgElement("text", { ...words, y, fill: quiet, "font-size": 12 }, line));
  }
  return { text: new XMLSerializer().serializeToString(whole), width, height };
}

/** The picture as PNG, with two pixels per unit. */
async function pixels({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = element("canvas", "", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

async function downloadPicture(format) {
  const chosen = document.getElementById("picture").value;
  const ids = chosen === "all" ? panelIds : [chosen];
  ids.forEach(drawnNow);
  const made = await picture(ids);
  const what = chosen === "all" ? "panels" : chosen;
  const blob = format === "svg" ? new Blob([made.text], { type: "image/svg+xml" }) : await pixels(made);
  saveFile(blob, fileName(what, format));
}

/** The rows that the filter shows, in the order of the table, as results.csv writes them. */
function shownCsv() {
  const [header, ...lines] = data.run.csv.split("\n"); // no cell has a line end
  const shownRows = [...body.rows].filter((row) => !row.hidden).map((row) => lines[row.dataset.row]);
  return `${[header, ...shownRows].join("\n")}\n`;
}

function downloadCsv(text, what) {
  const name = data.run.simulated ? `${what}-SIMULATED.csv` : `${what}.csv`;
  saveFile(new Blob([text], { type: "text/csv" }), name);
}

document.getElementById("csv").addEventListener("click", () => downloadCsv(data.run.csv, "results"));
document.getElementById("csv-shown").addEventListener("click", () => downloadCsv(shownCsv(), "results-shown"));
for (const id of panelIds) {
  const { textContent } = document.getElementById(id).closest("figure").querySelector("strong");
  document.getElementById("picture").append(element("option", textContent, { value: id }));
}
for (const format of ["svg", "png"]) {
  document.getElementById(format)?.addEventListener("click", () => downloadPicture(format));
}
