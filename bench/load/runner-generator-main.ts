/**
 * Process of the Remuster load generator: starts a runner with a workflow of one step, as a worker does.
 * `node runner-generator-main.ts URL CONNECTIONS`, with a line of seconds on stdin for each round.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { bundleModule } from '../../src/io/bundle/bundler.ts';
import { openRunners } from '../../src/io/runner/runners.ts';
import { decodeSummary } from '../../src/jobs/report/summary-codec.ts';
import { type RunnerEvent, runnerEventCodec, runnerCommandCodec } from '../../src/jobs/runner-protocol.ts';
import { encodeUnitSpec } from '../../src/jobs/unit-spec.ts';
import type { WorkflowFacts } from '../../src/jobs/workflow-facts.ts';
import { createBundleImporter } from '../../src/runner/process/bundle-import.ts';
import { deriveFacts, exportedWorkflows } from '../../src/runner/definition/fact-derivation.ts';
import { runnerProgram } from '../../src/runner/process/main.ts';
import { packageStubUrl } from '../../src/runner/process/package-stub.ts';

const [url = '', connections = ''] = process.argv.slice(2);
const code = await bundleModule(join(import.meta.dirname, '../../examples/get.ts'));
const bundle = createHash('sha256').update(code).digest('hex');
const [definition] = exportedWorkflows(await createBundleImporter({ remuster: packageStubUrl })(bundle, code));

let onEvent: (event: RunnerEvent) => void = () => {};
const limits = { memoryBytesMax: 512 * 2 ** 20, lifetimeMsMax: 3_600_000, network: true };
const runner = openRunners().start(
  { name: 'load', program: runnerProgram, data: new Uint8Array(0), limits },
  {
    message: (body) => onEvent(runnerEventCodec.decode(body)),
    exited: (reason) => {
      throw new Error(`the runner ended: ${reason}`);
    },
  },
);

/** Resolves with the next event of that kind. */
function nextEvent<K extends RunnerEvent['kind']>(kind: K): Promise<RunnerEvent & { readonly kind: K }> {
  return new Promise((resolve) => {
    onEvent = (event) => {
      if (event.kind === kind) resolve(event as RunnerEvent & { readonly kind: K });
    };
  });
}

function unitSpecOf(facts: WorkflowFacts): Uint8Array {
  return encodeUnitSpec({
    ...{ job: 'bench', workflow: 0, unit: 0, units: 1, phase: 'whole', bundle, facts: JSON.stringify(facts), seed: 1 },
    ...{ env: new Map([['TARGET', url]]), users: undefined, iterations: undefined, items: undefined, data: undefined },
    ...{ context: '', network: true, memoryMb: facts.memoryMb, timeoutMs: 3_600_000, submitter: 'bench' },
  });
}

await nextEvent('ready');
console.log(JSON.stringify({ ready: true }));
let run = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const facts = deriveFacts(definition!, { vus: Number(connections), durationMs: Number(line) * 1_000 });
  const ended = nextEvent('ended');
  run += 1;
  runner.send(
    runnerCommandCodec.encode({
      kind: 'run',
      runId: run,
      spec: unitSpecOf(facts),
      code: run === 1 ? code : undefined,
      attempt: 1,
      fence: 1n,
    }),
  );
  const { outcome, message, summary } = await ended;
  if (outcome !== 'completed' || summary === undefined) throw new Error(`the run ended as ${outcome}: ${message}`);
  const { requests, failed, activeUsMax } = decodeSummary(summary);
  console.log(JSON.stringify({ requests, failed, elapsedMs: activeUsMax / 1_000 }));
}
process.exit(0);
