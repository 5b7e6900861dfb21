// Point details: windows, ranks, and the commands that reproduce it.

const FAR_ABOVE = 3; // multiple of the longest counted window; excluded ones above are cut off
const which = document.getElementById("which");
const repeatChoice = document.getElementById("repeat");
let details = null;

const chosenRepeat = () => details[which.value].repeats[repeatChoice.value];

function about() {
  const row = data.run.rows[which.value];
  const one = chosenRepeat();
  const counted = one.windows.of - one.dropped;
  const parts = [
    `${data.run.names[which.value]}, repeat ${one.number}: ${one.status}`,
    one.source && `not measured by mxscale: ${one.source}`,
    row.images_per_second && `${short(Number(row.images_per_second))} images/s over all repeats`,
    one.windows.of > 0 && `${counted} of ${one.windows.of - one.warmup} windows after warm-up counted`,
    one.started && `started ${one.started.slice(0, 19).replace("T", " ")}`,
    one.elapsed && `ran for ${short(one.elapsed)} s`,
    one.gpus,
    one.message,
  ];
  document.getElementById("about").textContent = `${parts.filter(Boolean).join("; ")}.`;
}

/**
 * Draw a figure of seconds up to `top`, and below it other values if `lower` names them.
 *
 * A double click resets the zoom; if nothing is zoomed, it also shows the values above `top`.
 */
function drawDetail(id, traces, xaxis, { lower = "", top = null } = {}) {
  const box = document.getElementById(id);
  box.hidden = traces[0].x.length === 0;
  if (box.hidden) return;
  const { layout, axis } = baseLayout(box);
  const value = (text) => ({ ...axis, automargin: true, title: { text, standoff: 8 }, rangemode: "tozero" });
  const upTo = top === null ? {} : { range: [0, top] };
  const two = lower && { yaxis2: { ...value(lower), domain: [0, 0.27], nticks: 4 } };
  Plotly.react(
    box,
    traces,
    {
      ...layout,
      hovermode: "closest",
      xaxis: { ...axis, automargin: true, tickformat: "d", ...xaxis, anchor: lower ? "y2" : "y" },
      yaxis: { ...value("seconds"), domain: lower ? [0.38, 1] : [0, 1], ...upTo },
      ...two,
    },
    plotConfig,
  );
  onDoubleClick(box, () => {
    const isWhole = String(box.layout.yaxis.range) === String([0, top]);
    const seconds = top === null || isWhole ? { "yaxis.autorange": true } : { "yaxis.range": [0, top] };
    return { "xaxis.range": [...xaxis.range], ...seconds, ...(lower && { "yaxis2.autorange": true }) };
  });
}

/** Only whole-number ticks, if there are few. */
function step(count) {
  return count <= 16 ? { dtick: 1 } : {};
}

/** The longest window time to show: not far above the counted windows; null shows all. */
function topOf({ at, seconds }, dropped) {
  const longest = Math.max(0, ...seconds.filter((_, place) => at[place] >= dropped));
  return longest > 0 && Math.max(...seconds) > FAR_ABOVE * longest ? 1.15 * longest : null;
}

function drawSeries() {
  if (!details) return;
  const { windows, warmup, dropped } = chosenRepeat();
  const { accent, quiet } = colors();
  const state = (at) => (at < warmup ? "excluded: warm-up" : at < dropped ? "excluded: before the steady state" : "");
  const hover = windows.at.map((at, place) =>
    [`<b>window ${at + 1}</b>`, `${windows.seconds[place]} s`, `${windows.images[place]} images`, state(at)]
      .filter(Boolean)
      .join("<br>"),
  );
  const trace = {
    x: windows.at.map((at) => at + 1),
    y: windows.seconds,
    mode: windows.at.length > 1 ? "lines+markers" : "markers",
    line: { color: quiet, width: 0.8 },
    marker: { size: 7, color: windows.at.map((at) => (at < dropped ? "#a9aeb3" : accent)) },
    hoverinfo: "text",
    hovertext: hover,
  };
  const range = [0.5, windows.of + 0.5];
  const top = topOf(windows, dropped);
  const xaxis = { title: { text: "window" }, range, ...step(windows.of) };
  drawDetail("series", [trace], xaxis, { top });
  const above = top === null ? [] : windows.seconds.filter((seconds) => seconds > top);
  document.getElementById("series-note").replaceChildren(...windowNotes(windows, above));
}

function windowNotes(windows, above) {
  if (windows.of === 0) return ["No windows: this repeat has no result."];
  const kept = windows.at.length;
  const words = [];
  if (windows.of > kept) {
    words.push(`Shows ${kept} of ${windows.of} windows: the shortest and the longest of each interval. `);
  }
  if (above.length > 0) {
    const longest = `${short(Math.max(...above))} s`;
    const many = `${above.length} excluded windows are off scale, up to ${longest}. `;
    words.push(above.length === 1 ? `1 excluded window is off scale, at ${longest}. ` : many);
    words.push(element("span", "Double-click to show all.", { class: "screen" }));
  }
  return words;
}

