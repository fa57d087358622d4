/** Closed-loop load with a fixed number in flight; rates and latencies. */

export type SendRequest = (heard: () => void) => void;

export type LoadResult = {
  readonly answered: number;
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
};

/** More would only make the sorting slow: of what comes later every second, fourth... is kept. */
const samplesMax = 1 << 17;

/**
 * For at least so long, and until there are as many answers as questions may be under way; answers that come after that
 * are waited for and not counted.
 */
export function measureLoad(ask: SendRequest, concurrency: number, durationMs: number): Promise<LoadResult> {
  const samples = new LatencySamples();
  const startMs = performance.now();
  let tookMs = 0;
  let answered = 0;
  let underWay = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      const askedMs = performance.now();
      underWay += 1;
      ask(() => {
        const nowMs = performance.now();
        underWay -= 1;
        if (tookMs === 0) {
          answered += 1;
          samples.add(nowMs - askedMs);
          if (nowMs - startMs >= durationMs && answered >= concurrency) tookMs = nowMs - startMs;
          else next();
        }
        if (tookMs > 0 && underWay === 0) resolve(samples.load(answered, tookMs));
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

  load(answered: number, tookMs: number): LoadResult {
    const sorted = this.#values.subarray(0, this.#count).toSorted();
    const at = (part: number): number => (sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN) * 1_000;
    return { answered, perSecond: answered / (tookMs / 1_000), p50Us: at(0.5), p99Us: at(0.99) };
  }
}
