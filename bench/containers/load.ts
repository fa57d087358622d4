/** A closed-loop load generator with a fixed number of requests in flight; measures rate and latency. */

export type SendBenchRequest = (done: () => void) => void;

export type LoadResult = {
  readonly completed: number;
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
};

/** Bounds the cost of sorting: beyond it every second, then every fourth sample is kept, and so on. */
const samplesMax = 1 << 17;

/**
 * Runs at least `durationMs` and until `concurrency` requests have completed. Then it waits for the requests in flight
 * without counting them.
 */
export function measureLoad(send: SendBenchRequest, concurrency: number, durationMs: number): Promise<LoadResult> {
  const samples = new LatencySamples();
  const startMs = performance.now();
  /** 0 while requests are counted. */
  let elapsedMs = 0;
  let completed = 0;
  let inFlight = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      const sentMs = performance.now();
      inFlight += 1;
      send(() => {
        const nowMs = performance.now();
        inFlight -= 1;
        if (elapsedMs === 0) {
          completed += 1;
          samples.add(nowMs - sentMs);
          if (nowMs - startMs >= durationMs && completed >= concurrency) elapsedMs = nowMs - startMs;
          else next();
        }
        if (elapsedMs > 0 && inFlight === 0) resolve(samples.summarize(completed, elapsedMs));
      });
    };
    for (let i = 0; i < concurrency; i++) next();
  });
}

class LatencySamples {
  readonly #values = new Float64Array(samplesMax);
  #count = 0;
  #stride = 1;
  #skip = 0;

  add(value: number): void {
    if (++this.#skip < this.#stride) return;
    this.#skip = 0;
    this.#values[this.#count++] = value;
    if (this.#count < samplesMax) return;
    for (let i = 0; i < samplesMax / 2; i++) this.#values[i] = this.#values[2 * i]!;
    this.#count = samplesMax / 2;
    this.#stride *= 2;
  }

  summarize(completed: number, elapsedMs: number): LoadResult {
    const sorted = this.#values.subarray(0, this.#count).toSorted();
    const at = (ratio: number): number => (sorted[Math.floor(ratio * (sorted.length - 1))] ?? Number.NaN) * 1_000;
    return { completed, perSecond: completed / (elapsedMs / 1_000), p50Us: at(0.5), p99Us: at(0.99) };
  }
}
