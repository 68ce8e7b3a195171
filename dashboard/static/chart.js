// The charts of the overview: the last hour of each shard, ten seconds to a point, and the newest second by second.
/* global uPlot */

const hour = 3600;
const shortest = 300; // seconds that a chart shows at least
// Okabe and Ito's colours, which the colour-blind can tell apart; more shards than colours are dashed.
const light = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08900", "#3d9bd4", "#5b5b5b", "#7b3294"];
const dark = ["#56b4e9", "#ff9a63", "#2fc79a", "#e39ac4", "#f0d442", "#8fb8de", "#b9c2cc", "#b58bd6"];

function variable(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function write(v) {
  if (v === null || v === undefined) return "–";
  const digits = Math.abs(v) < 10 ? 2 : Math.abs(v) < 100 ? 1 : 0;
  return v.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

// tick writes a number of an axis: no more digits than it has.
function tick(v) {
  return String(Number(v.toFixed(3))).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

class Chart {
  constructor(id) {
    this.node = document.getElementById(id);
    this.names = [];
    this.data = [[]];
    this.plot = null;
  }

  options() {
    const colours = isDark() ? dark : light;
    const axis = { stroke: variable("--quiet"), grid: { stroke: variable("--line"), width: 1 }, ticks: { stroke: variable("--line"), width: 1 }, font: "11px system-ui, sans-serif" };
    return {
      width: this.node.clientWidth - 16, height: 210,
      tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      scales: { x: { range: (_, low, high) => [Math.min(low, high - shortest), high] }, y: { range: (_, low, high) => [0, Math.max(high * 1.08, 0.1)] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toISOString().slice(11, 16)) }, { ...axis, size: 58, values: (_, ticks) => ticks.map(tick) }],
      series: [
        { label: "UTC", value: (_, v) => (v ? new Date(v * 1000).toISOString().slice(11, 19) : "–") },
        ...this.names.map((name, i) => ({ label: name, stroke: colours[i % colours.length], dash: i >= colours.length ? [4, 3] : undefined, width: 1.6, points: { show: false }, value: (_, v) => write(v) })),
      ],
    };
  }

  draw() {
    this.plot?.destroy();
    this.plot = this.names.length > 0 ? new uPlot(this.options(), this.data, this.node) : null;
    this.tell();
  }

  /** tell writes the newest values below the chart, unless the reader points at others. */
  tell() {
    const last = this.data[0].length - 1;
    if (this.plot && last >= 0 && (this.plot.cursor.idx ?? null) === null) this.plot.setLegend({ idx: last });
  }

  /** begin takes the points of the last hour, by shard. */
  begin(times, by) {
    this.names = Object.keys(by).sort();
    this.data = [times, ...this.names.map((n) => by[n])];
    this.draw();
  }

  /** add takes a point of each shard. What is older than an hour goes. */
  add(time, by) {
    const times = this.data[0];
    if (times.length > 0 && time <= times[times.length - 1]) return;
    const names = [...new Set([...this.names, ...Object.keys(by)])].sort();
    const grown = names.length !== this.names.length;
    if (grown) {
      const old = new Map(this.names.map((n, i) => [n, this.data[i + 1]]));
      this.data = [times, ...names.map((n) => old.get(n) ?? new Array(times.length).fill(null))];
      this.names = names;
    }
    times.push(time);
    names.forEach((n, i) => this.data[i + 1].push(by[n] ?? 0));
    let gone = 0;
    while (times[gone] < time - hour) gone++;
    if (gone > 0) for (const list of this.data) list.splice(0, gone);
    if (grown || !this.plot) this.draw(); else this.plot.setData(this.data);
    this.tell();
  }

  resize() { this.plot?.setSize({ width: this.node.clientWidth - 16, height: 210 }); }
}

function numbers(list, scale) { return list.map((v) => v * scale); }

export async function start(on) {
  document.getElementById("charts").hidden = false;
  const calls = new Chart("chart-calls");
  const busy = new Chart("chart-busy");
  try {
    const answer = await fetch(new URL("/api/series", location.origin));
    const past = await answer.json();
    const shards = Object.keys(past.busy ?? {});
    const n = shards.length > 0 ? past.busy[shards[0]].length : 0;
    // Points before the proxy has recorded anything are left out.
    let from = 0;
    while (from < n && shards.every((s) => past.busy[s][from] === 0)) from++;
    const times = Array.from({ length: n - from }, (_, i) => past.first + (from + i) * past.step);
    calls.begin(times.slice(), Object.fromEntries(shards.map((s) => [s, past.reads[s].slice(from).map((v, i) => v + past.writes[s][from + i])])));
    busy.begin(times, Object.fromEntries(shards.map((s) => [s, numbers(past.busy[s].slice(from), 0.001)])));
  } catch {
    // The charts begin with the next event.
  }
  on("load", (frame) => {
    const time = frame.time / 1000;
    calls.add(time, Object.fromEntries(frame.raw.map((r) => [r.shard, r.reads_s + r.writes_s])));
    busy.add(time, Object.fromEntries(frame.raw.map((r) => [r.shard, r.busy_ms_s / 1000])));
  });
  addEventListener("resize", () => { calls.resize(); busy.resize(); });
  document.addEventListener("theme", () => { calls.draw(); busy.draw(); });
}
