/**
 * Runs the job manager machine: feeds leadership and messages, performs effects. Acts only while this node leads; every
 * call ends, at the latest with its deadline.
 */
import { unreachable } from '../../base/assert.ts';
import { CompactingMap } from '../../base/collections/compacting-map.ts';
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/runtime/loop.ts';
import type { Address, Cancel, Identity } from '../../base/ports.ts';
import type { KeyRange, RegistryTransaction } from '../../base/registry.ts';
import type { JobMessage, JobMessageOf, JobVerb } from '../../messages/jobs.ts';
import type { ManagerReply, ManagerAction, ManagerInput, ManagerTimer } from './state/manager-io.ts';
import { storeBundle } from './api/bundle-store.ts';
import { readJobResult } from './api/result-reader.ts';
import { JobManager, type JobManagerParts } from './job-manager.ts';
import { type JobManagerOptions, type JobManagerPorts, jobManagerDefaults } from './state/manager-ports.ts';

export type { JobEvent, JobManagerOptions, JobManagerPorts, WorkerStatus } from './state/manager-ports.ts';

const registryTimeoutMs = 5_000;
const requestTimeoutMs = 5_000;
const stopTimeoutMs = 10_000;
const callsMax = 30_000;
const sweepMs = 200;

type Call = { readonly done: Done<ManagerReply>; readonly untilMs: number; readonly verb: JobVerb | undefined };

export class JobManagerHost {
  readonly #ports: JobManagerPorts;
  readonly #machine: JobManager;
  readonly #loop: Loop<ManagerInput, ManagerAction, ManagerTimer>;
  readonly #calls = new CompactingMap<number, Call>();
  readonly #unwatch: Cancel;
  #nextCall = 1;
  #isSweeping = false;
  #isOpen = true;

