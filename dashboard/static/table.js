// Puts the texts of an event where they belong. Texts may come from strangers: they become text nodes, never HTML.

const operator = document.body.dataset.operator === "yes";

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setTone(node, base, tone) {
  const name = tone ? base + " tone-" + tone : base;
  if (node.className !== name) node.className = name;
}

function bar(share) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 100 4");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("height", "4");
  svg.append(rect);
  setBar(svg, share);
  return svg;
}

function setBar(svg, share) {
  svg.firstElementChild.setAttribute("width", String(Math.min(Math.max(share || 0, 0), 1) * 100));
}

function fillActs(node, acts) {
  const wanted = operator ? acts ?? [] : [];
  const same = node.children.length === wanted.length && wanted.every((a, i) => node.children[i].getAttribute("href") === a.href);
  if (same) return;
  node.replaceChildren(...wanted.flatMap((a) => {
    const link = document.createElement("a");
    link.className = "act";
    link.href = a.href;
    link.textContent = a.label;
    return [link, " "];
  }));
}

function fillCell(td, base, cell) {
  const text = cell.t ?? "";
  setTone(td, base, cell.c);
  setText(td.firstElementChild, text);
  if (text.length > 40) td.title = text; else td.removeAttribute("title");
  if (!base.endsWith("share")) return;
  const drawn = td.querySelector("svg");
  if (drawn) setBar(drawn, cell.b);
  else td.append(bar(cell.b));
}

function showNotices(section, frame) {
  const notices = section.querySelector("[data-notices]");
  if (!notices) return;
  setText(notices, (frame.notices ?? []).join(" "));
  notices.hidden = !frame.notices;
}

/** fillTable makes the rows of a table those of an event. Rows and cells are used again. */
export function fillTable(section, frame) {
  const heads = [...section.querySelectorAll("th[data-col]")];
  const at = heads.map((h) => frame.columns.indexOf(h.dataset.col));
  const classes = heads.map((h) => h.className);
  const acts = section.querySelector("th.acts") !== null;
  const filter = section.dataset.filter ? JSON.parse(section.dataset.filter) : {};
  const kept = frame.rows.filter((r) => Object.entries(filter).every(([name, texts]) => texts.includes(r.cells[frame.columns.indexOf(name)]?.t ?? "")));
  const body = section.querySelector("tbody");
  while (body.rows.length > kept.length) body.deleteRow(-1);
  while (body.rows.length < kept.length) {
    const tr = body.insertRow();
    for (let i = 0; i < heads.length; i++) tr.insertCell().append(document.createElement("span"));
    if (acts) tr.insertCell().className = "acts";
  }
  kept.forEach((r, n) => {
    const tr = body.rows[n];
    at.forEach((from, i) => fillCell(tr.cells[i], classes[i], r.cells[from] ?? {}));
    if (acts) fillActs(tr.cells[heads.length], r.acts);
  });
  section.querySelector("[data-empty]").hidden = kept.length > 0;
  const one = frame.total === 1 ? " row" : " rows";
  setText(section.querySelector("[data-count]"), (kept.length < frame.total ? kept.length + " of " : "") + frame.total + one);
  showNotices(section, frame);
}

function fillRecord(node, row, columns) {
  for (const part of node.querySelectorAll("[data-col]")) {
    const cell = row.cells[columns.indexOf(part.dataset.col)] ?? {};
    setText(part, cell.t ?? "");
    if (part.classList.contains("badge")) setTone(part, "badge", cell.c);
    if ("bar" in part.dataset) setBar(part.parentElement.querySelector("svg"), cell.b);
  }
  const acts = node.querySelector("[data-acts]");
  if (acts) fillActs(acts, row.acts);
}

/** fillRecords does the same for rows that are not shown as a table. */
export function fillRecords(section, frame) {
  const list = section.querySelector("[data-list]");
  const known = new Map([...list.children].map((n) => [n.dataset.key, n]));
  const nodes = frame.rows.map((row) => {
    const node = known.get(row.key) ?? section.querySelector("template").content.firstElementChild.cloneNode(true);
    node.dataset.key = row.key;
    fillRecord(node, row, frame.columns);
    return node;
  });
  if (nodes.length !== list.children.length || nodes.some((n, i) => n !== list.children[i])) list.replaceChildren(...nodes);
  const empty = section.querySelector("[data-empty]");
  if (empty) empty.hidden = nodes.length > 0;
  showNotices(section, frame);
}
