// Data of the page: Plotly, results.csv of the run and of the overlaid run, and the point details.

/** Unpack the gzipped text of an element. */
function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
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
const plotly = document.createElement("script");
plotly.textContent = await unpacked("plotly");
document.head.append(plotly);

const data = JSON.parse(document.getElementById("data").textContent);

/** The rows of a CSV file as objects, with the cells as text. */
function parseCsv(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))([,\n])/g)) {
    rows[rows.length - 1].push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\n") rows.push([]);
  }
  const [header, ...cells] = rows.filter((row) => row.length > 0);
  return cells.map((row) => Object.fromEntries(header.map((name, at) => [name, row[at]])));
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
