/**
 * The containers that this node owns: passes record changes and calls to each, and knows which are open. Decides
 * nothing about a single container.
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
  OwnedContainerChange,
} from '../contract.ts';
import type { NodeInfo } from '../module.ts';
import { Container } from './container.ts';
import { type HostingLimits, hostingLimits } from '../hosting-limits.ts';
import { CallMetrics } from './call-metrics.ts';
import type { HostingPorts } from './hosting-ports.ts';

const notCancellable: Cancel = () => {};

export class ContainerHost implements ContainerHosting {
  readonly metrics = new CallMetrics();
  readonly #ports: HostingPorts;
  readonly #limits: HostingLimits;
  readonly #pools = new Map<string, Map<number, Container>>();
  /** Cached results of `lowestOpen`, until a container of the pool opens or closes. */
  readonly #lowest = new Map<string, number | undefined>();
  readonly #unwatch: readonly Cancel[];
  #isStopped = false;
  /** Callers of `stop`; undefined when it has ended. */
  #stopCallbacks: Done<void>[] | undefined = [];

  constructor(ports: HostingPorts, limits: Partial<HostingLimits> = {}) {
    this.#ports = ports;
    this.#limits = { ...hostingLimits, ...limits };
    this.#unwatch = [
      ports.lease.watch((holds) => this.#guard(() => this.#each((container) => container.leaseChanged(holds)))),
      ports.modules.watch(() => this.#guard(() => this.#each((container) => container.modulesChanged()))),
    ];
  }

  changed(change: ContainerChange): void {
    if (!this.#isStopped) this.#guard(() => this.#changed(change));
  }

  call(call: IncomingCall, done: Done<CallOutput>): Cancel {
    const container = this.#find(call);
    if (container !== undefined) return container.call(call, done);
    done(failure('STALE_TABLE'));
    return notCancellable;
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
    const views: HostedContainer[] = [];
    this.#each(({ owned, isServing }) => {
      if (owned !== undefined) views.push(this.#viewOf(owned, isServing));
    });
    return views.toSorted((a, b) => (a.pool === b.pool ? a.id - b.id : a.pool < b.pool ? -1 : 1));
  }

  /** Runs the `expand` callback of each open container whose module has one. */
  nodeJoined(node: NodeInfo): void {
    this.#guard(() => {
      this.#each((container) => {
        if (container.definition?.expand === undefined) return;
        container.run('expand', (ctx, definition) => definition.expand?.(ctx, node));
      });
    });
  }

  /** The number of open containers and of open calls. */
  load(): { readonly open: number; readonly calls: number } {
    let [open, calls] = [0, 0];
    this.#each((container) => {
      if (container.isOpen) open += 1;
      calls += container.inbox.size;
    });
    return { open, calls };
  }

  /** The containers that this node owns, with their records. */
  owned(): readonly OwnedContainerChange[] {
    const changes: OwnedContainerChange[] = [];
    this.#each(({ owned }) => {
      if (owned !== undefined) changes.push(owned);
    });
    return changes;
  }

  /** Starts no more calls, and closes each container when its running calls have ended or `drainMs` has passed. */
  stop(done: Done<void>, drainMs = this.#limits.stopMs): void {
    if (this.#stopCallbacks === undefined) return void this.#ports.clock.schedule(0, () => done(success(undefined)));
    this.#stopCallbacks.push(done);
    if (this.#isStopped) return;
    this.#isStopped = true;
    for (const unwatch of this.#unwatch) unwatch();
    const containers: Container[] = [];
    this.#each((container) => containers.push(container));
    let remaining = containers.length;
    const onClosed = (): void => {
      remaining -= 1;
      if (remaining <= 0) this.#ports.clock.schedule(0, () => this.#onStopped());
    };
    if (remaining === 0) onClosed();
    for (const container of containers) container.stop(onClosed, drainMs);
  }

  #onStopped(): void {
    const callbacks = this.#stopCallbacks ?? [];
    this.#stopCallbacks = undefined;
    for (const done of callbacks) done(success(undefined));
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
        metrics: this.metrics,
        onOpenChanged: () => this.#onOpenChanged(pool.name, number),
      });
      const others = this.#pools.get(pool.name) ?? new Map<number, Container>();
      others.set(number, container);
      this.#pools.set(pool.name, others);
    }
    container.changed(owned);
    this.#onOpenChanged(pool.name, number);
  }

  #ownedBy(change: ContainerChange): OwnedContainerChange | undefined {
    const { record } = change;
    const { id, generation } = this.#ports.self;
    if (record?.owner?.node !== id || record.owner.generation !== generation) return undefined;
    return { ...change, record };
  }

  #find({ pool, container: number }: Pick<IncomingCall, 'pool' | 'container'>): Container | undefined {
    const container = this.#pools.get(pool.name)?.get(number);
    // A later pool with the same name has another number.
    return container?.owned?.pool.record.major === pool.record.major ? container : undefined;
  }

  #viewOf({ pool, container, record, revision }: OwnedContainerChange, isOpen: boolean): HostedContainer {
    const { id, generation } = this.#ports.self;
    const inSync = record.inSync.some((replica) => replica.node === id && replica.generation === generation);
    const status = { fence: String(record.fence), version: revision, inSync, isOpen };
    return { pool: pool.name, id: container, role: 'owner', ...status };
  }

  #onOpenChanged(pool: string, number: number): void {
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

  /** An unexpected error stops the node: its state is no longer known to be right. */
  #guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#ports.onHalt(error);
    }
  }
}
