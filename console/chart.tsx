/** One line chart over time, drawn by uPlot. It owns its canvas and resizes it with the page. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

export type ChartSeries = {
  readonly label: string;
  readonly values: readonly (number | null)[];
  readonly color: string;
};

type ChartProps = {
  readonly title: string;
  readonly seconds: readonly number[];
  readonly lines: readonly ChartSeries[];
};

const height = 170;

export function Chart({ title, seconds, lines }: ChartProps) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const labels = lines.map(({ label }) => label).join();

  useEffect(() => {
    const element = container.current;
    if (element === null) return undefined;
    const created = new uPlot(optionsOf(element, lines), dataOf(seconds, lines), element);
    plot.current = created;
    const observer = new ResizeObserver(() => created.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      created.destroy();
    };
  }, [labels]);

  useEffect(() => {
    plot.current?.setData(dataOf(seconds, lines));
  }, [seconds, lines]);

  return (
    <figure class="chart">
      <figcaption class="quiet">{title}</figcaption>
      <div ref={container} />
    </figure>
  );
}

function dataOf(seconds: readonly number[], lines: readonly ChartSeries[]): uPlot.AlignedData {
  return [[...seconds], ...lines.map(({ values }) => [...values])];
}

function optionsOf(element: HTMLElement, lines: readonly ChartSeries[]): uPlot.Options {
  // Readable on a light and on a dark background.
  const axis = { stroke: '#888', grid: { stroke: '#8883', width: 1 } };
  return {
    width: element.clientWidth,
    height,
    scales: { x: { time: false } },
    axes: [axis, { ...axis, size: 60 }],
    series: [{ label: 's' }, ...lines.map(({ label, color }) => ({ label, stroke: color, width: 1.5 }))],
  };
}
