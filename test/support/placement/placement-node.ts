/**
 * A node of the placement test cluster: registers, renews its lease, opens, replicates, hands over and fails on
 * request.
 */
import assert from 'node:assert/strict';

import type { NodeId } from '../../../src/base/ids.ts';
import type { RegistryOp } from '../../../src/base/registry.ts';
import { onlyKey } from '../../../src/base/registry.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../../src/registry/cluster-keys.ts';
import type { FakeRegistry } from '../../fakes/fake-registry.ts';
import { PlacerHost } from '../../../src/placement/leader/placer-host.ts';
import {
  type ContainerRecord,
  encodeContainer,
  readContainer,
} from '../../../src/placement/state/container-records.ts';
import type { NodeMode } from '../../../src/registration/node-modes.ts';
import { encodeRegistrationRecord } from '../../../src/registration/registration-records.ts';
import type { PlacementTestCluster } from './placement-cluster.ts';
import { placementLeaseMs } from './placement-cluster.ts';
import { FakeLeadership } from '../../fakes/fake-leadership.ts';

const registrationMs = 3_000;
const tickMs = 10;
const wakeMs = 35;

type SeenRecord = { readonly record: ContainerRecord; readonly revision: number; readonly sinceMs: number };

export class PlacementTestNode {
  readonly name: string;
  readonly id: NodeId;
  readonly leadership: FakeLeadership;
  readonly #cluster: PlacementTestCluster;
  registry: FakeRegistry;
  placer: PlacerHost | undefined;
  generation = 0;
  isUp = false;
  isCut = false;
  isPaused = false;
  /** How long it takes to open, hand over and replicate a container that it owns. */
  openMs = 20;
  handMs = 20;
  copyMs = 20;
  opens: 'well' | 'fails' | 'never' = 'well';
  copies: 'well' | 'never' = 'well';
  hands: 'well' | 'never' = 'well';
  /** The last write in its replica of each container. */
  readonly state = new Map<string, number>();
  readonly opened: string[] = [];
  readonly #seen = new Map<string, SeenRecord>();
  #seenRevision = 0;
  #untilMs = -Infinity;
  #requiredRevision = 0;
  /** Containers with an update of their record in flight. */
  readonly #updating = new Set<string>();

  constructor(cluster: PlacementTestCluster, name: string, id: NodeId) {
    this.#cluster = cluster;
    this.name = name;
    this.id = id;
    this.leadership = new FakeLeadership(id);
    this.registry = cluster.registry.connect();
  }

  start(mode: NodeMode = 'active'): void {
    const cluster = this.#cluster;
    this.generation += 1;
    const { generation } = this;
    this.isUp = true;
    this.isCut = false;
    this.isPaused = false;
    this.registry = cluster.registry.connect();
    this.#seen.clear();
    this.#updating.clear();
    this.#untilMs = -Infinity;
    const ports = { registry: this.registry, leadership: this.leadership, clock: cluster.clock };
    const onHalt = (error: unknown): void => assert.fail(String(error));
    const rank = cluster.rank === undefined ? {} : { rank: cluster.rank };
    this.placer = new PlacerHost(
      { ...ports, ...rank, emit: (event) => cluster.onEvent(event), onHalt },
      cluster.options,
    );
    this.registry.watch(
      keyRanges.containers,
      { revision: 1 },
      {
        changed: (changes, revision) => {
          if (generation !== this.generation) return;
          this.#seenRevision = revision;
          for (const change of changes) {
            const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
            if (key?.kind !== 'container') continue;
            const fullName = `${key.pool}/${key.container}`;
            const record = change.kind === 'put' ? readContainer(change.entry.value) : undefined;
            if (record === undefined) this.#seen.delete(fullName);
            else this.#seen.set(fullName, { record, revision, sinceMs: cluster.timeline.nowMs });
          }
        },
        compacted: () => assert.fail('the history is too short for this test'),
      },
    );
    this.register(mode);
    this.#tick(generation);
  }

