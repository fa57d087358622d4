/** `npm run bench codec`: encode and decode of messages against JSON. */
import fc from 'fast-check';
import { nodeIdFrom } from '../src/base/ids.ts';
import { catalogue } from '../src/messages/catalogue.ts';
import { createCodec } from '../src/messages/codec/codec.ts';
import { field } from '../src/messages/codec/compound.ts';
import { type MessageOf, message } from '../src/messages/codec/message.ts';
import { bool, f64, enumOf, u16, u32, u53, u64 } from '../src/messages/codec/numbers.ts';
import { name, text } from '../src/messages/codec/strings.ts';
import { messageArbitrary } from '../test/support/fuzz/arbitraries.ts';
import { type Bench, type BenchRow, compareRow } from './support/harness.ts';

const progress = message({
  kind: 'progress',
  tag: 65_000,
  carrier: 'stream',
  from: ['worker'],
  bytesMax: 1_000,
  doc: 'A progress report of a worker.',
  fields: {
    jobId: field(1, text(64), '.'),
    workflow: field(2, name, '.'),
    worker: field(3, name, '.'),
    fence: field(4, u64, '.'),
    sequence: field(5, u32, '.'),
    completed: field(6, u53, '.'),
    failed: field(7, u53, '.'),
    rate: field(8, f64, '.'),
    elapsedMs: field(9, u53, '.'),
    done: field(10, bool, '.'),
    state: field(11, enumOf('waiting', 'running', 'done'), '.'),
    cores: field(12, u16, '.'),
  },
});

const codec = createCodec([...catalogue, progress] as const);
type BenchMessage = MessageOf<typeof catalogue> | MessageOf<typeof progress>;

const progressReport: BenchMessage = {
  kind: 'progress',
  jobId: 'job-2f81c0aa-17',
  workflow: 'checkout',
  worker: 'worker-17',
  fence: 77_123_456_789n,
  sequence: 12_345,
  completed: 1_234_567,
  failed: 12,
  rate: 1_234.5,
  elapsedMs: 98_765,
  done: false,
  state: 'running',
  cores: 4,
};

const entry = {
  id: nodeIdFrom(new Uint8Array(16).fill(0xa7)),
  name: 'worker-17',
  host: '10.0.0.17',
  port: 8_000,
  generation: 3,
  roles: ['manager', 'worker'],
  dc: 'east',
} as const;

const claim = {
  kind: 'alive',
  id: entry.id,
  generation: 3,
  incarnation: 7,
  by: entry.id,
  refused: false,
  entry,
} as const;
const gossip: BenchMessage = { kind: 'gossip', incarnation: 7, claims: [claim, claim] };

const batch = 500;
const rounds = 1_000;

export const bench: Bench = () => {
  warmUpAllMessages();
  const rows = [...measure('message with 12 fields', progressReport, 1.2), ...measure('gossip with 2 claims', gossip)];
  return Promise.resolve({ rows, missing: [] });
};

/** Keeps V8 from specialising the codec for the measured message. */
function warmUpAllMessages(): void {
  for (const declaration of catalogue) {
    const values = fc.sample(messageArbitrary(declaration), { seed: 1, numRuns: 50 }) as BenchMessage[];
    for (let round = 0; round < 100; round++) for (const value of values) codec.decode(codec.encode(value));
  }
}

function measure(title: string, value: BenchMessage, goalUs?: number): readonly BenchRow[] {
  const bytes = codec.encode(value);
  const plain = { ...value, ...('fence' in value ? { fence: String(value.fence) } : { messageId: '77123456789' }) };
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  const json = encoder.encode(JSON.stringify(plain));
  const steps = {
    encode: () => codec.encode(value),
    decode: () => codec.decode(bytes),
    jsonEncode: () => encoder.encode(JSON.stringify(plain)),
    jsonDecode: () => JSON.parse(decoder.decode(json)) as unknown,
  };
  const us = fastest(steps);
  const both = us.encode + us.decode;
  const goal = goalUs === undefined ? undefined : () => ({ text: `<= ${goalUs} us`, met: both <= goalUs });
  return [
    compareRow(`${title}, encode`, 'us', 'less', us.encode, { name: 'JSON', value: us.jsonEncode }),
    compareRow(`${title}, decode`, 'us', 'less', us.decode, { name: 'JSON', value: us.jsonDecode }),
    compareRow(
      `${title}, encode and decode`,
      'us',
      'less',
      both,
      { name: 'JSON', value: us.jsonEncode + us.jsonDecode },
      goal,
    ),
    compareRow(`${title}, size`, 'bytes', 'less', bytes.length, { name: 'JSON', value: json.length }),
  ];
}

/**
 * Microseconds per call in the fastest of many short, interleaved rounds: the cost of the code without interruptions,
 * also on a busy machine.
 */
function fastest<Step extends string>(steps: Readonly<Record<Step, () => unknown>>): Record<Step, number> {
  const best = new Map<string, number>();
  for (let round = 0; round < rounds; round++) {
    for (const [step, run] of Object.entries<() => unknown>(steps)) {
      const start = performance.now();
      for (let i = 0; i < batch; i++) run();
      const us = ((performance.now() - start) * 1_000) / batch;
      best.set(step, Math.min(us, best.get(step) ?? Infinity));
    }
  }
  return Object.fromEntries(best) as Record<Step, number>;
}
