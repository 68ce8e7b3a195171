// The heat map: a column for each moment, a row for each bucket or some neighbours, shard by shard. Levels come as
// bytes, and only the newest columns are asked for again.

const every = 5000; // milliseconds
const left = 92; // room for the names of shards, in pixels
const bottom = 22; // room for times
const ticks = [60, 120, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600]; // seconds between times of the axis
const depth = 113; // levels of the ramp: four powers of ten

function variable(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function amount(v) {
  const digits = v < 10 ? 2 : v < 100 ? 1 : 0;
  return v.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

function ranges(buckets) {
  const out = [];
  for (const b of buckets) {
    const last = out[out.length - 1];
    if (last && last[1] === b - 1) last[1] = b; else out.push([b, b]);
  }
  const texts = out.slice(0, 4).map(([a, z]) => (a === z ? String(a) : a + "–" + z));
  return (buckets.length === 1 ? "bucket " : "buckets ") + texts.join(", ") + (out.length > 4 ? ", …" : "");
}

class HeatMap {
  constructor(node) {
    this.node = node;
    this.choice = { database: node.dataset.database, metric: node.dataset.metric, span: node.dataset.span };
    this.unit = node.dataset.unit;
    this.canvas = document.getElementById("heat");
    this.tip = document.getElementById("tip");
    this.columns = []; // of levels, the oldest first
    this.first = 0; // number of the oldest column
    this.step = 10;
    this.layout = 0;
    this.strips = [];
    this.amounts = [];
    this.colours = [];
    this.keys = [];
    this.moves = []; // jobs of the database: from and to are times in seconds
    this.empty = 0; // columns at the beginning without any work
    this.image = document.createElement("canvas");
  }

  url(path, more) {
    const url = new URL(path, location.origin);
    for (const [k, v] of Object.entries({ ...this.choice, ...more })) url.searchParams.set(k, v);
    return url;
  }

  async readRows() {
    const answer = await fetch(this.url("/api/rows", {}));
    if (!answer.ok) return;
    const rows = await answer.json();
    this.layout = rows.layout;
    this.strips = rows.strips ?? [];
    this.amounts = rows.amounts;
    this.colours = rows.colours.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  }

  /** read asks for the newest columns, or for all if the rows have changed. */
  async read() {
    const from = this.columns.length > 1 ? this.first + this.columns.length - 2 : 0;
    const answer = await fetch(this.url("/api/heat", { from }));
    if (!answer.ok) return;
    const header = (name) => Number(answer.headers.get("Weft-" + name));
    const [layout, first, count, rows] = [header("Layout"), header("First"), header("Columns"), header("Rows")];
    const levels = new Uint8Array(await answer.arrayBuffer());
    this.step = header("Step");
    if (layout !== this.layout) {
      await this.readRows();
      if (from > 0) { this.columns = []; await this.read(); return; }
    }
    const fresh = Array.from({ length: count }, (_, i) => levels.subarray(i * rows, (i + 1) * rows));
    const most = this.choice.span === "day" ? 288 : 360;
    if (this.columns.length === 0 || first > this.first + this.columns.length) {
      this.columns = fresh;
      this.first = first;
    } else {
      this.columns = [...this.columns.slice(0, first - this.first), ...fresh];
      const gone = Math.max(0, this.columns.length - most);
      this.columns.splice(0, gone);
      this.first += gone;
    }
    // Bytes of one answer are kept by any of its columns: long ones are copied apart.
    if (fresh.length < most) this.columns = this.columns.map((c) => (c.byteLength === c.buffer.byteLength ? c : c.slice()));
    this.trim();
    this.draw();
  }

  /** trim leaves out the time before anything was recorded, but for five minutes, or two hours. */
  trim() {
    let empty = 0;
    while (empty < this.columns.length && this.columns[empty].every((l) => l === 0)) empty++;
    this.empty = empty;
    const most = this.choice.span === "day" ? 288 : 360;
    const gone = Math.min(empty, Math.max(0, this.columns.length - most / 12));
    this.columns.splice(0, gone);
    this.first += gone;
    this.empty -= gone;
  }

  ends() {
    let high = 0;
    for (const c of this.columns) for (const l of c) if (l > high) high = l;
    return [Math.max(1, high - depth), high];
  }

  /** shade returns the place of a level in the ramp, as package dashboard does for images. */
  shade(level, low, high) {
    if (level === 0 || high === 0) return 0;
    if (level <= low || high === low) return 12;
    return 12 + Math.floor(((level - low) * 243) / (high - low));
  }

  /** area is where cells are drawn, in pixels of the page. */
  area() {
    return { x: left, y: 0, width: this.canvas.clientWidth - left, height: this.canvas.clientHeight - bottom };
  }

  draw() {
    const rows = this.strips.length;
    const columns = this.columns.length;
    document.getElementById("canvas").hidden = false;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "12px system-ui, sans-serif";
    if (rows === 0 || columns === 0) {
      g.fillStyle = variable("--quiet");
      g.fillText("Nothing is recorded yet.", left, 24);
      return;
    }
    const [low, high] = this.ends();
    this.paint(rows, columns, low, high);
    const a = this.area();
    g.imageSmoothingEnabled = false;
    g.drawImage(this.image, 0, 0, columns, rows, a.x, a.y, a.width, a.height);
    this.jobs(g, a, columns);
    this.axes(g, a, rows, columns);
    this.legend(low, high);
  }

  /** paint makes an image with a pixel for each cell. */
  paint(rows, columns, low, high) {
    if (this.image.width !== columns) this.image.width = columns;
    if (this.image.height !== rows) this.image.height = rows;
    const g = this.image.getContext("2d");
    const image = g.createImageData(columns, rows);
    this.columns.forEach((levels, x) => {
      if (x < this.empty) return; // nothing was recorded: the paper is seen
      for (let y = 0; y < rows; y++) {
        const [r, gr, b] = this.colours[this.shade(levels[y] ?? 0, low, high)];
        const at = 4 * (y * columns + x);
        image.data[at] = r;
        image.data[at + 1] = gr;
        image.data[at + 2] = b;
        image.data[at + 3] = 255;
      }
    });
    g.putImageData(image, 0, 0);
  }

  /** jobs draws when moves of rows began and ended. */
  jobs(g, a, columns) {
    g.strokeStyle = "rgb(255 255 255 / 80%)";
    g.lineWidth = 1;
    for (const job of this.moves) {
      for (const [time, dash] of [[job.from, []], [job.to, [3, 3]]]) {
        const x = (time / this.step - this.first) / columns;
        if (!(x > 0 && x < 1)) continue;
        g.setLineDash(dash);
        g.beginPath();
        g.moveTo(a.x + x * a.width, a.y);
        g.lineTo(a.x + x * a.width, a.y + a.height);
        g.stroke();
      }
    }
    g.setLineDash([]);
  }

  axes(g, a, rows, columns) {
    g.fillStyle = variable("--ink");
    g.textBaseline = "middle";
    g.textAlign = "right";
    let start = 0;
    for (let r = 1; r <= rows; r++) {
      if (r < rows && this.strips[r].shard === this.strips[start].shard) continue;
      const [top, end] = [a.y + (start / rows) * a.height, a.y + (r / rows) * a.height];
      if (end - top > 11) g.fillText(this.strips[start].shard, a.x - 10, (top + end) / 2, left - 14);
      if (r < rows) {
        g.fillStyle = "rgb(255 255 255 / 55%)";
        g.fillRect(a.x, end - 0.5, a.width, 1);
        g.fillStyle = variable("--line");
        g.fillRect(a.x - left + 8, end - 0.5, left - 8, 1);
        g.fillStyle = variable("--ink");
      }
      start = r;
    }
    g.fillStyle = variable("--quiet");
    g.textAlign = "center";
    const tick = ticks.find((s) => (columns * this.step) / s <= a.width / 90) ?? ticks[ticks.length - 1];
    for (let c = 0; c < columns; c++) {
      const time = (this.first + c) * this.step;
      if (time % tick !== 0) continue;
      const x = a.x + (c / columns) * a.width;
      if (x > a.x + 14 && x < a.x + a.width - 14) g.fillText(new Date(time * 1000).toISOString().slice(11, 16), x, a.height + bottom / 2 + 2);
      g.fillRect(x, a.height, 1, 4);
    }
  }

  legend(low, high) {
    document.getElementById("legend").hidden = high === 0;
    const ramp = document.getElementById("ramp");
    const g = ramp.getContext("2d");
    for (let i = 0; i < 256; i++) {
      g.fillStyle = "rgb(" + this.colours[Math.max(12, i)].join(" ") + ")";
      g.fillRect(i, 0, 1, 10);
    }
    document.getElementById("legend-low").textContent = "≤ " + amount(this.amounts[low]);
    document.getElementById("legend-high").textContent = amount(this.amounts[high]);
    document.getElementById("legend-unit").textContent = this.unit;
    document.getElementById("legend-text").textContent = "darkest: no work · blank: not recorded · times in UTC";
  }

  /** cell returns the column and row under a point of the page, null for none. */
  cell(event) {
    const box = this.canvas.getBoundingClientRect();
    const a = this.area();
    const x = (event.clientX - box.left - a.x) / a.width;
    const y = (event.clientY - box.top - a.y) / a.height;
    if (x < 0 || x >= 1 || y < 0 || y >= 1 || this.columns.length === 0) return null;
    return { column: Math.floor(x * this.columns.length), row: Math.floor(y * this.strips.length) };
  }

  hover(event) {
    const at = this.cell(event);
    this.tip.hidden = at === null || !this.strips[at.row];
    if (this.tip.hidden) return;
    const strip = this.strips[at.row];
    const level = this.columns[at.column][at.row] ?? 0;
    const time = new Date((this.first + at.column) * this.step * 1000).toISOString().slice(11, 19);
    const lines = [strip.shard + ", " + ranges(strip.buckets), time + " UTC: " + (level === 0 ? "no work" : "about " + amount(this.amounts[level]) + " " + this.unit)];
    const from = (this.first + at.column) * this.step;
    for (const job of this.moves) if (job.from < from + this.step && job.to >= from) lines.push("job " + job.text);
    const wanted = new Set(strip.buckets.map(String));
    for (const k of this.keys.filter((k) => wanted.has(k.bucket) && k.database === this.choice.database).slice(0, 3)) lines.push("now: key " + k.key + ", " + k.share + " of the shard");
    this.tip.replaceChildren(...lines.map((text, i) => {
      const line = document.createElement(i === 0 ? "b" : "div");
      line.textContent = text;
      return line;
    }));
    const box = this.canvas.parentElement.getBoundingClientRect();
    const x = event.clientX - box.left + 14;
    this.tip.style.left = Math.min(x, box.width - this.tip.offsetWidth - 8) + "px";
    this.tip.style.top = Math.max(0, event.clientY - box.top - this.tip.offsetHeight - 10) + "px";
  }

  click(event) {
    const at = this.cell(event);
    if (at === null || !this.strips[at.row]) return;
    const url = new URL("/dashboard/keys", location.origin);
    url.searchParams.set("database", this.choice.database);
    url.searchParams.set("bucket", this.strips[at.row].buckets.slice(0, 200).join(","));
    location.assign(url);
  }
}

export function start(on) {
  const map = new HeatMap(document.getElementById("map"));
  window.weftMap = map; // tests look at it
  const form = document.getElementById("controls");
  document.getElementById("show").hidden = true;
  form.addEventListener("change", () => form.submit());
  map.canvas.addEventListener("mousemove", (e) => map.hover(e));
  map.canvas.addEventListener("mouseleave", () => { map.tip.hidden = true; });
  map.canvas.addEventListener("click", (e) => map.click(e));
  on("hot_keys", (frame) => {
    const at = (name) => frame.columns.indexOf(name);
    map.keys = frame.rows.map((r) => ({ key: r.cells[at("key")].t, bucket: r.cells[at("bucket")].t, database: r.cells[at("database")].t, share: r.cells[at("share_of_shard")].t }));
  });
  on("moves", (frame) => {
    map.moves = frame.raw.filter((r) => r.database === map.choice.database && r.started).map((r) => ({
      from: Date.parse(r.started) / 1000,
      to: r.ended ? Date.parse(r.ended) / 1000 : Date.now() / 1000,
      text: r.job + ", " + r.kind + ": " + (r.from_shards ?? []).join(", ") + " → " + (r.to_shards ?? []).join(", "),
    }));
  });
  const read = () => map.read().catch(() => {}); // weft may be away: the next one may do
  const again = async () => {
    if (!document.hidden) await read();
    setTimeout(again, every);
  };
  document.getElementById("canvas").hidden = false;
  read().then(() => setTimeout(again, every));
  addEventListener("resize", () => map.draw());
  document.addEventListener("theme", () => map.draw());
}
