// What the page holds: results.csv of the run (and of the one drawn behind it), and the details.

const data = JSON.parse(document.getElementById("data").textContent);

/** The cells of a CSV file as text, a list a line, without the header. */
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

/** The details of every point; they are kept compressed. */
async function readDetails() {
  const packed = atob(document.getElementById("details").textContent);
  const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** Text that Plotly shows as it is: it takes some tags and entities for markup. */
function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The number of a cell with six digits at most, and no exponent that is not in it. */
function six(text) {
  const value = Number(text);
  return Math.abs(value) >= 1e6 ? value.toFixed(0) : String(Number(value.toPrecision(6)));
}

/** A number of seconds and the like, with four digits. */
function short(value) {
  return value >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

/** An element with text and attributes. */
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
