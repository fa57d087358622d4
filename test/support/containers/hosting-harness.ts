/**
 * A node around hosting in which the test controls time, the lease, and the outcomes of commits and record updates.
 * Committed rows stay on the disk of the harness, so that a container can be opened again.
 */
import assert from 'node:assert/strict';

import { failure, type Outcome, success } from '../../../src/base/errors.ts';
import { fenceOf } from '../../../src/base/fence.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Cancel, Clock } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import { decodeValue, encodeValue } from '../../../src/messages/codec/value.ts';
import type { ContainerRecord, PoolRecord } from '../../../src/placement/state/container-records.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import type { CallOutput, CallSession, ContainerReplication, KnownPool } from '../../../src/containers/contract.ts';
import { type Context, module, type ModuleDefinition, methodError } from '../../../src/containers/module.ts';
import { FakeContainerLog } from '../../fakes/fake-container-log.ts';
import { ContainerHost } from '../../../src/containers/hosting/container-host.ts';
import type { HostingLimits } from '../../../src/containers/hosting-limits.ts';
import type { HostingEvent } from '../../../src/containers/hosting/hosting-ports.ts';

export const self = { id: nodeIdFrom(new Uint8Array(16).fill(1)), name: 'n1', generation: 3 };
export const other = nodeIdFrom(new Uint8Array(16).fill(2));

export type StartedCall = {
  outcome: Outcome<CallOutput> | undefined;
  times: number;
  cancel: Cancel;
};

type CallFields = {
  readonly session?: string;
  readonly counter?: number;
  readonly lowestPending?: number;
  readonly remainingMs?: number;
  readonly container?: number;
};

export class HostingHarness {
  readonly timeline = new Timeline();
  readonly clock: Clock;
  readonly events: HostingEvent[] = [];
  readonly logs: FakeContainerLog[] = [];
  readonly lines: { readonly level: string; readonly message: string }[] = [];
  readonly records = new Map<number, ContainerRecord>();
  readonly halts: unknown[] = [];
  readonly host: ContainerHost;
  readonly pool: KnownPool;
  session: CallSession = { call: () => Promise.reject(new Error('no session')) };
  /** Commits complete by themselves. */
  commitsEnd = true;
  /** The outcome of record updates; undefined: they succeed. */
  updateFails: Outcome<never> | undefined;
  openFails: Outcome<never> | undefined;
  /** Openings of logs wait in `delayedLogs`. */
  delayLogs = false;
  delayedLogs: (() => void)[] = [];
  wallOffsetMs = 1_700_000_000_000;
  module: ModuleDefinition | undefined;
  #holds = true;
  #revision = 1;
  /** Counter of calls without an explicit one, far from explicit ones. */
  #counter = 1_000;
  readonly #leaseWatchers = new Set<(holds: boolean) => void>();
  readonly #moduleWatchers = new Set<() => void>();
  readonly #disks = new Map<number, Map<string, Uint8Array>>();

