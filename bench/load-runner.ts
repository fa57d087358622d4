/**
 * Our side of the load bench as a process: `node load-runner.ts URL CONNECTIONS`, with a line of seconds on stdin for each
 * round. It stands where a worker stands: it bundles the workflow, starts a runner's process with all its restraints,
 * gives it a unit for each round, and takes what it says. The users are as many as the connections.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { bundleModule } from '../src/io/bundler.ts';
import { openRunners } from '../src/io/runners.ts';
import { decodeSummary } from '../src/jobs/report/summary-codec.ts';
import { type FromRunner, fromRunnerCodec, toRunnerCodec } from '../src/jobs/runner-words.ts';
import { encodeOrder } from '../src/jobs/unit-words.ts';
import type { WorkflowFacts } from '../src/jobs/workflow-facts.ts';
import { bundleImporter } from '../src/runner/bundle-import.ts';
import { factsOf, workflowsIn } from '../src/runner/facts.ts';
import { runnerProgram } from '../src/runner/main.ts';
import { providedUrl } from '../src/runner/provided.ts';

const [url = '', connections = ''] = process.argv.slice(2);
const code = await bundleModule(join(import.meta.dirname, '../examples/get.ts'));
const bundle = createHash('sha256').update(code).digest('hex');
const [definition] = workflowsIn(await bundleImporter({ remuster: providedUrl })(bundle, code));

let heard: (word: FromRunner) => void = () => {};
const limits = { memoryBytesMax: 512 * 2 ** 20, lifetimeMsMax: 3_600_000, network: true };
const runner = openRunners().start(
  { name: 'load', program: runnerProgram, data: new Uint8Array(0), limits },
  {
    message: (body) => heard(fromRunnerCodec.decode(body)),
    exited: (reason) => {
      throw new Error(`the runner ended: ${reason}`);
    },
  },
);

/** Resolves with the first word of that kind. */
function told<K extends FromRunner['kind']>(kind: K): Promise<FromRunner & { readonly kind: K }> {
  return new Promise((resolve) => {
    heard = (word) => {
      if (word.kind === kind) resolve(word as FromRunner & { readonly kind: K });
    };
  });
}

function orderOf(facts: WorkflowFacts): Uint8Array {
  return encodeOrder({
    ...{ job: 'bench', workflow: 0, unit: 0, units: 1, phase: 'whole', bundle, facts: JSON.stringify(facts), seed: 1 },
    ...{ env: new Map([['TARGET', url]]), users: undefined, iterations: undefined, items: undefined, data: undefined },
    ...{ context: '', network: true, memoryMb: facts.memoryMb, timeoutMs: 3_600_000, submitter: 'bench' },
  });
}

await told('ready');
console.log(JSON.stringify({ ready: true }));
let run = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const facts = factsOf(definition!, { vus: Number(connections), durationMs: Number(line) * 1_000 });
  const ended = told('ended');
  run += 1;
  runner.send(
    toRunnerCodec.encode({
      kind: 'run',
      run,
      order: orderOf(facts),
      code: run === 1 ? code : undefined,
      attempt: 1,
      fence: 1n,
    }),
  );
  const { what, why, summary } = await ended;
  if (what !== 'completed' || summary === undefined) throw new Error(`the run ${what}: ${why}`);
  const { requests, failed, activeUsMax } = decodeSummary(summary);
  console.log(JSON.stringify({ requests, failed, tookMs: activeUsMax / 1_000 }));
}
process.exit(0);
