// The points of a panel by keyboard: arrow keys move, Enter shows the point below.

const spoken = document.getElementById("spoken");
const ring = element("span", "", { class: "ring", "aria-hidden": "true" });
let focused = null; // { box, line, at }: a point of a line of the panel that has the focus

/** The lines of a panel, each a list of points in the order of devices, as hover shows them. */
function pointLines(box) {
  return box.data
    .map((trace, curve) => ({ trace, curve }))
    .filter(({ trace }) => trace.customdata && trace.meta !== "windows")
    .flatMap(({ trace, curve }) =>
      apart(trace).map((numbers) =>
        numbers
          .map((number) => ({ number, curve, x: trace.x[number], y: trace.y[number], row: trace.customdata[number] }))
          .filter(({ number }) => trace.hovertext[number])
          .sort((one, other) => one.x - other.x),
      ),
    )
    .filter((points) => points.length > 0);
}

/** The places of a trace's points, line by line. */
function apart({ x }) {
  const lines = [[]];
  for (const [number, at] of x.entries()) {
    if (at === null) lines.push([]);
    else lines.at(-1).push(number);
  }
  return lines;
}

/** The text of a hover label, without the markup and the entities that Plotly reads. */
function labelWords(html) {
  const bare = html.replaceAll("<br>", "; ").replace(/<\/?b>/g, "");
  return bare.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function leavePoint() {
  if (focused) Plotly.Fx.unhover(focused.box);
  focused = null;
  ring.remove();
  spoken.textContent = "";
}

/** Ring a point, show what hover shows, and announce it. */
function focusPoint(box, line, at) {
  const point = pointLines(box)[line][at];
  focused = { box, line, at };
  const trace = box.data[point.curve];
  const { xaxis, yaxis, yaxis2 } = box._fullLayout;
  const values = trace.yaxis === "y2" ? yaxis2 : yaxis;
  box.after(ring);
  ring.style.left = `${box.offsetLeft + xaxis._offset + xaxis.d2p(point.x)}px`;
  ring.style.top = `${box.offsetTop + values._offset + values.d2p(point.y)}px`;
  Plotly.Fx.hover(box, [{ curveNumber: point.curve, pointNumber: point.number }]);
  spoken.textContent = labelWords(trace.hovertext[point.number]);
}

/** The place of the point of another line that is nearest in devices. */
function nearest(points, x) {
  const far = points.map((point) => Math.abs(point.x - x));
  return far.indexOf(Math.min(...far));
}

function movePoint(box, key) {
  const lines = pointLines(box);
  if (lines.length === 0) return;
  if (focused?.box !== box) {
    focusPoint(box, 0, 0);
    return;
  }
  const { line, at } = focused;
  const within = (place, count) => Math.min(Math.max(place, 0), count - 1);
  const last = lines[line].length - 1;
  const places = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
  if (key in places) {
    focusPoint(box, line, within(places[key], last + 1));
    return;
  }
  const other = within(line + (key === "ArrowDown" ? 1 : -1), lines.length);
  focusPoint(box, other, nearest(lines[other], lines[line][at].x));
}

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

function onPanelKey(event) {
  const box = event.currentTarget;
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (MOVES.includes(event.key)) {
    event.preventDefault();
    drawnNow(box.id);
    movePoint(box, event.key);
  } else if (event.key === "Escape") {
    leavePoint();
  } else if (event.key === "Enter" && focused?.box === box) {
    const { row } = pointLines(box)[focused.line][focused.at];
    if (row === null || row === undefined || !details) return;
    showPoint(row);
    which.focus({ preventScroll: true });
  }
}

for (const id of panelIds) {
  const box = document.getElementById(id);
  box.addEventListener("keydown", onPanelKey);
  box.addEventListener("blur", leavePoint);
  // A panel that is drawn again, or a mouse over it, has another label.
  box.addEventListener("mousemove", () => focused && leavePoint());
}
