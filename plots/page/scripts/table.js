// The results table: sorting and filtering.

const body = document.querySelector("#table tbody");
const heads = [...document.querySelectorAll("#table thead th")];
const tableRows = [...body.rows];
// Columns that results.csv holds with more digits than the table shows.
const SORTED_BY = {
  devices: "devices",
  batch: "global_batch",
  "images/s": "images_per_second",
  "95 % CI": "low",
  n: "repeats",
  "speed-up": "speedup_device",
  efficiency: "efficiency_device",
  "vs 1 host": "efficiency_host",
  "vs 1 worker": "efficiency_worker",
  accuracy: "accuracy",
  [`speed-up vs ${data.run.baseline?.name}`]: "speedup_baseline",
  [`efficiency vs ${data.run.baseline?.name}`]: "efficiency_baseline",
  "images/J": "images_per_joule",
};
const COST = /^images\/([A-Z]{3})$/; // by currency code

/** The sort key of a row: a number if the cell begins with one, otherwise text; null if empty. */
function sortKey(row, at) {
  const name = heads[at].textContent;
  const column = SORTED_BY[name] ?? name.match(COST)?.[1]?.replace(/^/, "images_per_");
  const text = column ? data.run.rows[row.dataset.row][column] : row.cells[at].textContent.trim();
  if (!text) return null;
  const number = parseFloat(text);
  return Number.isNaN(number) ? text : number;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

/** Sort the rows by a column; none if there is no such column. */
function sortBy(at, ascending) {
  heads.forEach((head) => head.setAttribute("aria-sort", "none"));
  if (!heads[at]) {
    body.append(...tableRows);
    return;
  }
  heads[at].setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const keyed = tableRows.map((row) => [sortKey(row, at), row]);
  keyed.sort(([one], [other]) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return ascending ? compare(one, other) : compare(other, one);
  });
  body.append(...keyed.map(([, row]) => row));
}

/** Whether a text contains a word; a device count such as x2 must match a whole word. */
function isWithin(word, text) {
  return /^x\d+$/.test(word) ? new RegExp(`\\b${word}\\b`).test(text) : text.includes(word);
}

function filterRows(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of tableRows) {
    const cells = [...row.cells].map((cell) => cell.textContent);
    const searched = [data.run.names[row.dataset.row], ...cells].join(" ").toLowerCase();
    row.hidden = !words.every((word) => isWithin(word, searched));
    count += row.hidden ? 0 : 1;
  }
  const all = tableRows.length;
  document.getElementById("count").textContent =
    `${count === all ? "" : `${count} of `}${all} point${all === 1 ? "" : "s"}`;
  drawWhy();
}

heads.forEach((head, at) =>
  head.firstChild.addEventListener("click", () => {
    sortBy(at, head.getAttribute("aria-sort") !== "ascending");
    saveView();
  }),
);
for (const row of tableRows) {
  row.tabIndex = 0;
  row.title = "Show windows and ranks below";
  row.classList.toggle("failed", !["ok", "unstable"].includes(data.run.rows[row.dataset.row].status));
}
document.getElementById("filter").addEventListener("input", (event) => {
  filterRows(event.target.value);
  saveView();
});

const columnsButton = document.getElementById("columns");
/** Fix the widths of columns: the browser then lays out only the rows that are in view. */
function fixColumns(table) {
  // Not the style of the table: asking for it would compute those of all its cells.
  const family = getComputedStyle(document.body).fontFamily;
  const font = { size: 0.84 * parseFloat(getComputedStyle(document.documentElement).fontSize), family };
  const widths = heads.map(({ textContent, dataset }) =>
    Math.max(textWidth(textContent, { ...font, weight: 600 }), textWidth(dataset.widest, font)),
  );
  const inEm = (width) => Math.ceil((100 * width) / font.size) / 100;
  const rules = widths.map((width, at) => `#table tr > :nth-child(${at + 1}) { --width: ${inEm(width)} }`);
  document.head.append(element("style", rules.join("\n")));
  table.style.setProperty("--widths", inEm(widths.reduce((sum, width) => sum + width)));
  table.style.setProperty("--columns", widths.length);
  table.classList.add("fixed");
}

const longTable = document.querySelector(".long > #table");
if (longTable) fixColumns(longTable);

columnsButton.addEventListener("click", () => {
  const all = document.getElementById("table").classList.toggle("all");
  columnsButton.setAttribute("aria-pressed", String(all));
});
