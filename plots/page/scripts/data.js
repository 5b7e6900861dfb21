// Data of the page: Plotly, results.csv of the run and of the overlaid run, and the point details.

/** Unpack the gzipped text of an element. */
function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Show what browsers without JavaScript show. */
function showStatic(reason) {
  const hidden = document.getElementById("static");
  const shown = document.createElement("div");
  shown.id = "static";
  shown.innerHTML = hidden.textContent;
  shown.firstElementChild.textContent = reason;
  hidden.replaceWith(shown);
}

if (!globalThis.DecompressionStream) {
  showStatic("This browser is too old to draw figures; the tables work without them.");
  document.documentElement.dataset.ready = "yes";
  throw new Error("no DecompressionStream");
}

function run(text) {
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
}

const [data] = await Promise.all([
  unpacked("data").then(JSON.parse),
  unpacked("plotly").then(run),
]);

/** The cells of a line of a CSV file, as text; no cell has a line end. */
function cellsOf(line) {
  if (!line.includes('"')) return line.split(",");
  const cells = `${line},`.matchAll(/(?:"((?:[^"]|"")*)"|([^",]*)),/g);
  return Array.from(cells, ([, quoted, plain]) => (quoted === undefined ? plain : quoted.replaceAll('""', '"')));
}

/** The rows of a CSV file as objects. */
function parseCsv(text) {
  const [header, ...lines] = text.split("\n").filter(Boolean).map(cellsOf);
  return lines.map((cells) => {
    const row = {};
    for (let at = 0; at < header.length; at += 1) row[header[at]] = cells[at];
    return row;
  });
}

for (const drawing of [data.run, data.over]) {
  if (drawing) drawing.rows = parseCsv(drawing.csv);
}


/** Escape text for Plotly, which reads some tags and entities as markup. */
function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Format the number of a cell with at most six significant digits and no exponent. */
function six(text) {
  const value = Number(text);
  return Math.abs(value) >= 1e6 ? value.toFixed(0) : String(Number(value.toPrecision(6)));
}

/** Format a number with four significant digits. */
function short(value) {
  return value >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

/** Create an element with text and attributes. */
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
