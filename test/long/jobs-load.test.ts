/**
 * A load test through the loss of a worker and of the leader. The report counts the requests that the target counted,
 * except those of lost attempts, of which it reports what it knows. `LOAD_SECONDS=30` runs a longer one.
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

const seconds = Number(process.env['LOAD_SECONDS'] ?? 6);
const users = 8;

const work = (port: number): string => `
export default workflow('load', {
  vus: ${users}, duration: '${seconds}s', cores: 4, network: true, timeout: '3m',
  steps: {
    look: async (ctx) => {
      const seen = await ctx.http.get('http://127.0.0.1:${port}/');
      ctx.check(seen, (one) => one.status === 200, 'status is 200');
    },
    think: async (ctx) => ctx.sleep(20),
  },
});
`;

test(
  'a load test survives the loss of a worker and of the leader, and its numbers add up',
  { timeout: 230_000 },
  async (context) => {
    let counted = 0;
    const server = createServer((_request, response) => {
      counted += 1;
      response.end('hello');
    }).listen(0, '127.0.0.1');
    await waitUntil('the target listens', async () => server.listening);
    context.after(async () => {
      server.closeAllConnections();
      server.close();
    });
    const jobLab = await startJobCluster(context, { managers: 3, workers: 4 });
    const { lab, workers, session } = jobLab;
    const job = await session.submit(workflowFile(lab, 'load', work((server.address() as AddressInfo).port)));
    const killed = workers[1];
    assert.ok(killed !== undefined);
    const leader = await leaderOf(jobLab);
    let step = 0;
    for await (const { completed, elapsedMs } of job.progress()) {
      if (step === 0 && completed > 0 && elapsedMs > seconds * 300) {
        killed.kill('SIGKILL');
        step = 1;
      } else if (step === 1 && elapsedMs > seconds * 600) {
        leader.kill('SIGKILL');
        step = 2;
      }
    }
    assert.equal(step, 2);
    const { status, totals, incidents, steps, checks } = await job.report();
    assert.equal(status, 'COMPLETED', JSON.stringify(incidents));
    const lost = incidents.filter(({ node }) => node === killed.name);
    assert.ok(lost.length > 0, JSON.stringify(incidents));
    const reportedLost = lost.reduce((sum, { effect }) => sum + Number(/(\d+) iterations/.exec(effect)?.[1] ?? 0), 0);
    context.diagnostic(
      `the target counted ${counted}, the report ${totals.requests}, lost and reported ${reportedLost}`,
    );
    assert.ok(
      totals.requests > 0 && counted >= totals.requests,
      `${counted} at the target, ${totals.requests} reported`,
    );
    // Requests of the lost worker after its last report, and one request in flight of each user.
    const unreportedMax = 200;
    assert.ok(
      counted - totals.requests - reportedLost <= unreportedMax,
      `${counted} = ${totals.requests} + ${reportedLost} + too much`,
    );
    assert.equal(steps.find(({ step: name }) => name === 'look')?.count, totals.requests);
    assert.ok(checks.length > 0);
    await assertNothingLeft(
      workers.filter((worker) => worker !== killed),
      [killed],
    );
    assert.deepEqual(lab.unexpectedExits(killed, leader), []);
  },
);
