/** `npm start`: a cluster, a load test and its report; with `--exit` it ends with the exit code of the run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filesIn, ProcessLab } from '../support/processes/process-lab.ts';

test('start --exit runs the sample and ends with its exit code, leaving nothing behind', async (context) => {
  const lab = new ProcessLab(context);
  const args = ['start', '--exit', '--port-base', '0', '--duration', '2s', '--vus', '4'];
  const program = lab.program(args, { REMUSTER_CORES: '1' });
  const { code } = await program.ended;
  // On a loaded machine the latency threshold of the sample may fail; everything else must hold.
  assert.ok(code === 0 || code === 99, `${code}\n${program.stderr}`);
  assert.match(program.stdout, /COMPLETED/);
  assert.match(program.stdout, /checkout +browse +[1-9]/);
  assert.match(program.stdout, /ok {6}failed: rate<1%/);
  const number = (pattern: RegExp): number => Number(pattern.exec(program.stdout)?.[1]?.replaceAll(',', ''));
  // Setup sends one request, which is not part of the load.
  const counted = number(/The shop served ([\d,]+) requests/);
  assert.equal(number(/; +([\d,]+) requests/), counted - 1, program.stdout);
  assert.deepEqual(filesIn(lab.folder), []);
});

test('start --no-console stays up after the report without a console, and Ctrl-C leaves nothing behind', async (context) => {
  const lab = new ProcessLab(context);
  const size = ['--gates', '0', '--managers', '1', '--workers', '1', '--port-base', '0', '--no-console'];
  const program = lab.program(['start', ...size, '--duration', '1s', '--vus', '2'], { REMUSTER_CORES: '2' });
  await program.waitForOutput('stdout', /Ctrl-C stops all nodes/, 120_000);
  assert.match(program.stdout, /COMPLETED/);
  const [, addr = ''] = await program.waitForOutput('stdout', /admin +(http\S+) +\(HTTP interface\)/);
  assert.deepEqual([(await fetch(addr)).status, (await fetch(`${addr}/readyz`)).status], [404, 200]);
  assert.ok(program.isUp);
  program.kill('SIGINT');
  assert.equal((await program.ended).code, 130, program.stderr);
  assert.deepEqual(filesIn(lab.folder), []);
});
