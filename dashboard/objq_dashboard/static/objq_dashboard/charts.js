// Draws the charts: first what the page came with, then what `objq:chart` brings. Colours are the
// admin's own, so a chart is drawn anew when the theme changes. What a chart shows stands below it
// in words, for those who cannot see it.
"use strict";

(() => {
  const HEIGHT = 170;
  const LEAST_S = 600; // of time that a chart shows, however little is known yet
  const drawn = new Map(); // by the chart's element: { chart, plot }

  const root = document.querySelector("[data-objq-page]");
  if (!root || typeof uPlot === "undefined") return;

  function colour(element, name) {
    return getComputedStyle(element).getPropertyValue(name).trim() || "gray";
  }

  function font() {
    return `11px ${getComputedStyle(root).fontFamily}`;
  }

  function inZone(seconds) {
    const date = new Date(seconds * 1000);
    try {
      return uPlot.tzDate(date, root.dataset.objqZone);
    } catch {
      return date; // a zone that this browser does not know
    }
  }

  const numbers = new Intl.NumberFormat(root.dataset.objqLanguage || undefined, {
    maximumSignificantDigits: 3,
  });

  function withUnit(value, unit) {
    return value === null || value === undefined ? "–" : `${numbers.format(value)} ${unit}`.trim();
  }

  function axis(element, extra) {
    const grid = { stroke: colour(element, "--objq-grid"), width: 1 };
    return {
      stroke: colour(element, "--objq-quiet"),
      grid,
      ticks: grid,
      font: font(),
      ...extra,
    };
  }

  // The values without a neighbour, which no line can show.
  function alone(plot, series) {
    const values = plot.data[series];
    return [...values.keys()].filter(
      (at) => values[at] != null && values[at - 1] == null && values[at + 1] == null,
    );
  }

  // Where nobody points at a time, the legend tells of the newest.
  function tellNewest(plot) {
    if (!(plot.cursor.left >= 0)) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
  }

  function options(element, chart, width) {
    return {
      width,
      height: HEIGHT,
      tzDate: inZone,
      hooks: { ready: [tellNewest], setData: [tellNewest], setLegend: [tellNewest] },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: {
        x: { range: (_, first, last) => [Math.min(first, last - LEAST_S), last] },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.1 : 1] },
      },
      axes: [
        axis(element, { space: 60, values: "{HH}:{mm}", size: 28 }),
        axis(element, {
          size: 52,
          values: (_, values) => values.map((value) => numbers.format(value)),
        }),
      ],
      series: [
        { value: "{HH}:{mm}:{ss}" },
        ...chart.series.map((series, index) => ({
          label: series.label,
          stroke: colour(element, `--objq-line-${index + 1}`),
          width: 2,
          dash: index === 2 ? [6, 3] : undefined,
          points: { show: () => false, filter: alone, fill: colour(element, `--objq-line-${index + 1}`) },
          value: (_, value) => withUnit(value, series.unit),
        })),
      ],
    };
  }

  function draw(element, chart) {
    const place = element.querySelector(".objq-plot");
    const old = drawn.get(element);
    element.toggleAttribute("data-objq-drawn", Boolean(chart));
    if (!chart) {
      old?.plot.destroy();
      drawn.delete(element);
      return;
    }
    const data = [chart.x, ...chart.series.map((series) => series.values)];
    if (old && old.chart.series.length === chart.series.length) {
      old.chart = chart;
      old.plot.setData(data);
      return;
    }
    old?.plot.destroy();
    const plot = new uPlot(options(element, chart, place.clientWidth || 300), data, place);
    drawn.set(element, { chart, plot });
  }

  function redraw() {
    for (const [element, { chart, plot }] of [...drawn]) {
      plot.destroy();
      drawn.delete(element);
      draw(element, chart);
    }
  }

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = drawn.get(target.parentElement)?.plot;
      const width = target.clientWidth;
      if (plot && width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  });

  for (const element of root.querySelectorAll("[data-objq-chart]")) {
    const first = element.querySelector("script[type='application/json']");
    draw(element, first ? JSON.parse(first.textContent) : null);
    element.addEventListener("objq:chart", (event) => draw(element, event.detail));
    sizes.observe(element.querySelector(".objq-plot"));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
})();
