/**
 * The containers this node owns: passes record changes and calls to each, and knows which are open. Decides nothing
 * about a single container.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import type {
  IncomingCall,
  CallOutput,
  ContainerChange,
  HostedContainer,
  ContainerHosting,
  KnownPool,
} from '../contract.ts';
import type { NodeInfo } from '../module.ts';
import { Container, type OwnedContainerChange } from './container.ts';
import { type HostingLimits, hostingLimits } from '../hosting-limits.ts';
import { CallMetrics } from './call-metrics.ts';
import type { HostingPorts } from './hosting-ports.ts';

const nothing: Cancel = () => {};

export class ContainerHost implements ContainerHosting {
  readonly metrics = new CallMetrics();
  readonly #ports: HostingPorts;
  readonly #limits: HostingLimits;
  readonly #pools = new Map<string, Map<number, Container>>();
  /** The answers of `lowest`, until something opens or closes. */
  readonly #lowest = new Map<string, number | undefined>();
  readonly #unwatch: readonly Cancel[];
  #isStopped = false;

  constructor(ports: HostingPorts, limits: Partial<HostingLimits> = {}) {
    this.#ports = ports;
    this.#limits = { ...hostingLimits, ...limits };
    this.#unwatch = [
      ports.lease.watch((holds) => this.#safely(() => this.#each((container) => container.leaseChanged(holds)))),
      ports.modules.watch(() => this.#safely(() => this.#each((container) => container.modulesChanged()))),
    ];
  }

  changed(change: ContainerChange): void {
    if (!this.#isStopped) this.#safely(() => this.#changed(change));
  }

  call(call: IncomingCall, done: Done<CallOutput>): Cancel {
    const container = this.#find(call);
    if (container !== undefined) return container.call(call, done);
    done(failure('STALE_TABLE'));
    return nothing;
  }

  callStatus(call: Pick<IncomingCall, 'pool' | 'container' | 'id'>): 'waiting' | 'running' | 'unknown' {
    const pending = this.#find(call)?.inbox.find(call.id);
    if (pending === undefined) return 'unknown';
    return pending.stage === 'waiting' ? 'waiting' : 'running';
  }

  lowestOpen(pool: KnownPool): number | undefined {
    const { name } = pool;
    if (!this.#lowest.has(name)) {
      let lowest: number | undefined;
      for (const [number, container] of this.#pools.get(name) ?? []) {
        if (container.isOpen && !(number > (lowest ?? Infinity))) lowest = number;
      }
      this.#lowest.set(name, lowest);
    }
    return this.#lowest.get(name);
  }

  containers(): readonly HostedContainer[] {
    const shown: HostedContainer[] = [];
    this.#each(({ owned, isServing }) => {
      if (owned !== undefined) shown.push(this.#shown(owned, isServing));
    });
    return shown.toSorted((a, b) => (a.pool === b.pool ? a.id - b.id : a.pool < b.pool ? -1 : 1));
  }

  /** Tells each open container whose module wants to know. */
  nodeJoined(node: NodeInfo): void {
    this.#safely(() => {
      this.#each((container) => {
        if (container.definition?.expand === undefined) return;
        container.run('expand', (ctx, definition) => definition.expand?.(ctx, node));
      });
    });
  }

  /** How many are open, and how many calls have not ended. */
  load(): { readonly open: number; readonly calls: number } {
    let [open, calls] = [0, 0];
    this.#each((container) => {
      if (container.isOpen) open += 1;
      calls += container.inbox.size;
    });
    return { open, calls };
  }

  stop(done: Done<void>): void {
    this.#isStopped = true;
    for (const unwatch of this.#unwatch) unwatch();
    const containers: Container[] = [];
    this.#each((container) => containers.push(container));
    let left = containers.length;
    if (left === 0) this.#ports.clock.schedule(0, () => done(success(undefined)));
    for (const container of containers) {
      container.stop(() => {
        left -= 1;
        if (left === 0) this.#ports.clock.schedule(0, () => done(success(undefined)));
      });
    }
  }

  #changed(change: ContainerChange): void {
    const { pool, container: number } = change;
    const owned = this.#ownedBy(change);
    let container = this.#pools.get(pool.name)?.get(number);
    if (container === undefined) {
      if (owned === undefined) return;
      container = new Container({
        ports: this.#ports,
        limits: this.#limits,
        meter: this.metrics,
        onOpenChanged: () => this.#shifted(pool.name, number),
      });
      const others = this.#pools.get(pool.name) ?? new Map<number, Container>();
      others.set(number, container);
      this.#pools.set(pool.name, others);
    }
    container.changed(owned);
    this.#shifted(pool.name, number);
  }

  #ownedBy(change: ContainerChange): OwnedContainerChange | undefined {
    const { record } = change;
    const { id, generation } = this.#ports.self;
    if (record?.owner?.node !== id || record.owner.generation !== generation) return undefined;
    return { ...change, record };
  }

  #find({ pool, container: number }: Pick<IncomingCall, 'pool' | 'container'>): Container | undefined {
    const container = this.#pools.get(pool.name)?.get(number);
    // A pool of the same name that was made later is another one.
    return container?.owned?.pool.record.major === pool.record.major ? container : undefined;
  }

  #shown({ pool, container, record, revision }: OwnedContainerChange, isOpen: boolean): HostedContainer {
    const { id, generation } = this.#ports.self;
    const inSync = record.inSync.some((holder) => holder.node === id && holder.generation === generation);
    const standing = { fence: String(record.fence), version: revision, inSync, isOpen };
    return { pool: pool.name, id: container, role: 'owner', ...standing };
  }

  #shifted(pool: string, number: number): void {
    this.#lowest.delete(pool);
    const containers = this.#pools.get(pool);
    const container = containers?.get(number);
    if (container?.isIdle !== true || this.#isStopped) return;
    container.inbox.deadlines.stop();
    containers?.delete(number);
    if (containers?.size === 0) this.#pools.delete(pool);
  }

  #each(visit: (container: Container) => void): void {
    for (const containers of [...this.#pools.values()])
      for (const container of [...containers.values()]) visit(container);
  }

  /** A mistake of our own must not look as if nothing had happened. */
  #safely(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#ports.halted(error);
    }
  }
}
