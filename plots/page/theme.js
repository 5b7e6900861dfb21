// Light and dark: the system's until the button is pressed, and always light on paper.

const system = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
const redraws = [];
let printing = false;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

/** The colours that figures take from the style sheet. */
function colours() {
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

/** Has every figure drawn again, in the colours and the width that hold now. */
function redraw() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  for (const draw of redraws) draw();
}

/** What figures have in common. */
function baseLayout(box) {
  const { ink, line } = colours();
  const axis = { gridcolor: line, linecolor: line, zeroline: false, automargin: true };
  return {
    axis,
    layout: {
      // Half of A4 or Letter: what a box will measure on paper is not known before.
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

/** Has a double click show some ranges; Plotly's own knows only the first that a figure had. */
function onDoubleClick(box, ranges) {
  box.removeAllListeners("plotly_doubleclick");
  box.on("plotly_doubleclick", () => Plotly.relayout(box, ranges()));
}

themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
system.addEventListener("change", redraw);
addEventListener("resize", redraw);
