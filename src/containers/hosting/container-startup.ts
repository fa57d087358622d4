/**
 * The steps from record to first call. No call runs before the record has the phase `serving`.
 *
 *   lease -> module -> log -> callback -> commit -> recorded as serving -> ready
 */
import { type Outcome, RemusterError } from '../../base/errors.ts';
import type { Cancel, StoreWrite } from '../../base/ports.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import type { CallSession, ContainerLog, OpenedLog, OwnedContainerChange } from '../contract.ts';
import type { Callbacks, Context, ModuleDefinition } from '../module.ts';
import { ContainerContents } from './state/container-contents.ts';
import type { Inbox } from './turns/inbox.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { CallMetrics } from './call-metrics.ts';
import type { HostingPorts } from './hosting-ports.ts';
import { Activation } from './activation.ts';

export type ContainerStartupParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly inbox: Inbox;
  readonly metrics: CallMetrics;
  readonly change: OwnedContainerChange;
  readonly ready: (activation: Activation) => void;
  /** The container did not open; the caller closes it. */
  readonly failed: (error: RemusterError) => void;
  /** The startup waits for longer than usual; it goes on waiting. */
  readonly onDelayed: (note: string) => void;
};

export class ContainerStartup {
  readonly #parts: ContainerStartupParts;
  #step: 'lease' | 'module' | 'log' | 'callback' | 'record' | 'ended' = 'lease';
  #log: ContainerLog | undefined;
  #activation: Activation | undefined;
  #cancelWait: Cancel | undefined;
  /** Called when the log is open, for a `stop` during the opening. */
  #logOpened: (() => void) | undefined;

  constructor(parts: ContainerStartupParts) {
    this.#parts = parts;
  }

  get log(): ContainerLog | undefined {
    return this.#log;
  }

  /** Continues if the lease or the module that it waits for is there. */
  proceed(): void {
    const { ports, limits, change } = this.#parts;
    if (this.#step === 'callback') this.#activation?.leaseRegained();
    if (this.#step !== 'lease' && this.#step !== 'module') return;
    if (!ports.lease.holds()) {
      this.#step = 'lease';
      return;
    }
    const { module } = change.pool.record;
    const definition = ports.modules.get(module, change.record.moduleVersion);
    if (definition !== undefined) return this.#openLog(definition);
    this.#step = 'module';
    this.#cancelWait ??= ports.clock.schedule(limits.moduleWaitMs, () => {
      this.#parts.onDelayed(`module ${module} of version ${change.record.moduleVersion} is not loaded on this node`);
    });
  }

  /** Ends the startup. Calls back with the log, which the caller closes, when it is not being opened any more. */
  stop(error: RemusterError, stopped: (log: ContainerLog | undefined) => void): void {
    const wasOpening = this.#step === 'log';
    this.#end();
    this.#activation?.end(error);
    if (wasOpening) this.#logOpened = () => stopped(this.#log);
    else stopped(this.#log);
  }

  #end(): void {
    this.#step = 'ended';
    this.#cancelWait?.();
  }

  #openLog(definition: ModuleDefinition): void {
    const { ports, change } = this.#parts;
    this.#cancelWait?.();
    this.#step = 'log';
    const lost = (reason: string): void => this.#onLogLost(reason);
    ports.replication.open(change, lost, (outcome) => this.#onLogOpened(definition, outcome));
  }

  /** Before `ready` the startup fails; afterwards the container does. */
  #onLogLost(reason: string): void {
    const error = new RemusterError('FENCED', reason);
    if (this.#step === 'ended') this.#parts.failed(error);
    else this.#fail(error);
  }

