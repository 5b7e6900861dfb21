// Images per unit of currency, recomputed from a price per host and hour.

const priceField = document.getElementById("price");
const MONEY = heads.findIndex((head) => COST.test(head.textContent));
const moneyColumn = `images_per_${heads[MONEY]?.textContent.match(COST)[1]}`;
// The report's own texts and values by row.
const reported = tableRows.map((row) => ({
  text: row.cells[MONEY]?.textContent,
  value: data.run.rows[row.dataset.row][moneyColumn],
}));

/** 0.0764, 97.2 k, 2.14 M: as the table writes an amount. */
function amount(value) {
  const [size, letter] = [[1e6, " M"], [1e3, " k"], [1, ""]].find(([one]) => value >= one) ?? [1, ""];
  const decimals = 2 - Math.floor(Math.log10(value / size));
  return (value / size).toFixed(Math.min(Math.max(decimals, 0), 100)) + letter;
}

/** The price that the field holds, or null: the report's own prices. */
function wantedPrice() {
  const price = Number(priceField?.value);
  return price > 0 && Number.isFinite(price) ? price : null;
}

/** Fill the column of costs by the price; points without a cost in the report stay empty. */
function applyPrice() {
  if (!priceField) return;
  const price = wantedPrice();
  for (const [at, row] of tableRows.entries()) {
    const { text, value } = reported[at];
    const cells = data.run.rows[row.dataset.row];
    const hosts = data.run.hosts[row.dataset.row];
    const known = price !== null && value && hosts > 0;
    const images = known ? (Number(cells.images_per_second) * 3600) / (hosts * price) : null;
    row.cells[MONEY].textContent = known ? amount(images) : text;
    cells[moneyColumn] = known ? String(images) : value;
  }
  const head = sortedHead();
  if (head) sortBy(heads.indexOf(head), head.getAttribute("aria-sort") === "ascending");
  filterRows(document.getElementById("filter").value);
  document.getElementById("priced").hidden = price === null;
}

priceField?.addEventListener("input", () => {
  applyPrice();
  saveView();
});
