// Time series with uPlot, in the colours of the page; drawn again when these change.
import { html, useEffect, useRef } from "/assets/kit.js";

let library = null;
function load() {
  library = library || new Promise((done, failed) => {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = "/assets/vendor/uplot-1.6.32.css";
    const script = document.createElement("script");
    script.src = "/assets/vendor/uplot-1.6.32.js";
    script.onload = () => done(window.uPlot);
    script.onerror = () => { library = null; failed(new Error("no uPlot")); };
    document.head.append(style, script);
  });
  return library;
}
// For views that are going to draw: the library comes while they wait for their data.
export const prepare = () => { load().catch(() => {}); };
// The value that a variable has now: a canvas knows neither var() nor light-dark().
function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
const faint = (found) => found.replace("rgb(", "rgba(").replace(")", ", .13)");

// `lines`: [name, colour variable]; `data`: times, then a column for each line.
const POWERS = Array.from({ length: 50 }, (_, at) => 2 ** at);

export function Chart({ title, value, lines, data, format, max, binary }) {
  const place = useRef(null), plot = useRef(null), newest = useRef(data);
  newest.current = data;
  useEffect(() => {
    let gone = false, watch = null;
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const draw = (uPlot) => {
      if (gone || !place.current) return;
      if (plot.current) plot.current.destroy();
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      plot.current = new uPlot({
        width: Math.max(120, place.current.clientWidth), height: 132, legend: { show: false },
        cursor: { y: false, points: { size: 6 } }, padding: [8, 22, 0, 0],
        scales: { y: { range: (_, low, high) => [0, max || (high > 0 ? high * 1.12 : 1)] } },
        axes: [{ ...axis, size: 24, space: 70, values: [[3600, "{HH}:{mm}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
          { ...axis, size: 72, space: 34, incrs: binary ? POWERS : undefined, values: (_, ticks) => ticks.map(format) }],
        series: [{}, ...lines.map(([label, name], at) => ({
          label, stroke: colour(name), width: 1.5, fill: at === 0 ? faint(colour(name)) : undefined, points: { show: false },
        }))],
        hooks: { setCursor: [(self) => {
          const at = self.cursor.idx, tip = place.current && place.current.parentNode.querySelector(".tip");
          if (!tip) return;
          tip.textContent = at === null || at === undefined ? "" : `${new Date(self.data[0][at] * 1000).toTimeString().slice(0, 8)}  ${lines.map(([label], line) => `${lines.length > 1 ? `${label} ` : ""}${format(self.data[line + 1][at])}`).join("  ")}`;
        }] },
      }, newest.current, place.current);
    };
    const again = () => load().then(draw).catch(() => {});
    again();
    theme.addEventListener("change", again);
    watch = new ResizeObserver(() => { if (plot.current && place.current) plot.current.setSize({ width: Math.max(120, place.current.clientWidth), height: 132 }); });
    watch.observe(place.current);
    return () => {
      gone = true;
      watch.disconnect();
      theme.removeEventListener("change", again);
      if (plot.current) plot.current.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => { if (plot.current) plot.current.setData(data); }, [data]);
  return html`<figure class="chart"><figcaption><span class="name">${title}</span><span class="value">${value}</span>
    <span class="keys">${lines.length > 1 && lines.map(([label, name]) => html`<span class="key"><i style=${{ background: `var(${name})` }}></i>${label}</span>`)}</span></figcaption>
    <div class="plot" ref=${place} role="img" aria-label=${`${title}: now ${value}`}></div><p class="tip" aria-hidden="true"></p></figure>`;
}