  #onLogOpened(definition: ModuleDefinition, outcome: Outcome<OpenedLog>): void {
    if (outcome.ok) this.#log = outcome.value.log;
    if (this.#step === 'ended') return this.#logOpened?.();
    if (!outcome.ok) return this.#fail(outcome.error);
    this.#step = 'callback';
    const { change, ports } = this.#parts;
    // An `init` that was interrupted may have left rows behind.
    const isNew = change.record.opening === 'init' && change.record.phase === 'opening';
    const entries = isNew ? [] : outcome.value.entries;
    const leftovers = isNew ? outcome.value.entries.map(({ key }) => ({ key, value: null })) : [];
    const contents = new ContainerContents(this.#parts.limits);
    try {
      contents.load(entries, ports.clock.nowMs());
    } catch (error) {
      return this.#fail(new RemusterError('STORE_CORRUPT', error instanceof Error ? error.message : undefined));
    }
    this.#activation = this.#createActivation(definition, contents, outcome.value.log);
    this.#runCallback(this.#activation, contents, leftovers);
  }

  #createActivation(definition: ModuleDefinition, contents: ContainerContents, log: ContainerLog): Activation {
    const { ports, limits, inbox, metrics, change, failed } = this.#parts;
    const { pool, container } = change;
    const fields = { pool: pool.name, container };
    let session: CallSession | undefined;
    return new Activation({
      ports,
      limits,
      definition,
      contents,
      log,
      inbox,
      metrics,
      failed,
      contextInfo: {
        clock: ports.clock,
        pool: { name: pool.name, containers: pool.record.containers, params: pool.record.params },
        container,
        node: ports.self.name,
        now: () => ports.clock.wallMs(),
        random: () => ports.random.fraction(),
        log: (level, message, more) => ports.log(level, message, { ...more, ...fields }),
        session: () => (session ??= ports.session('containers')),
      },
    });
  }

  #runCallback(activation: Activation, contents: ContainerContents, leftovers: readonly StoreWrite[]): void {
    const { record } = this.#parts.change;
    const { callbackMsMax, commitRowsMax } = this.#parts.limits;
    const callback = callbackFor(record, activation.definition, contents.state.size === 0);
    const run = (ctx: Context): unknown =>
      callback === undefined ? undefined : activation.definition[callback]?.(ctx);
    const name = callback ?? 'opening';
    // Leftover rows are deleted before the callback commits, in as many commits as needed.
    for (let at = 0; at < leftovers.length; at += commitRowsMax) {
      const rows = leftovers.slice(at, at + commitRowsMax);
      activation.run({ name, timeMsMax: callbackMsMax, run: () => undefined, rows, done: () => {} });
    }
    activation.run({
      name,
      timeMsMax: callbackMsMax,
      run,
      done: (outcome) => {
        if (this.#step !== 'callback') return;
        if (outcome.ok) this.#onCallbackDone();
        else this.#fail(outcome.error);
      },
    });
  }

  #onCallbackDone(): void {
    const { ports, change } = this.#parts;
    const { record } = change;
    if (record.phase === 'serving') return this.#ready();
    this.#step = 'record';
    ports.replication.updateRecord(change, record.fence, asServing, (outcome) => {
      if (this.#step !== 'record') return;
      if (outcome.ok) return this.#ready();
      if (outcome.error.code === 'FENCED') return this.#fail(outcome.error);
      this.#cancelWait = ports.clock.schedule(this.#parts.limits.retryMs, () => this.#onCallbackDone());
    });
  }

  #ready(): void {
    this.#end();
    if (this.#activation !== undefined) this.#parts.ready(this.#activation);
  }

  #fail(error: RemusterError): void {
    if (this.#step === 'ended') return;
    this.#end();
    this.#activation?.end(new RemusterError('FENCED'));
    this.#parts.failed(error);
  }
}

type OpeningCallback = keyof Pick<Callbacks, 'init' | 'restart' | 'recover'>;

/** As module.ts documents. A container in phase `serving` is not new, even if its record still says `init`. */
function callbackFor(
  record: ContainerRecord,
  definition: ModuleDefinition,
  isEmpty: boolean,
): OpeningCallback | undefined {
  if (record.opening === 'migrate') return undefined;
  const kind = record.opening === 'init' && record.phase === 'serving' ? 'restart' : record.opening;
  if (definition[kind] !== undefined) return kind;
  return isEmpty && definition.init !== undefined ? 'init' : undefined;
}

/** Undefined: nothing to change. */
function asServing(record: ContainerRecord): ContainerRecord | undefined {
  if (record.phase === 'serving' && record.failures === 0) return undefined;
  return { ...record, phase: 'serving', failures: 0, note: '' };
}
