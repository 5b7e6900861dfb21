// The panel "Why": one stacked bar per point, with the shares of its step from results.csv.

const SHARES = {
  compute: "compute",
  input: "input",
  link: "exchange: link",
  server: "exchange: server",
  sync: "exchange: synchronization",
  straggler: "waiting for the slowest",
  cores: "cores or interference",
  unexplained: "unexplained",
};
const whyBars = document.getElementById("why-bars");
let currentBar = null; // the row whose bar takes the focus by Tab
const bars = new Map(); // made so far, by row
const EVENTS = ["pointerover", "focusin"];
let touched = null; // the row of the bar that was touched last
let pointer = ""; // mouse, pen or touch

/** The shares of a point above 0, by name; empty if they were not measured. */
function sharesOf(row) {
  const cells = data.run.rows[row];
  return Object.keys(SHARES)
    .map((name) => [name, Number(cells[`share_${name}`] ?? "")])
    .filter(([, share]) => share > 0);
}

function percent(share) {
  return `${(100 * share).toFixed(0)} %`;
}

function whyText(row) {
  const parts = sharesOf(row).map(([name, share]) => `${SHARES[name]} ${percent(share)}`);
  return parts.join(", ") || "not measured";
}

/** The rows with a verdict that the switches and the filter show. */
function whyRows() {
  const kept = new Set(tableRows.filter((row) => !row.hidden).map((row) => Number(row.dataset.row)));
  return details.map(({ why }, row) => (why ? row : -1)).filter((row) => kept.has(row) && shown(data.run.rows[row]));
}

/** The row of the bar that an event is about, or null. */
function barRow({ target }) {
  return target.closest("li")?.dataset.row ?? null;
}

function showEvidence(row) {
  document.getElementById("why-evidence").textContent =
    `${data.run.names[row]}: ${whyText(row)}; ${details[row].why.evidence}.`;
}

function stack(row) {
  const shares = sharesOf(row);
  if (shares.length === 0) return element("span", "not measured", { class: "bar unknown" });
  const bar = element("span", "", { class: "bar" });
  for (const [name, share] of shares) {
    const part = element("span", "", { class: `share-${name}`, title: `${SHARES[name]} ${percent(share)}` });
    part.style.width = `${100 * share}%`;
    bar.append(part);
  }
  return bar;
}

function barOf(row) {
  const { verdict } = details[row].why;
  const name = data.run.names[row];
  if (bars.has(row)) return bars.get(row);
  const item = element("li", "", {
    role: "option",
    "data-row": row,
    "aria-label": `${name}: ${verdict}; ${whyText(row)}`,
    tabindex: -1,
  });
  item.append(element("span", name), stack(row), element("span", verdict));
  bars.set(row, item);
  return item;
}

/** Let Tab reach one bar: the current one if it is shown, otherwise the first. */
function setCurrentBar(row) {
  const wanted = bars.get(Number(row));
  const found = wanted?.parentNode === whyBars ? wanted : whyBars.firstElementChild;
  mark(bars.get(Number(currentBar)), false);
  mark(found, true);
  currentBar = found?.dataset.row ?? null;
  return found;
}

function mark(bar, current) {
  bar?.setAttribute("aria-selected", String(current));
  if (bar) bar.tabIndex = current ? 0 : -1;
}

function moveBar(event) {
  const shownBars = [...whyBars.children];
  const at = shownBars.indexOf(document.activeElement);
  const last = shownBars.length - 1;
  const places = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last };
  if (at >= 0 && event.key === "Enter") showPoint(barRow(event));
  if (at < 0 || !Object.hasOwn(places, event.key)) return;
  event.preventDefault();
  const to = Math.min(last, Math.max(0, places[event.key]));
  setCurrentBar(shownBars[to].dataset.row).focus();
}

/** Fill the table of shares, if it is open; a large run has many cells. */
function drawWhyTable() {
  if (!details || !document.getElementById("why-numbers").open) return;
  const head = element("tr", "");
  for (const name of ["point", ...Object.values(SHARES), "verdict"]) head.append(element("th", name, { scope: "col" }));
  const rows = whyRows().map((row) => {
    const line = element("tr", "");
    const shares = Object.fromEntries(sharesOf(row));
    const known = Object.keys(shares).length > 0;
    const cells = Object.keys(SHARES).map((name) => (known ? percent(shares[name] ?? 0) : "not measured"));
    line.append(element("th", data.run.names[row], { scope: "row" }));
    for (const cell of [...cells, details[row].why.verdict]) line.append(element("td", cell));
    return line;
  });
  const [top, body] = [element("thead", ""), element("tbody", "")];
  top.append(head);
  body.append(...rows);
  document.getElementById("why-table").replaceChildren(top, body);
}

function drawWhy() {
  if (!whyBars || !details) return;
  const rows = whyRows();
  whyBars.replaceChildren(...rows.map(barOf));
  setCurrentBar(currentBar);
  const all = new Set(rows.flatMap((row) => sharesOf(row).map(([name]) => name)));
  const used = Object.keys(SHARES).filter((name) => all.has(name));
  document.getElementById("why-legend").replaceChildren(
    ...used.map((name) => {
      const item = element("li", "");
      item.append(element("span", "", { class: `swatch share-${name}` }), SHARES[name]);
      return item;
    }),
  );
  document.getElementById("why-evidence").textContent = rows.length > 0 ? "" : "All points are hidden.";
  drawWhyTable();
}

/** Show the point of a bar; a first touch shows its evidence only, as hover does. */
function chooseBar(event) {
  const row = barRow(event);
  if (row === null) return;
  const again = row === touched;
  touched = pointer === "touch" ? row : null;
  setCurrentBar(row);
  showEvidence(row);
  if (again || touched === null) showPoint(row);
}

if (whyBars) {
  for (const event of EVENTS) {
    whyBars.addEventListener(event, (one) => barRow(one) !== null && showEvidence(barRow(one)));
  }
  whyBars.addEventListener("pointerdown", ({ pointerType }) => (pointer = pointerType));
  whyBars.addEventListener("click", chooseBar);
  whyBars.addEventListener("keydown", moveBar);
  document.getElementById("why-numbers").addEventListener("toggle", drawWhyTable);
}
