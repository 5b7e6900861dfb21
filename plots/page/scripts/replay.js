// Commands that reproduce a point, each with a copy button.

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function commandBox(title, text) {
  const box = element("div", "", { class: "command" });
  const button = element("button", "Copy", { type: "button", class: "screen" });
  button.addEventListener("click", () => copy(text, button));
  box.append(element("p", title), element("pre", text), button);
  return box;
}

function drawReplay() {
  const point = details[which.value];
  const boxes = chosenRepeat().processes.map(([process, text, more]) => {
    const role = process.replace(/-\d+$/, "");
    const others = more === 1 ? `1 more ${role}` : `${more} more ${role}s`;
    return commandBox(more ? `${process} (and ${others}, alike)` : process, text);
  });
  const { title, command } = point.replay;
  if (command) boxes.unshift(commandBox(title, command));
  if (boxes.length === 0) boxes.push(element("p", "The run recorded no commands.", { class: "hint" }));
  document.getElementById("replay").replaceChildren(...boxes);
}