function rankHover(ranks, place) {
  const parts = [
    `<b>rank ${ranks.rank[place]}</b>${ranks.rank[place] === ranks.slowest ? " (the slowest)" : ""}`,
    `${plain(ranks.host[place])}, ${plain(ranks.process[place])}`,
    `window: ${ranks.seconds[place]} s`,
  ];
  if (ranks.own[place] !== null) parts.push(`own compute: ${ranks.own[place]} s`);
  if (ranks.cpu[place] !== null) parts.push(`CPU: ${Math.round(100 * ranks.cpu[place])} %`);
  if (ranks.memory?.[place]) parts.push(`peak memory: ${short(ranks.memory[place])} GB`);
  if (ranks.gpu?.[place]) parts.push(`peak GPU memory: ${short(ranks.gpu[place])} GB`);
  return parts.join("<br>");
}

function rankTrace(ranks, values, color, symbol, more = {}) {
  const { bad } = colors();
  const marks = ranks.rank.map((rank) => rank === ranks.slowest);
  return {
    x: ranks.rank,
    y: values,
    mode: "markers",
    marker: {
      symbol,
      size: marks.map((mark) => (mark ? 11 : 8)),
      color: color,
      line: { color: marks.map((mark) => (mark ? bad : color)), width: marks.map((m) => (m ? 3 : 1)) },
    },
    hoverinfo: "text",
    hovertext: ranks.rank.map((_, place) => rankHover(ranks, place)),
    ...more,
  };
}

function drawRanks() {
  if (!details) return;
  const { ranks } = chosenRepeat();
  const { accent, quiet } = colors();
  const known = (values) => values.some((value) => value !== null);
  const traces = [rankTrace(ranks, ranks.seconds, accent, "circle")];
  if (known(ranks.own)) traces.push(rankTrace(ranks, ranks.own, "#D55E00", "diamond"));
  const cpu = ranks.cpu.map((share) => (share === null ? null : 100 * share));
  if (known(cpu)) traces.push(rankTrace(ranks, cpu, quiet, "square", { yaxis: "y2" }));
  const range = [-0.5, ranks.of - 0.5];
  const xaxis = { title: { text: "rank" }, range, ...step(ranks.of) };
  drawDetail("ranks", traces, xaxis, { lower: known(cpu) ? "CPU, %" : "" });
  document.getElementById("ranks-note").textContent = rankNotes(ranks, known(ranks.own), known(cpu));
}

function rankNotes(ranks, own, cpu) {
  if (ranks.of === 0) return "No ranks: this repeat has no result.";
  const parts = ["Circles: median time of a window."];
  if (own) parts.push("Diamonds: median time of the rank's own computation, without waiting for other ranks.");
  if (cpu) parts.push("Squares: CPU use of the rank, in percent of one core.");
  if (ranks.slowest !== null) {
    const place = ranks.rank.indexOf(ranks.slowest);
    const seconds = own ? ranks.own[place] : ranks.seconds[place];
    parts.push(
      `Slowest: rank ${ranks.slowest} on ${ranks.host[place]}, ${short(seconds)} s (ringed in red).`,
    );
  }
  if (ranks.of > ranks.rank.length) {
    parts.push(`Shows ${ranks.rank.length} of ${ranks.of} ranks, including the slowest.`);
  }
  return parts.join(" ");
}

figures.set("series", drawSeries);
figures.set("ranks", drawRanks);

function drawPoint() {
  about();
  draw(["series", "ranks"]);
  drawReplay();
}

function choosePoint(row) {
  which.value = row;
  for (const one of tableRows) one.classList.toggle("chosen", one.dataset.row === String(row));
  const options = details[row].repeats.map((one, at) =>
    element("option", `${one.number}: ${one.status}`, { value: at }),
  );
  repeatChoice.replaceChildren(...options);
  drawPoint();
  saveView();
}

function showPoint(row) {
  choosePoint(row);
  document.getElementById("point").scrollIntoView({ behavior: "smooth" });
}

/** Redraw for print, which is always light and as wide as the paper. */
function forPaper(onPaper) {
  printing = onPaper;
  redraw();
}

async function start() {
  which.append(...data.run.names.map((name, row) => element("option", name, { value: row })));
  details = JSON.parse(await unpacked("details"));
  drawWhy();
  which.addEventListener("change", () => choosePoint(which.value));
  repeatChoice.addEventListener("change", drawPoint);
  const rowOf = ({ target }) => target.closest("tr").dataset.row;
  body.addEventListener("click", (event) => getSelection().isCollapsed && showPoint(rowOf(event)));
  body.addEventListener("keydown", (event) => {
    if (event.key === "Enter") showPoint(rowOf(event));
  });
  const first = data.run.lines[0]?.points ?? [];
  choosePoint(first.length > 0 ? first[first.length - 1].row : 0);
}

addEventListener("beforeprint", () => forPaper(true));
addEventListener("afterprint", () => forPaper(false));
