/**
 * The shortest slice of each proof without a test of its own: it runs and prints its results. Durations are printed,
 * not asserted: a slow machine is no bug.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

function runProof(context: TestContext, name: string, ...args: string[]): Promise<string> {
  const script = fileURLToPath(new URL(`../../scripts/proofs/${name}.ts`, import.meta.url));
  return new Promise((done, failed) => {
    execFile(process.execPath, [script, ...args], { timeout: 200_000 }, (error, stdout, stderr) => {
      for (const line of stdout.trim().split('\n')) context.diagnostic(line);
      // 1: a goal was missed.
      if (error === null || error.code === 1) done(stdout);
      else failed(new Error(`${error.message}\n${stderr}`));
    });
  });
}

test('a container is callable again after its owner is killed, stopped or shut down', async (context) => {
  const output = await runProof(context, 'recovery', '--trials', '1');
  for (const way of ['kill', 'stop', 'end']) assert.match(output, new RegExp(`^${way} +median \\d+ ms`, 'm'));
});

test('managers elect a leader and accept writes after the leader is killed', async (context) => {
  const output = await runProof(context, 'failover', '--trials', '1');
  assert.match(output, /^first write +median \d+ ms/m);
});

test('decoders withstand mutated inputs of a new seed', async (context) => {
  const output = await runProof(context, 'fuzz', '--iterations', '50000');
  assert.match(output, /mutated inputs, \d+ accepted/);
});
