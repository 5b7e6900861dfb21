// Themes and the drawing of figures. The theme follows the system until the button is pressed;
// print is always light.

const system = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
const figures = new Map(); // by the id of their boxes: functions that draw them
const waiting = new Set(); // boxes whose figures are to be drawn
const DRAWN_AT_ONCE = 300; // points; figures of a larger run are drawn one per task
let started = false; // whether the page can show points
let printing = false;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

/** The colors that figures take from the style sheet. */
function colors() {
  if (printing) {
    return {
      ink: "#1c1e21",
      quiet: "#5f666d",
      line: "#dfe2e5",
      paper: "#ffffff",
      bad: "#b3261e",
      accent: "#0068a3",
    };
  }
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "quiet", "line", "paper", "bad", "accent"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function isInWindow(id) {
  const { top, bottom } = document.getElementById(id).getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

/** Draw a figure now if it waits. */
function drawnNow(id) {
  if (waiting.delete(id)) figures.get(id)();
}

function drawnAllNow() {
  for (const id of waiting) drawnNow(id);
}

/** Draw the next figure, those in the window first; let the browser show it before another one. */
function drawNext() {
  const ids = [...waiting];
  if (ids.length > 0) drawnNow(ids.find(isInWindow) ?? ids[0]);
  if (waiting.size > 0) setTimeout(drawNext);
  else showReady();
}

/** Let programs that read the page know whether all figures show its present view. */
function showReady() {
  document.documentElement.dataset.ready = started && waiting.size === 0 ? "yes" : "";
}

/** Draw figures; those of a large run one after the other. */
function draw(ids) {
  const drawing = waiting.size > 0;
  for (const id of ids) waiting.add(id);
  if (printing || data.run.names.length <= DRAWN_AT_ONCE) drawnAllNow();
  else if (!drawing) setTimeout(drawNext);
  showReady();
}

/** Redraw every figure with the current colors and width. */
function redraw() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  leavePoint();
  draw(figures.keys());
}

/** Layout that all figures share. */
function baseLayout(box) {
  const { ink, line } = colors();
  const axis = { gridcolor: line, linecolor: line, zeroline: false };
  return {
    axis,
    layout: {
      // Half the width of A4 or Letter; a box's size on paper is not known beforehand.
      width: printing ? 330 : box.clientWidth,
      height: printing ? 205 : box.clientHeight,
      margin: { l: 52, r: 12, t: 10, b: 50 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: 12 },
      hoverlabel: { align: "left", font: { family: "system-ui, sans-serif", size: 12 } },
      showlegend: false,
      // On a touch screen a drag scrolls the page.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    },
  };
}

const plotConfig = { displayModeBar: false, doubleClick: false, showTips: false };

/** Show `ranges()` on a double click; Plotly's own handler knows only a figure's first ranges. */
function onDoubleClick(box, ranges) {
  box.removeAllListeners("plotly_doubleclick");
  box.on("plotly_doubleclick", () => Plotly.relayout(box, ranges()));
}

themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
  saveView();
});
system.addEventListener("change", redraw);
addEventListener("resize", redraw);
