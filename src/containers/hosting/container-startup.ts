/**
 * Steps from record to first call: lease, module, log, callback, commit, recorded as serving. No call runs before the
 * record says `serving`.
 *
 *   lease -> module -> log -> callback -> commit -> recorded as serving -> ready
 */
import { type Outcome, RemusterError } from '../../base/errors.ts';
import type { Cancel, StoreWrite } from '../../base/ports.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import type { CallSession, ContainerChange, ContainerLog, OpenedLog } from '../contract.ts';
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
  readonly meter: CallMetrics;
  readonly change: ContainerChange & { readonly record: ContainerRecord };
  readonly ready: (tenure: Activation) => void;
  /** It did not open; the node is to close what there is of it. */
  readonly failed: (error: RemusterError) => void;
  /** It goes on waiting, but somebody should know. */
  readonly onDelayed: (note: string) => void;
};

export class ContainerStartup {
  readonly #parts: ContainerStartupParts;
  #step: 'lease' | 'module' | 'log' | 'callback' | 'record' | 'over' = 'lease';
  #log: ContainerLog | undefined;
  #tenure: Activation | undefined;
  #cancelWait: Cancel | undefined;
  /** The log is being opened; whoever wants it closed waits. */
  #logOpened: (() => void) | undefined;

  constructor(parts: ContainerStartupParts) {
    this.#parts = parts;
  }

  get log(): ContainerLog | undefined {
    return this.#log;
  }

  /** Goes on with what it waits for: the lease, or the module. */
  proceed(): void {
    const { ports, limits, change } = this.#parts;
    if (this.#step === 'callback') this.#tenure?.leaseRegained();
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
      this.#parts.onDelayed(`the module ${module} of version ${change.record.moduleVersion} is not loaded here`);
    });
  }

  /** Nothing comes of it any more. Calls back when its log can be closed by whoever has it. */
  stop(error: RemusterError, stopped: (log: ContainerLog | undefined) => void): void {
    const wasOpening = this.#step === 'log';
    this.#over();
    this.#tenure?.end(error);
    if (wasOpening) this.#logOpened = () => stopped(this.#log);
    else stopped(this.#log);
  }

  #over(): void {
    this.#step = 'over';
    this.#cancelWait?.();
  }

  #openLog(definition: ModuleDefinition): void {
    const { ports, change } = this.#parts;
    this.#cancelWait?.();
    this.#step = 'log';
    const lost = (reason: string): void => this.#lost(reason);
    ports.replication.open(change, lost, (outcome) => this.#opened(definition, outcome));
  }

  /** Before it is ready; afterwards the tenure hears of it. */
  #lost(reason: string): void {
    const error = new RemusterError('FENCED', reason);
    if (this.#step === 'over') this.#parts.failed(error);
    else this.#failed(error);
  }

  #opened(definition: ModuleDefinition, outcome: Outcome<OpenedLog>): void {
    if (outcome.ok) this.#log = outcome.value.log;
    if (this.#step === 'over') return this.#logOpened?.();
    if (!outcome.ok) return this.#failed(outcome.error);
    this.#step = 'callback';
    const { change, ports } = this.#parts;
    // An init that did not end may have left something behind.
    const isNew = change.record.opening === 'init' && change.record.phase === 'opening';
    const entries = isNew ? [] : outcome.value.entries;
    const leftovers = isNew ? outcome.value.entries.map(({ key }) => ({ key, value: null })) : [];
    const contents = new ContainerContents(this.#parts.limits);
    try {
      contents.load(entries, ports.clock.nowMs());
    } catch (error) {
      return this.#failed(new RemusterError('STORE_CORRUPT', error instanceof Error ? error.message : undefined));
    }
    this.#tenure = this.#tenureOf(definition, contents, outcome.value.log);
    this.#callBack(this.#tenure, contents, leftovers);
  }

  #tenureOf(definition: ModuleDefinition, contents: ContainerContents, log: ContainerLog): Activation {
    const { ports, limits, inbox, meter, change, failed } = this.#parts;
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
      meter,
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

  #callBack(tenure: Activation, contents: ContainerContents, leftovers: readonly StoreWrite[]): void {
    const { record } = this.#parts.change;
    const { callbackMsMax, commitRowsMax } = this.#parts.limits;
    const callback = callbackFor(record, tenure.definition, contents.state.size === 0);
    const run = (ctx: Context): unknown => (callback === undefined ? undefined : tenure.definition[callback]?.(ctx));
    const name = callback ?? 'opening';
    // All of them are gone before the callback counts; how many commits that takes is nobody's business.
    for (let at = 0; at < leftovers.length; at += commitRowsMax) {
      const rows = leftovers.slice(at, at + commitRowsMax);
      tenure.run({ name, timeMsMax: callbackMsMax, run: () => undefined, rows, done: () => {} });
    }
    tenure.run({
      name,
      timeMsMax: callbackMsMax,
      run,
      done: (outcome) => {
        if (this.#step !== 'callback') return;
        if (outcome.ok) this.#called();
        else this.#failed(outcome.error);
      },
    });
  }

  #called(): void {
    const { ports, change } = this.#parts;
    const { record } = change;
    if (record.phase === 'serving') return this.#ready();
    this.#step = 'record';
    ports.replication.updateRecord(change, record.fence, asServing, (outcome) => {
      if (this.#step !== 'record') return;
      if (outcome.ok) return this.#ready();
      if (outcome.error.code === 'FENCED') return this.#failed(outcome.error);
      this.#cancelWait = ports.clock.schedule(this.#parts.limits.retryMs, () => this.#called());
    });
  }

  #ready(): void {
    this.#over();
    if (this.#tenure !== undefined) this.#parts.ready(this.#tenure);
  }

  #failed(error: RemusterError): void {
    if (this.#step === 'over') return;
    this.#over();
    this.#tenure?.end(new RemusterError('FENCED'));
    this.#parts.failed(error);
  }
}

type OpeningCallback = keyof Pick<Callbacks, 'init' | 'restart' | 'recover'>;

/** As module.ts promises. What was served once under this fence is not new, whatever its record says of its opening. */
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

/** Undefined: it says so already. */
function asServing(record: ContainerRecord): ContainerRecord | undefined {
  if (record.phase === 'serving' && record.failures === 0) return undefined;
  return { ...record, phase: 'serving', failures: 0, note: '' };
}