  constructor(definition: ModuleDefinition | undefined, limits: Partial<HostingLimits> = {}) {
    const { timeline } = this;
    this.module = definition;
    this.clock = {
      nowMs: () => timeline.nowMs,
      wallMs: () => timeline.nowMs + this.wallOffsetMs,
      schedule: (delayMs, run) => timeline.after(delayMs, run),
    };
    this.pool = { name: 'p', record: poolRecord };
    this.host = new ContainerHost(
      {
        self,
        clock: this.clock,
        random: new Random('hosting'),
        log: (level, message) => this.lines.push({ level, message }),
        lease: { holds: () => this.#holds, watch: (changed) => watched(this.#leaseWatchers, changed) },
        replication: this.#replication(),
        modules: {
          get: (name, version) => (name === 'm' && version === 0 ? this.module : undefined),
          watch: (changed) => watched(this.#moduleWatchers, changed),
        },
        session: () => this.session,
        nodeInfo: (id) => ({ id, name: id === other ? 'n2' : 'n1', containers: 0 }),
        emit: (event) => this.events.push(event),
        onHalt: (error) => this.halts.push(error),
      },
      limits,
    );
  }

  /** The log of the last activation. */
  get log(): FakeContainerLog {
    return this.logs.at(-1) as FakeContainerLog;
  }

  disk(container: number): Map<string, Uint8Array> {
    const disk = this.#disks.get(container) ?? new Map<string, Uint8Array>();
    this.#disks.set(container, disk);
    return disk;
  }

  record(container = 0): ContainerRecord {
    return this.records.get(container) as ContainerRecord;
  }

  /** Changes the record and reports it to the host. */
  change(change: Partial<ContainerRecord>, container = 0): void {
    this.records.set(container, { ...(this.records.get(container) ?? firstRecord), ...change });
    this.announce(container);
  }

  announce(container = 0): void {
    const record = this.records.get(container);
    this.host.changed({ pool: this.pool, container, record, revision: ++this.#revision });
  }

  remove(container = 0): void {
    this.records.delete(container);
    this.announce(container);
  }

  /** Opens a container and waits until it serves. */
  open(change: Partial<ContainerRecord> = {}, container = 0): void {
    this.change(change, container);
    this.run();
    assert.equal(this.host.lowestOpen(this.pool) === undefined, false, 'the container is open');
  }

  lease(holds: boolean): void {
    this.#holds = holds;
    for (const watcher of this.#leaseWatchers) watcher(holds);
  }

  /** The lease has expired, but its watchers are not called yet. */
  leaseEndsSilently(): void {
    this.#holds = false;
  }

  load(definition: ModuleDefinition): void {
    this.module = definition;
    for (const watcher of this.#moduleWatchers) watcher();
  }

  call(method: string, args: readonly unknown[] = [], fields: CallFields = {}): StartedCall {
    const counter = fields.counter ?? ++this.#counter;
    const started: StartedCall = { outcome: undefined, times: 0, cancel: () => {} };
    const { session = 'caller', container = 0, remainingMs = 30_000, lowestPending = 0 } = fields;
    const id = { session, generation: 1, counter };
    const call = {
      pool: this.pool,
      container,
      method,
      args: encodeValue(args),
      id,
      lowestPending,
      remainingMs,
    };
    started.cancel = this.host.call(call, (outcome) => {
      started.outcome = outcome;
      started.times += 1;
    });
    return started;
  }

  callStatus(counter: number, session = 'caller'): string {
    return this.host.callStatus({ pool: this.pool, container: 0, id: { session, generation: 1, counter } });
  }

  /** Runs what is due now, or within a time. */
  run(forMs = 0): void {
    this.timeline.runUntil(this.timeline.nowMs + forMs);
  }

  #replication(): Pick<ContainerReplication, 'open' | 'updateRecord'> {
    return {
      open: (change, lost, done) => {
        const open = (): void => {
          if (this.openFails !== undefined) return done(this.openFails);
          const log = new FakeContainerLog(this, change, lost);
          this.logs.push(log);
          const entries = [...this.disk(change.container)].map(([key, value]) => ({ key, value }));
          done(success({ log, entries: entries.toSorted((a, b) => (a.key < b.key ? -1 : 1)) }));
        };
        this.timeline.after(0, () => (this.delayLogs ? this.delayedLogs.push(open) : open()));
      },
      updateRecord: ({ container }, fence, change, done) => {
        this.timeline.after(0, () => {
          if (this.updateFails !== undefined) return done(this.updateFails);
          const record = this.records.get(container);
          if (record?.fence !== fence || record.owner?.node !== self.id) return done(failure('FENCED'));
          const next = change(record);
          if (next === undefined) return done(success(record));
          this.records.set(container, next);
          done(success(next));
          this.announce(container);
        });
      },
    };
  }
}

const poolRecord: PoolRecord = {
  major: 7,
  minor: 0,
  module: 'm',
  moduleVersion: 0,
  containers: 4,
  copies: 2,
  durability: 'copies',
  restart: true,
  params: { color: 'green' },
  state: 'active',
};

export const owner = { node: self.id, generation: self.generation };

const firstRecord: ContainerRecord = {
  owner,
  fence: fenceOf(1, 1),
  opening: 'init',
  phase: 'opening',
  copies: [self.id, other],
  inSync: [owner, { node: other, generation: 1 }],
  move: undefined,
  moduleVersion: 0,
  failures: 0,
  note: '',
};

/** The decoded result; fails when there is none. */
export function valueOf({ outcome }: StartedCall): unknown {
  assert.ok(outcome !== undefined, 'the call has no reply yet');
  if (!outcome.ok) throw outcome.error;
  assert.ok('value' in outcome.value);
  return decodeValue(outcome.value.value);
}

export function codeOf({ outcome }: StartedCall): string {
  if (outcome === undefined) return 'none';
  return outcome.ok ? 'ok' : outcome.error.code;
}

/** Runs the callbacks of promises that are already settled. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

function watched<T>(watchers: Set<T>, watcher: T): Cancel {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** A promise that the test settles. */
type Gate = { readonly promise: Promise<unknown>; open(value?: unknown): void; fail(error: Error): void };

function gate(): Gate {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  return { promise, open: resolve, fail: reject };
}

/** A counter whose slow methods wait for gates. */
function counterModule() {
  const gates: Gate[] = [];
  const contexts: Context[] = [];
  const ran: string[] = [];
  const wait = (ctx: Context): Promise<unknown> => {
    const next = gate();
    gates.push(next);
    contexts.push(ctx);
    return next.promise;
  };
  const definition = module('m', {
    methods: {
      add: (ctx, by: number) => {
        ran.push(ctx.callId);
        const n = (ctx.state.get<number>('n') ?? 0) + by;
        ctx.state.set('n', n);
        return n;
      },
      read: { readonly: true, run: (ctx) => ctx.state.get<number>('n') ?? 0 },
      addSlowly: async (ctx, by: number) => {
        ran.push(ctx.callId);
        ctx.state.set('n', (ctx.state.get<number>('n') ?? 0) + by);
        await wait(ctx);
        ctx.state.set('end', by);
        return ctx.state.get('n');
      },
      readSlowly: { readonly: true, run: (ctx) => wait(ctx).then(() => ctx.state.get('n')) },
      refuse: (ctx) => {
        ran.push(ctx.callId);
        ctx.state.set('n', 1_000);
        throw methodError('PRECONDITION', 'not now');
      },
      crash: (ctx) => {
        ran.push(ctx.callId);
        ctx.state.set('n', 1_000);
        throw new Error('oops');
      },
      large: (ctx, bytes: number) => {
        ctx.state.set('n', 1_000);
        return new Uint8Array(bytes);
      },
      unfit: () => () => 1,
      sneak: { readonly: true, run: (ctx) => ctx.state.set('n', 7) },
      context: (ctx) => [ctx.pool, ctx.container, ctx.node, ctx.callId, ctx.remainingMs(), ctx.now()],
    },
  });
  return { definition, gates, contexts, ran };
}

/** An open counter. */
export function opened(limits: Partial<HostingLimits> = {}) {
  const counter = counterModule();
  const harness = new HostingHarness(counter.definition, limits);
  harness.open();
  return { harness, ...counter };
}
