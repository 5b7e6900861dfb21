// The view in the address: its fragment has every control that differs from its default.

const MOST_FILTER = 200; // characters
let restoring = true;
let firstPoint = null;

/** The switches of a group that are off, by name. */
const SWITCHES = { "hide-network": ["networks", hidden.networks], "hide-kvstore": ["stores", hidden.stores] };

function sortedHead() {
  return heads.find((head) => head.getAttribute("aria-sort") !== "none");
}

/** The present view as parameters; defaults are left out. */
function viewParameters() {
  const found = new URLSearchParams();
  for (const [key, [, off]] of Object.entries(SWITCHES)) {
    for (const name of off) found.append(key, name);
  }
  if (!logarithmic) found.set("scale", "linear");
  const head = sortedHead();
  if (head) {
    found.set("sort", head.textContent);
    found.set("order", head.getAttribute("aria-sort"));
  }
  const words = document.getElementById("filter").value;
  if (words) found.set("filter", words.slice(0, MOST_FILTER));
  if (details && which.value !== firstPoint) found.set("point", data.run.names[which.value]);
  if (wantedPrice() !== null) found.set("price", priceField.value);
  const { theme } = document.documentElement.dataset;
  if (theme) found.set("theme", theme);
  return found;
}

/** Put the present view into the address. */
function saveView() {
  if (restoring) return;
  const [page] = location.href.split("#");
  const text = String(viewParameters());
  try {
    history.replaceState(null, "", text ? `${page}#${text}` : page);
  } catch {
    // A page in a sandbox, or too many changes per second: the address stays as it is.
  }
}

/** Set the controls to a view. Parts that do not belong to this page keep their defaults. */
function restoreView(wanted) {
  for (const [key, [id, off]] of Object.entries(SWITCHES)) {
    const names = new Set(wanted.getAll(key));
    off.clear();
    for (const button of document.getElementById(id)?.children ?? []) {
      if (names.has(button.textContent)) off.add(button.textContent);
      button.setAttribute("aria-pressed", String(!off.has(button.textContent)));
    }
  }
  logarithmic = wanted.get("scale") !== "linear";
  document.getElementById("scale")?.setAttribute("aria-pressed", String(logarithmic));
  zoom += 1;
  if (priceField) {
    priceField.value = /^[0-9.]{1,20}$/.test(wanted.get("price")) ? wanted.get("price") : "";
    applyPrice();
  }
  const at = heads.findIndex((head) => head.textContent === wanted.get("sort"));
  sortBy(at, wanted.get("order") !== "descending");
  const words = wanted.get("filter") ?? "";
  const field = document.getElementById("filter");
  field.value = words.length > MOST_FILTER ? "" : words;
  filterRows(field.value);
  const theme = wanted.get("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

/** Choose the point of a view, the first time and after a change of the address. */
function restorePoint(wanted) {
  if (!details) return;
  const row = data.run.names.indexOf(wanted.get("point"));
  choosePoint(row < 0 ? firstPoint : row);
}

function addressView() {
  return new URLSearchParams(location.hash.slice(1));
}

/** Show the view of an address that a reader put in place of the present one. */
function followAddress() {
  const wanted = addressView();
  const keys = [...Object.keys(SWITCHES), "scale", "sort", "filter", "point", "price", "theme"];
  if (!keys.some((key) => wanted.has(key))) return; // a section of the page
  restoring = true;
  restoreView(wanted);
  redraw();
  if (panelIds.length > 0) drawLegend();
  restorePoint(wanted);
  restoring = false;
}

restoreView(addressView());
redraw();
if (panelIds.length > 0) drawLegend();
await start();
firstPoint = which.value;
restorePoint(addressView());
restoring = false;
addEventListener("hashchange", followAddress);
started = true;
showReady();
