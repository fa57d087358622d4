/**
 * A job through the loss of nodes: a worker is killed, then the leader, then another worker is stopped and continued
 * much later. The job completes, each effect happens once, and nothing is left behind.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import {
  leaderOf,
  assertNothingLeft,
  startJobCluster,
  waitUntil,
  workflowFile,
} from '../support/processes/job-cluster.ts';

const itemsCount = 10_000;
const unitItems = 500;

/** Applies each effect once, by its key, and refuses effects with an old fence. */
class Sink {
  readonly effects = new Map<string, number>();
  readonly #fences = new Map<string, bigint>();
  repeated = 0;
  refused = 0;

  apply(key: string, unit: string, fence: bigint): void {
    const highest = this.#fences.get(unit) ?? 0n;
    if (fence < highest) {
      this.refused += 1;
      return;
    }
    this.#fences.set(unit, fence);
    const times = this.effects.get(key);
    if (times !== undefined) this.repeated += 1;
    this.effects.set(key, (times ?? 0) + 1);
  }
}

const work = (port: number): string => `
export default workflow('effects', {
  items: ${itemsCount}, cores: 4, concurrency: 5, unitItems: ${unitItems}, network: true, timeout: '3m',
  each: async (item, ctx) => {
    await ctx.sleep(20);
    const sent = await ctx.http.post('http://127.0.0.1:${port}/', { json: { key: ctx.idempotencyKey, item, fence: ctx.fence } });
    if (sent.status !== 200) throw new Error('the sink replied ' + sent.status);
    return item;
  },
});
`;

test(
  'a job survives the loss of a worker and of the leader, and a stopped worker',
  { timeout: 230_000 },
  async (context) => {
    const sink = new Sink();
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (text: string) => (body += text));
      request.on('end', () => {
        const { key, item, fence } = JSON.parse(body) as { key: string; item: number; fence: string };
        sink.apply(key, String(Math.floor(item / unitItems)), BigInt(fence));
        response.end();
      });
    }).listen(0, '127.0.0.1');
    await waitUntil('the sink listens', async () => server.listening);
    context.after(async () => {
      server.closeAllConnections();
      server.close();
    });
    const jobLab = await startJobCluster(context, { managers: 3, workers: 4 });
    const { lab, workers, session } = jobLab;
    const file = workflowFile(lab, 'effects', work((server.address() as AddressInfo).port));
    const job = await session.submit(file, { idempotencyKey: 'once' });

    const [killed, , stopped] = workers;
    assert.ok(killed !== undefined && stopped !== undefined);
    const leader = await leaderOf(jobLab);
    const faults: readonly [share: number, inject: () => void][] = [
      [0.2, () => killed.kill('SIGKILL')],
      [0.4, () => leader.kill('SIGKILL')],
      [0.6, () => stopped.kill('SIGSTOP')],
    ];
    let next = 0;
    for await (const { completed } of job.progress()) {
      const fault = faults[next];
      if (fault === undefined || completed < fault[0] * itemsCount) continue;
      fault[1]();
      next += 1;
    }
    stopped.kill('SIGCONT');
    assert.equal(next, faults.length, 'every fault was injected');

    const report = await job.report();
    assert.equal(report.status, 'COMPLETED', JSON.stringify(report.incidents));
    assert.deepEqual([report.totals.completed, report.totals.failed], [itemsCount, 0]);
    const { effects: values } = (await job.result()) as { effects: readonly number[] };
    assert.deepEqual(
      values,
      Array.from({ length: itemsCount }, (_, item) => item),
    );
    assert.equal(sink.effects.size, itemsCount, 'each item had its effect');
    const { workflows } = await job.show();
    const attempts = workflows.flatMap((one) => one.attempts);
    const won = attempts.filter(({ outcome }) => outcome === 'completed');
    assert.equal(won.length, itemsCount / unitItems, 'each unit was completed by one attempt');
    // Only items of lost attempts were repeated, with the same key.
    assert.ok(sink.repeated <= (attempts.length - won.length) * unitItems);
    assert.ok(
      report.incidents.some(({ node }) => node === killed.name),
      JSON.stringify(report.incidents),
    );

    await assertNothingLeft(
      workers.filter((worker) => worker !== killed),
      [killed],
    );
    assert.deepEqual(lab.unexpectedExits(killed, leader), []);
    const again = await session.submit(file, { idempotencyKey: 'once' });
    assert.equal(again.id, job.id, 'the same key is the same job under the new leader');
  },
);
