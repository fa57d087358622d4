/** Embedded state of a worker: table digest, cores, units, load. A hint; the worker itself decides about its cores. */
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
  doc: 'What a worker wants known.',
  fields: {
    table: field(1, optional(bytes(32)), 'Digest of its address table.'),
    coresTotal: field(2, u16, 'All cores for jobs.'),
    coresFree: field(3, u16, 'Those that nobody uses.'),
    units: field(4, u32, 'Units of jobs that it has.'),
    attempts: field(5, u32, 'Digest of their attempts.'),
    level: field(6, enumOf(...levels), 'How loaded it is.'),
    cpuPercent: field(7, u8, 'Of its machine, in steps of ten.'),
    memoryPercent: field(8, u8, 'Of its machine, in steps of ten.'),
  },
});

/** Embedded in the state of a member and never a message of its own, so not in the catalogue. */
const codec = createCodec([workerSummary]);
export type WorkerSummary = Omit<MessageOf<readonly [typeof workerSummary]>, 'kind'>;

/** Undefined for what cannot be read: then nothing is known. */
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

const lookMs = 1_000;
const measureEvery = 10;

/** Looks every second, and says something only when it differs. Ends with the clock. */
export function publishWorkerSummary(clock: Clock, { table, jobs, measure, embed }: WorkerSummarySources): void {
  let told = '';
  let looks = 0;
  let machine = { cpuPercent: 0, memoryPercent: 0 };
  const look = (): void => {
    if (looks++ % measureEvery === 0) {
      const { cpu, memory } = measure();
      machine = { cpuPercent: tens(cpu), memoryPercent: tens(memory) };
    }
    const state = codec.encode({ kind: 'workerNotice', table: table(), ...jobs(), level: 'normal', ...machine });
    const text = state.join();
    if (text !== told) embed(state);
    told = text;
    clock.schedule(lookMs, look);
  };
  look();
}

function tens(share: number): number {
  return Math.round(Math.min(1, Math.max(0, share)) * 10) * 10;
}
