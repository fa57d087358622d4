/**
 * Process of a load generator in a plain loop: autocannon, undici, or ctx.http without a runner.
 * `node npm-generator-main.ts NAME URL CONNECTIONS`, with a line of seconds on stdin for each round.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Histogram } from '../../src/base/histogram.ts';
import { systemClock } from '../../src/io/system/clock.ts';
import { openHttp } from '../../src/runner/http/open-http.ts';
import { npmFolder } from './generators.ts';

type RequestCounts = { readonly requests: number; readonly failed: number };
type Generate = (seconds: number) => Promise<RequestCounts>;

type Cannon = (options: Readonly<Record<string, unknown>>) => Promise<{
  readonly requests: { readonly total: number };
  readonly non2xx: number;
  readonly errors: number;
}>;
type Undici = {
  readonly Pool: new (
    url: string,
    options: Readonly<Record<string, unknown>>,
  ) => {
    request(options: Readonly<Record<string, unknown>>): Promise<{
      readonly statusCode: number;
      readonly body: { dump(): Promise<void> };
    }>;
  };
};

const fromNpm = createRequire(join(npmFolder, 'node_modules/'));

const generators: Readonly<Record<string, (url: string, connections: number) => Generate>> = {
  autocannon: (url, connections) => {
    const cannon = fromNpm('autocannon') as Cannon;
    return async (duration) => {
      const { requests, non2xx, errors } = await cannon({ url, connections, duration });
      return { requests: requests.total, failed: non2xx + errors };
    };
  },
  undici: (url, connections) => {
    const { Pool } = fromNpm('undici') as Undici;
    const pool = new Pool(url, { connections, pipelining: 1 });
    return loop(connections, async () => {
      const { statusCode, body } = await pool.request({ path: '/', method: 'GET' });
      await body.dump();
      return statusCode;
    });
  },
  client: (url, connections) => {
    const times = new Histogram();
    const recorder = { recordRequest: ({ durationUs }: { readonly durationUs: number }) => times.record(durationUs) };
    const http = openHttp({ clock: systemClock() }).clientFor(recorder);
    return loop(connections, async () => (await http.get(`${url}/`)).status);
  },
};

function loop(users: number, send: () => Promise<number>): Generate {
  return async (seconds) => {
    const endMs = performance.now() + seconds * 1_000;
    let [requests, failed] = [0, 0];
    const user = async (): Promise<void> => {
      while (performance.now() < endMs) {
        if ((await send()) !== 200) failed += 1;
        requests += 1;
      }
    };
    await Promise.all(Array.from({ length: users }, user));
    return { requests, failed };
  };
}

const [name = '', url = '', connections = ''] = process.argv.slice(2);
const generate = generators[name]!(url, Number(connections));
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const startMs = performance.now();
  const counts = await generate(Number(line));
  console.log(JSON.stringify({ ...counts, elapsedMs: performance.now() - startMs }));
}
process.exit(0);
