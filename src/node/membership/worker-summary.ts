/**
 * The embedded state of a worker: table digest, cores, units, load. Only a hint: the worker decides about its cores.
 */
import type { Clock } from '../../base/ports.ts';
import { createCodec } from '../../messages/codec/codec.ts';
import { field, optional } from '../../messages/codec/compound.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { enumOf, u16, u32, u8 } from '../../messages/codec/numbers.ts';
import { bytes } from '../../messages/codec/strings.ts';

const levels = ['normal', 'elevated', 'high', 'severe', 'critical'] as const;

const workerSummary = message({
  kind: 'workerNotice',
  tag: 101,
  carrier: 'datagram',
  from: ['worker'],
  bytesMax: 128,
  doc: 'State of a worker, embedded in its acks.',
  fields: {
    table: field(1, optional(bytes(32)), 'Digest of its address table.'),
    coresTotal: field(2, u16, 'All cores for jobs.'),
    coresFree: field(3, u16, 'Cores without a unit.'),
    units: field(4, u32, 'Units that it runs.'),
    attempts: field(5, u32, 'Digest of the attempts that it runs.'),
    level: field(6, enumOf(...levels), 'Load level.'),
    cpuPercent: field(7, u8, 'CPU load of its machine, in steps of ten.'),
    memoryPercent: field(8, u8, 'Used memory of its machine, in steps of ten.'),
  },
});

/** Never a message of its own, so not in the catalogue. */
const codec = createCodec([workerSummary]);
export type WorkerSummary = Omit<MessageOf<readonly [typeof workerSummary]>, 'kind'>;

/** Undefined if the bytes cannot be decoded. */
export function decodeWorkerSummary(state: Uint8Array): WorkerSummary | undefined {
  try {
    return codec.decode(state);
  } catch {
    return undefined;
  }
}

export type WorkerSummarySources = {
  readonly table: () => Uint8Array | undefined;
  readonly jobs: () => Pick<WorkerSummary, 'coresTotal' | 'coresFree' | 'units' | 'attempts'>;
  /** Shares of the machine, 0 to 1. */
  readonly measure: () => { readonly cpu: number; readonly memory: number };
  readonly embed: (state: Uint8Array) => void;
};

const sampleIntervalMs = 1_000;
const samplesPerMeasurement = 10;

/** Samples every second and embeds the summary only if it has changed. Ends with the clock. */
export function publishWorkerSummary(clock: Clock, { table, jobs, measure, embed }: WorkerSummarySources): void {
  let published = '';
  let samples = 0;
  let machine = { cpuPercent: 0, memoryPercent: 0 };
  const sample = (): void => {
    if (samples++ % samplesPerMeasurement === 0) {
      const { cpu, memory } = measure();
      machine = { cpuPercent: toTens(cpu), memoryPercent: toTens(memory) };
    }
    const state = codec.encode({ kind: 'workerNotice', table: table(), ...jobs(), level: 'normal', ...machine });
    const text = state.join();
    if (text !== published) embed(state);
    published = text;
    clock.schedule(sampleIntervalMs, sample);
  };
  sample();
}

function toTens(share: number): number {
  return Math.round(Math.min(1, Math.max(0, share)) * 10) * 10;
}