  /** Ends the process at once; its registration ends after `registrationMs`. */
  kill(): void {
    const { generation } = this;
    this.isUp = false;
    this.placer?.stop();
    this.leadership.lose();
    this.#untilMs = -Infinity;
    this.#cluster.clock.schedule(registrationMs, () => {
      if (generation === this.generation && !this.isUp) this.unregister();
    });
  }

  /** Stops the process without ending it: it receives and sends nothing. */
  pause(): void {
    this.isPaused = true;
    this.registry.interrupt();
  }

  /** The process continues; messages that it missed arrive a little later. */
  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    const { generation } = this;
    this.#cluster.clock.schedule(wakeMs, () => {
      if (generation === this.generation && !this.isCut && !this.isPaused) this.registry.resume();
    });
  }

  /** Loses its state in memory. */
  clearState(): void {
    this.state.clear();
  }

  cut(): void {
    this.isCut = true;
    this.registry.interrupt();
  }

  heal(): void {
    this.isCut = false;
    if (!this.isPaused) this.registry.resume();
  }

  register(mode: NodeMode): void {
    const own = { generation: this.generation, epoch: 1 };
    const registration = { ...own, name: this.name, host: 'h', port: 1, roles: ['worker'], dc: 'd' } as const;
    this.#write([
      {
        kind: 'put',
        key: clusterKey({ kind: 'registration', node: this.id }),
        value: encodeRegistrationRecord(registration),
      },
      this.#stateOp(mode),
    ]);
  }

  setMode(mode: NodeMode): void {
    this.#write([this.#stateOp(mode)]);
  }

  unregister(): void {
    this.#write([{ kind: 'delete', range: onlyKey(clusterKey({ kind: 'registration', node: this.id })) }]);
  }

  hasLease(): boolean {
    const isFresh = this.#seenRevision >= this.#requiredRevision;
    return this.isUp && isFresh && this.#cluster.timeline.nowMs < this.#untilMs;
  }

  /** It would execute a call of that container now. */
  serves(fullName: string): boolean {
    const seen = this.#seen.get(fullName)?.record;
    const isOwner = seen?.owner?.node === this.id && seen.owner.generation === this.generation;
    return isOwner && seen.phase === 'serving' && seen.move?.step !== 'handed' && this.hasLease() && !this.isPaused;
  }

  /** Fails the container while the node serves it. */
  failServing(fullName: string): void {
    this.#update(fullName, (present) => ({
      ...{ ...present, phase: 'opening', opening: 'recover', failures: present.failures + 1, note: 'it broke' },
    }));
  }

  #stateOp(mode: NodeMode): RegistryOp {
    const record = {
      mode,
      reason: 'boot',
      generation: this.generation,
      epoch: 1,
      lost: false,
      sinceWallMs: 0,
      note: '',
    };
    const value = encodeRegistrationRecord(record as Parameters<typeof encodeRegistrationRecord>[0]);
    return { kind: 'put', key: clusterKey({ kind: 'state', node: this.id }), value };
  }

  #write(then: readonly RegistryOp[]): void {
    this.#cluster.write(then);
  }

  #tick(generation: number): void {
    if (generation !== this.generation || !this.isUp) return;
    this.#cluster.clock.schedule(tickMs, () => this.#tick(generation));
    if (this.isPaused) return;
    if (!this.isCut) this.#renew();
    for (const [fullName, seen] of this.#seen) {
      const { owner } = seen.record;
      if (owner?.node === this.id && owner.generation === generation) this.#own(fullName, seen);
    }
  }

  #renew(): void {
    const { nowMs } = this.#cluster.timeline;
    if (this.#untilMs - nowMs > 0.6 * placementLeaseMs) return;
    const { leader } = this.#cluster;
    if (leader === undefined || !leader.isUp || leader.isCut || leader.isPaused) return;
    const outcome = leader.placer?.grantServingLease(this.id, this.generation, {
      revision: this.#seenRevision,
      epoch: undefined,
    });
    if (outcome?.ok !== true) return;
    this.#untilMs = nowMs + 0.8 * outcome.value.leaseMs;
    this.#requiredRevision = outcome.value.revision;
  }

  #own(fullName: string, { record, sinceMs }: SeenRecord): void {
    const { nowMs } = this.#cluster.timeline;
    if (this.#updating.has(fullName) || !this.hasLease()) return;
    if (record.phase === 'opening') this.#open(fullName, record, nowMs - sinceMs);
    else if (record.move?.step === 'handing' && this.hands === 'well' && nowMs - sinceMs >= this.handMs) {
      const { move } = record;
      this.#update(fullName, (present) => ({ ...present, move: { ...move, step: 'handed' } }));
    } else if (record.move?.step !== 'handed') this.#serve(fullName, record, nowMs - sinceMs);
  }

  #open(fullName: string, record: ContainerRecord, ageMs: number): void {
    const hasFailed = record.failures > (record.failuresBefore ?? 0);
    if (hasFailed || this.opens === 'never' || ageMs < this.openMs) return;
    if (this.opens === 'fails') {
      return this.#update(fullName, (present) => ({ ...present, failures: present.failures + 1, note: 'it throws' }));
    }
    const acknowledged = this.#cluster.acknowledged.get(fullName) ?? 0;
    if (record.opening === 'init') {
      this.state.set(fullName, 0);
      this.#cluster.acknowledged.set(fullName, 0);
    } else assert.ok((this.state.get(fullName) ?? -1) >= acknowledged, `${this.name} lacks writes of ${fullName}`);
    this.#checkAlone(fullName);
    this.opened.push(`${fullName} ${record.opening}`);
    this.#update(fullName, (present) => ({ ...present, phase: 'serving', failures: 0, note: '' }));
  }

  #checkAlone(fullName: string): void {
    for (const node of this.#cluster.nodes) {
      if (node === this || !node.serves(fullName)) continue;
      assert.fail(`${this.name} has ${fullName}, which ${node.name} serves\n${this.#cluster.print()}`);
    }
  }

  /** Acknowledges one write; removes unreachable nodes from the ISR first, and adds one lagging replica after. */
  #serve(fullName: string, record: ContainerRecord, ageMs: number): void {
    this.#checkAlone(fullName);
    const isReachable = (id: NodeId): boolean => {
      const node = this.#cluster.node(id);
      return node === this || (node.isUp && !node.isCut && !node.isPaused && !this.isCut);
    };
    const lost = record.inSync.filter(({ node, generation }) => {
      return !isReachable(node) || this.#cluster.node(node).generation !== generation;
    });
    if (lost.length > 0) {
      return this.#update(fullName, (present) => ({
        ...present,
        inSync: present.inSync.filter(({ node }) => lost.every((instance) => instance.node !== node)),
      }));
    }
    const value = (this.state.get(fullName) ?? 0) + 1;
    for (const { node } of record.inSync) this.#cluster.node(node).state.set(fullName, value);
    this.#cluster.acknowledged.set(fullName, Math.max(value, this.#cluster.acknowledged.get(fullName) ?? 0));
    const next = record.copies.find((id) => {
      const canTake = isReachable(id) && this.#cluster.node(id).copies === 'well';
      return canTake && record.inSync.every(({ node }) => node !== id);
    });
    if (next === undefined || ageMs < this.copyMs) return;
    const node = this.#cluster.node(next);
    const instance = { node: next, generation: node.generation };
    // No write happens before the record has the new ISR member.
    node.state.set(fullName, value);
    this.#update(fullName, (present) => ({ ...present, inSync: [...present.inSync, instance] }));
  }

  #update(fullName: string, change: (record: ContainerRecord) => ContainerRecord): void {
    const seen = this.#seen.get(fullName);
    if (seen === undefined) return;
    this.#updating.add(fullName);
    const [pool = '', container = ''] = fullName.split('/');
    const key = clusterKey({ kind: 'container', pool, container });
    const { generation } = this;
    const compare = [{ key, target: 'modRevision', is: 'equal', than: seen.revision }] as const;
    const then = [{ kind: 'put', key, value: encodeContainer(change(seen.record)) }] as const;
    this.registry.transact({ compare, then, otherwise: [] }, { timeoutMs: 500 }, () => {
      // Whatever the outcome, the next tick reads the record again.
      if (generation === this.generation) this.#cluster.clock.schedule(1, () => this.#updating.delete(fullName));
    });
  }
}
