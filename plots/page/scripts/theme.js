// Light and dark theme: follows the system until the button is pressed; print is always light.

const system = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
const redraws = [];
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

/** Redraw every figure with the current colors and width. */
function redraw() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  for (const draw of redraws) draw();
}

/** Layout that all figures share. */
function baseLayout(box) {
  const { ink, line } = colors();
  const axis = { gridcolor: line, linecolor: line, zeroline: false, automargin: true };
  return {
    axis,
    layout: {
      // Half the width of A4 or Letter; a box's size on paper is not known beforehand.
      width: printing ? 330 : box.clientWidth,
      height: printing ? 205 : box.clientHeight,
      margin: { l: 52, r: 12, t: 10, b: 40 },
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
