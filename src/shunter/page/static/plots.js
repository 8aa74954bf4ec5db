// Plots of the last hour. Their points come with the page, and each new one by its stream; uPlot
// draws them. The values are text beside the plot: the present ones, or those at the cursor, which
// follows the pointer and the arrow keys. Colours are those of the style sheet.
"use strict";
(() => {
  const HEIGHT = 132;
  const FONT = "11px system-ui, sans-serif";
  const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -30, PageUp: 30, Home: -1e9, End: 1e9 };
  const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, roundingMode: "halfEven" });
  const shortened = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);
  const colour = (node) => getComputedStyle(node).color;
  const plots = new Map();

  class LivePlot {
    constructor(figure) {
      this.unit = figure.dataset.unit;
      this.caption = figure.querySelector("figcaption");
      this.keys = [...figure.querySelectorAll(".key")];
      this.box = figure.querySelector("div");
      this.words = this.keys.map((key) => key.firstChild.nodeValue.trim());
      const [start, step, ...columns] = JSON.parse(figure.dataset.points);
      this.data = [columns[0].map((_, at) => start + at * step), ...columns];
      this.most = columns[0].length;
      this.box.replaceChildren();
      this.plot = new uPlot(this.options(), this.data, this.box);
      this.at = document.createElement("span");
      this.at.className = "plot-top";
      this.box.append(this.at);
      this.name(this.caption.firstChild.nodeValue.trim());
      this.tell();
      new ResizeObserver(() => this.fit()).observe(this.box);
    }

    options() {
      const soft = () => colour(this.caption);
      const rule = () => getComputedStyle(this.box).getPropertyValue("--rule").trim();
      const line = (key, at) => ({
        label: this.words[at],
        stroke: () => colour(key),
        fill: at ? undefined : () => colour(key).replace("rgb(", "rgba(").replace(")", ", .14)"),
        dash: at ? [4, 3] : undefined,
        width: 1.5,
        points: { show: false },
      });
      const axis = { stroke: soft, font: FONT, ticks: { show: false } };
      return {
        width: this.box.clientWidth || 280,
        height: HEIGHT,
        padding: [6, 10, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.08)] } },
        axes: [
          { ...axis, size: 22, gap: 4, space: 60, incrs: [300, 600, 900, 1200, 1800], grid: { show: false },
            values: (_, times) => times.map((at) => clock(at).slice(0, 5)) },
          { ...axis, size: 44, gap: 4, space: 32, grid: { stroke: rule, width: 1 },
            values: (_, values) => values.map((value) => shortened.format(value)) },
        ],
        series: [{}, ...this.keys.map(line)],
        hooks: { setCursor: [() => this.tell()] },
      };
    }

    // For readers of the screen it is a slider over time, whose value is said as text.
    name(title) {
      const root = this.root = this.plot.root;
      root.tabIndex = 0;
      root.setAttribute("role", "slider");
      root.setAttribute("aria-roledescription", "plot");
      root.setAttribute("aria-label", `${title}, the last hour`);
      root.addEventListener("keydown", (event) => this.step(event));
      root.addEventListener("blur", () => this.leave());
    }

    step(event) {
      const by = KEYS[event.key];
      if (event.key === "Escape") this.leave();
      if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const last = this.data[0].length - 1;
      const at = Math.min(last, Math.max(0, (this.plot.cursor.idx ?? last) + by));
      this.plot.setCursor({ left: this.plot.valToPos(this.data[0][at], "x"), top: 0 });
    }

    leave() {
      this.plot.setCursor({ left: -10, top: -10 });
    }

    add([start, step, ...columns]) {
      const known = this.data[0].filter((at) => at < start).length;
      const times = columns[0].map((_, at) => start + at * step);
      this.data = [times, ...columns].map((fresh, at) => [...this.data[at].slice(0, known), ...fresh].slice(-this.most));
      this.plot.setData(this.data);
      this.tell();
    }

    tell() {
      if (!this.root) return;
      const last = this.data[0].length - 1;
      const chosen = this.plot.cursor.idx;
      const at = Math.min(chosen ?? last, last);
      const time = clock(this.data[0][at]);
      const texts = this.keys.map((_, line) => `${figures.format(this.data[line + 1][at])} ${this.unit}`);
      this.keys.forEach((key, line) => {
        const value = key.querySelector("strong");
        if (value.textContent !== texts[line]) value.textContent = texts[line];
      });
      this.at.textContent = chosen == null ? "" : time;
      const said = texts.map((text, line) => `${this.words[line]} ${text}`).join(", ");
      this.root.setAttribute("aria-valuemin", this.data[0][0]);
      this.root.setAttribute("aria-valuemax", this.data[0][last]);
      this.root.setAttribute("aria-valuenow", this.data[0][at]);
      this.root.setAttribute("aria-valuetext", `${chosen == null ? "now" : `${time} UTC`}: ${said}`);
    }

    fit() {
      const width = this.box.clientWidth;
      if (width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    }
  }

  for (const figure of document.querySelectorAll("[data-plot]")) plots.set(figure.dataset.plot, new LivePlot(figure));
  document.addEventListener("points", ({ detail }) => {
    for (const [name, points] of Object.entries(detail)) plots.get(name)?.add(points);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const { plot } of plots.values()) plot.redraw(false);
  });
})();