  constructor(ports: JobManagerPorts, options: Partial<JobManagerOptions> = {}) {
    const { clock, leadership, random, dc } = ports;
    this.#ports = ports;
    const parts: JobManagerParts = {
      ...{ random, dc, wallMs: () => clock.wallMs() },
      sha256: (bytes) => ports.sha256(bytes),
      worker: (id) => ports.worker(id),
    };
    this.#machine = new JobManager(parts, { ...jobManagerDefaults, ...options });
    const onHalt = (error: unknown): void => ports.halted(error);
    this.#loop = new Loop(this.#machine, { clock, store: noStore, perform: (effect) => this.#perform(effect), onHalt });
    this.#unwatch = leadership.watch({
      elected: (fence) => this.#loop.feed({ kind: 'becameLeader', fence }),
      lost: () => this.#failCalls('this node no longer leads'),
    });
    const { fence } = leadership.view();
    if (leadership.isLeading() && fence !== undefined) this.#loop.feed({ kind: 'becameLeader', fence });
  }

  /** A jobRequest for the leader; NOT_LEADER elsewhere, so that the gateway of the node forwards it. */
  command(
    verb: JobVerb,
    argumentsJson: string,
    submitter: string,
    remainingMs: number,
    done: Done<string>,
    waitMs = 0,
    idempotencyKey?: string,
  ): void {
    const call = this.#open(remainingMs, verb, done as Done<ManagerReply>);
    if (call !== undefined)
      this.#loop.feed({ kind: 'command', call, verb, argumentsJson, submitter, remainingMs, waitMs, idempotencyKey });
  }

  /** On any manager: writes the bundle to the registry unless it is stored. */
  storeBundle(sha256: string, code: Uint8Array, done: Done<void>): void {
    if (this.#ports.sha256(code) !== sha256) {
      const outcome = failure('BUNDLE_INVALID', `the code does not match the hash ${sha256}`);
      this.#ports.clock.schedule(0, () => done(outcome));
      return;
    }
    storeBundle(this.#ports.registry, { sha256, code, wallMs: this.#ports.clock.wallMs() }, done);
  }

  onHeartbeat(
    from: Identity,
    message: JobMessageOf<'workerHeartbeat'>,
    reply: Done<JobMessageOf<'workerHeartbeatReply'>>,
  ): void {
    const call = this.#open(requestTimeoutMs, undefined, reply as Done<ManagerReply>);
    if (call !== undefined) this.#loop.feed({ kind: 'heartbeat', call, from, message });
  }

  onUnitReports(
    from: Identity,
    message: JobMessageOf<'reportUnits'>,
    reply: Done<JobMessageOf<'reportUnitsAck'>>,
  ): void {
    const call = this.#open(requestTimeoutMs, undefined, reply as Done<ManagerReply>);
    if (call !== undefined) this.#loop.feed({ kind: 'unitReports', call, from, message });
  }

  /** Proof, not suspicion: the process of that generation has ended. */
  processGone(node: NodeId, generation: number): void {
    this.#loop.feed({ kind: 'processGone', node, generation });
  }

  /** The port `worker` may return other states now. */
  membershipChanged(): void {
    this.#loop.feed({ kind: 'membershipChanged' });
  }

  counts(): { readonly open: number; readonly queued: number; readonly running: number } {
    return this.#machine.counts();
  }

  /** On the leader: the units of that node; 1 while the leader does not know. */
  unitsOn(node: NodeId): number {
    return this.#machine.unitsOn(node);
  }

  stop(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#unwatch();
    this.#failCalls('this node is stopping');
    this.#loop.stop();
  }

  /** The number of the call; undefined if it was refused. */
  #open(remainingMs: number, verb: JobVerb | undefined, done: Done<ManagerReply>): number | undefined {
    const { clock, leadership } = this.#ports;
    const refusal =
      !this.#isOpen || !leadership.isLeading() ? 'NOT_LEADER' : this.#calls.size >= callsMax ? 'CAPACITY' : undefined;
    if (refusal !== undefined) {
      clock.schedule(0, () => done(failure(refusal, undefined, 'no')));
      return undefined;
    }
    const call = this.#nextCall++;
    // Early by one sweep, so that the reply arrives before the timeout of the caller.
    const untilMs = clock.nowMs() + Math.max(0, remainingMs - sweepMs);
    this.#calls.set(call, { done, untilMs, verb });
    this.#sweepLater();
    return call;
  }

  #reply(call: number, outcome: Outcome<ManagerReply>): void {
    const found = this.#calls.get(call);
    this.#calls.delete(call);
    found?.done(outcome);
  }

  /** Ends every call that has passed its deadline. */
  #sweepLater(): void {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    this.#ports.clock.schedule(sweepMs, () => {
      this.#isSweeping = false;
      const nowMs = this.#ports.clock.nowMs();
      for (const [call, { untilMs }] of this.#calls) if (nowMs >= untilMs) this.#reply(call, failure('DEADLINE'));
      if (this.#calls.size > 0) this.#sweepLater();
    });
  }

  /** The outcome of open calls is unknown: those that change state may have had an effect. */
  #failCalls(reason: string): void {
    this.#loop.feed({ kind: 'lostLeadership' });
    for (const [call, { verb }] of this.#calls) {
      const mayHaveEffect = verb === 'submit' || verb === 'cancel' || verb === 'unschedule';
      this.#reply(call, mayHaveEffect ? failure('NETWORK_TIMEOUT', reason) : failure('NOT_LEADER', reason, 'no'));
    }
  }

  #perform(effect: ManagerAction): void {
    switch (effect.kind) {
      case 'read':
        return this.#read(effect.id, effect.range, effect.limit);
      case 'transact':
        return this.#transact(effect.id, effect.transaction);
      case 'reply':
        return this.#reply(effect.call, effect.outcome);
      case 'readResult':
        return readJobResult(this.#ports.registry, effect, (outcome) => this.#reply(effect.call, outcome));
      case 'assign':
        return this.#request(effect.to, effect.message, requestTimeoutMs, (outcome) => {
          this.#loop.feed({ kind: 'assignReply', id: effect.id, outcome });
        });
      case 'stop':
        return this.#request(effect.to, effect.message, stopTimeoutMs, (outcome) => {
          this.#loop.feed({ kind: 'stopReply', id: effect.id, outcome });
        });
      case 'emit':
        return this.#ports.emit(effect.event);
      default:
        return unreachable(effect);
    }
  }

  #request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void {
    if (this.#ports.leadership.isLeading()) this.#ports.request(to, message, timeoutMs, done);
    else this.#ports.clock.schedule(0, () => done(failure('NOT_LEADER', undefined, 'no')));
  }

  #read(id: number, range: KeyRange, limit: number): void {
    this.#ports.registry.range(range, { limit, timeoutMs: registryTimeoutMs }, (outcome) => {
      this.#loop.feed({ kind: 'read', id, outcome });
    });
  }

  #transact(id: number, transaction: RegistryTransaction): void {
    const { registry, leadership, clock } = this.#ports;
    if (leadership.isLeading()) {
      registry.transact(transaction, { timeoutMs: registryTimeoutMs }, (outcome) => {
        this.#loop.feed({ kind: 'transacted', id, outcome });
      });
    } else {
      clock.schedule(0, () =>
        this.#loop.feed({ kind: 'transacted', id, outcome: failure('NOT_LEADER', undefined, 'no') }),
      );
    }
  }
}
