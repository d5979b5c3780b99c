// A line over time, drawn by uPlot, which is loaded when it is first needed.
import { useEffect, useRef } from "./libraries/hooks.js";
import { html } from "./ui.js";

const day = (time) => time.toLocaleDateString([], { day: "numeric", month: "short" });
const clock = (time) => time.toLocaleTimeString([], { hour12: false });

let loaded;
function library() {
  loaded ||= new Promise((resolve, reject) => {
    const style = Object.assign(document.createElement("link"), {
      rel: "stylesheet",
      href: "/web/libraries/uplot.css",
    });
    const script = Object.assign(document.createElement("script"), {
      src: "/web/libraries/uplot.js",
      onload: () => resolve(window.uPlot),
      onerror: reject,
    });
    document.head.append(style, script);
  });
  return loaded;
}

// `points` are [Unix time, value] in order; `bars` draws days instead of a line.
export function Plot({ label, unit, points, bars }) {
  const place = useRef(null);
  const plot = useRef(null);
  const data = [points.map(([at]) => at), points.map(([, value]) => value)];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let isGone = false;
    let watcher;
    library().then((uPlot) => {
      if (isGone || !place.current) return;
      const style = getComputedStyle(document.documentElement);
      const [ink, line, accent] = ["--quiet", "--line", "--accent"].map((name) => style.getPropertyValue(name).trim());
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
      plot.current = new uPlot(
        {
          width: place.current.clientWidth,
          height: 160,
          legend: { show: false },
          cursor: { y: false },
          scales: { y: { range: (_, low, high) => [Math.min(0, low), high || 1] } },
          axes: [
            { ...axis, values: (_, times) => times.map((at) => (bars ? day : clock)(new Date(at * 1000))) },
            { ...axis, size: 64 },
          ],
          series: [
            {},
            {
              label: unit,
              stroke: accent,
              width: 2,
              fill: bars ? accent : undefined,
              paths: bars ? uPlot.paths.bars({ size: [0.7, 40] }) : undefined,
              points: { show: false },
            },
          ],
        },
        latest.current,
        place.current,
      );
      watcher = new ResizeObserver(
        () => place.current && plot.current?.setSize({ width: place.current.clientWidth, height: 160 }),
      );
      watcher.observe(place.current);
    });
    return () => {
      isGone = true;
      watcher?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [points.length, points.at(-1)?.[1]]);
  return html`<figure class="plot">
    <figcaption>${label}</figcaption>
    <div ref=${place} role="img" aria-label=${`${label}: ${points.at(-1)?.[1] ?? 0} ${unit}`}></div>
  </figure>`;
}
