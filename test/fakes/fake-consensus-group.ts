/**
 * Fake consensus group for tests of the registry: the test appoints the leader, all managers share one log, and
 * replicas lag or restart.
 */
import { type Done, failure, success } from '../../src/base/errors.ts';
import { fenceOf } from '../../src/base/fence.ts';
import { type NodeId, nodeIdFrom } from '../../src/base/ids.ts';
import type { Clock, Peer } from '../../src/base/ports.ts';
import type { Random } from '../../src/base/random.ts';
import type { Leadership, LeadershipEvents } from '../../src/base/registry.ts';
import type { CommittedResult, GroupHandle, GroupView, AppliedEntry } from '../../src/consensus/state/state-machine.ts';
import { decodeMessage } from '../../src/messages/catalogue.ts';
import type { RegistryMessage } from '../../src/messages/registry.ts';
import type { SendToManager } from '../../src/registry/client/leader-request.ts';
import { RegistryReplica } from '../../src/registry/replica/registry-replica.ts';
import { RegistryServer } from '../../src/registry/server/registry-server.ts';
import type { RegistryWriteResult } from '../../src/registry/registry-messages.ts';
import { Timeline } from '../../src/simulation/engine/timeline.ts';

export type ReplicaLimits = ConstructorParameters<typeof RegistryReplica>[0];

export function nodeIdOf(number: number): NodeId {
  return nodeIdFrom(Uint8Array.from({ length: 16 }, (_, at) => (at === 15 ? number : 0)));
}

export class FakeConsensusGroup {
  readonly timeline = new Timeline();
  readonly clock: Clock = {
    nowMs: () => this.timeline.nowMs,
    wallMs: () => this.timeline.nowMs,
    schedule: (delayMs, run) => this.timeline.after(delayMs, run),
  };
  readonly log: AppliedEntry[] = [];
  readonly managers: FakeManager[];
  leader: FakeManager | undefined;
  term = 0;
  /** How long an entry takes until it is committed, and then until a follower has it. */
  commitMs = 2;
  lagMs = 3;
  /** The fate of proposals: `refused` ones are never committed, `unacknowledged` ones are, without a reply. */
  proposals: 'acknowledged' | 'refused' | 'unacknowledged' = 'acknowledged';
  /** Called for each request and each reply. */
  dropsMessage: () => boolean = () => false;

  constructor(count: number, limits?: ReplicaLimits) {
    this.managers = Array.from({ length: count }, (_, at) => new FakeManager(this, nodeIdOf(at + 1), limits));
  }

  get peers(): readonly Peer[] {
    return this.managers.map(({ peer }) => peer);
  }

  lead(manager: FakeManager | undefined): void {
    const former = this.leader;
    this.leader = manager;
    this.term += 1;
    former?.onLost();
    for (const other of this.managers) other.onLeaderChange();
    if (manager === undefined) return;
    manager.catchUp();
    manager.onElected();
  }

  /** Sends requests of this node to managers, over a network with `delayMs` each way. */
  sendAs(self: { readonly id: NodeId; readonly generation: number }, delayMs = 1): SendToManager {
    return (to, body, timeoutMs, done) => {
      const copy = new Uint8Array(body);
      let ended = false;
      const end: Done<Uint8Array> = (outcome) => {
        if (ended) return;
        ended = true;
        cancelTimer();
        done(outcome);
      };
      const cancelTimer = this.timeline.after(timeoutMs, () => end(failure('DEADLINE')));
      this.timeline.after(delayMs, () => {
        const manager = this.managers.find(({ peer }) => peer.id === to.id);
        if (manager?.server === undefined) return end(failure('UNREACHABLE'));
        if (this.dropsMessage()) return;
        manager.openRequests.add(end);
        const message = decodeMessage(copy) as RegistryMessage;
        manager.server.handle(self, message, copy, timeoutMs - delayMs, (outcome) => {
          manager.openRequests.delete(end);
          if (!this.dropsMessage()) this.timeline.after(delayMs, () => end(outcome));
        });
        copy.fill(0xee);
      });
      return () => end(failure('CANCELLED'));
    };
  }

  run(durationMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + durationMs);
  }
}

export class FakeManager implements GroupHandle<RegistryWriteResult> {
  readonly peer: Peer;
  replica: RegistryReplica;
  server: RegistryServer | undefined;
  readonly leadership: Leadership;
  /** Requests whose connection breaks when this manager is killed. */
  readonly openRequests = new Set<Done<Uint8Array>>();
  #applied = 0;
  readonly #cluster: FakeConsensusGroup;
  readonly #limits: ReplicaLimits;
  readonly #watchers = new Set<LeadershipEvents>();
  /** Raised at each kill, so that pending work of the killed process has no effect. */
  #process = 0;

  constructor(cluster: FakeConsensusGroup, id: NodeId, limits: ReplicaLimits) {
    this.#cluster = cluster;
    this.#limits = limits;
    this.peer = { id, host: `host-${id.slice(-2)}`, port: 1 };
    this.leadership = {
      view: () => ({ leader: cluster.leader?.peer.id, term: cluster.term, fence: fenceOf(cluster.term, 0) }),
      isLeading: () => cluster.leader === this,
      watch: (events) => {
        this.#watchers.add(events);
        return () => this.#watchers.delete(events);
      },
    };
    this.replica = new RegistryReplica(limits);
    this.server = new RegistryServer({ clock: cluster.clock, group: this, replica: this.replica });
  }

  /** Uncommitted proposals are lost, and pending requests end with a broken connection. */
  kill(): void {
    this.#process += 1;
    if (this.#cluster.leader === this) this.#cluster.lead(undefined);
    this.server?.close();
    this.server = undefined;
    this.#watchers.clear();
    for (const end of this.openRequests) end(failure('NETWORK_TIMEOUT'));
    this.openRequests.clear();
  }

  /** Restores the snapshot of another manager, or applies the whole log. */
  restart(snapshotOf?: FakeManager): void {
    this.replica = new RegistryReplica(this.#limits);
    this.#applied = 0;
    this.server = new RegistryServer({ clock: this.#cluster.clock, group: this, replica: this.replica });
    if (snapshotOf !== undefined) {
      const intake = this.replica.beginRestore();
      for (const part of snapshotOf.replica.snapshot()) intake.add(part);
      intake.finish();
      this.#applied = snapshotOf.#applied;
    }
    this.catchUp();
  }

  catchUp(): void {
    for (; this.#applied < this.#cluster.log.length; this.#applied++)
      this.replica.apply(this.#cluster.log[this.#applied] as AppliedEntry);
  }

  onElected(): void {
    for (const events of this.#watchers) events.elected?.(fenceOf(this.#cluster.term, 0));
  }

  onLost(): void {
    for (const events of this.#watchers) events.lost?.('deposed by the test');
  }

  onLeaderChange(): void {
    for (const events of this.#watchers) events.changed?.(this.leadership.view());
  }

  view(): GroupView {
    const { leader, term, log, managers } = this.#cluster;
    const members = managers.map(({ peer: { id, host, port } }) => {
      return { id, host, port, name: host, standing: 'voter' as const };
    });
    const self = leader === this ? 'leader' : 'follower';
    const indexes = { commitIndex: log.length, appliedIndex: this.#applied };
    return { group: 'test', members, leader: leader?.peer.id, term, ...indexes, self };
  }

  propose(command: Uint8Array, timeoutMs: number, done: Done<CommittedResult<RegistryWriteResult>>): void {
    const { timeline, commitMs, proposals, term } = this.#cluster;
    const life = this.#process;
    if (this.#cluster.leader !== this)
      return void timeline.after(0, () => done(failure('NOT_LEADER', undefined, 'no')));
    if (proposals === 'refused')
      return void timeline.after(commitMs, () => done(failure('NO_QUORUM', undefined, 'no')));
    timeline.after(commitMs, () => {
      if (this.#cluster.term !== term || life !== this.#process) return done(failure('NETWORK_TIMEOUT'));
      const index = this.#cluster.log.length + 1;
      this.#cluster.log.push({ index, term, command });
      this.#replicate();
      const result = this.#applyOwn();
      if (proposals === 'acknowledged') done(success({ index, fence: fenceOf(term, index), result }));
      else timeline.after(timeoutMs, () => done(failure('DEADLINE')));
    });
  }

  readBarrier(_timeoutMs: number, done: Done<void>): void {
    this.#cluster.timeline.after(this.#cluster.commitMs, () => {
      if (this.#cluster.leader !== this) return done(failure('NOT_LEADER', undefined, 'no'));
      this.catchUp();
      done(success(undefined));
    });
  }

  change(_change: unknown, _timeoutMs: number, done: Done<void>): void {
    done(failure('CAPACITY'));
  }

  transfer(_to: unknown, _timeoutMs: number, done: Done<void>): void {
    done(failure('CAPACITY'));
  }

  #applyOwn(): RegistryWriteResult {
    while (this.#applied < this.#cluster.log.length - 1)
      this.replica.apply(this.#cluster.log[this.#applied++] as AppliedEntry);
    return this.replica.apply(this.#cluster.log[this.#applied++] as AppliedEntry);
  }

  #replicate(): void {
    for (const other of this.#cluster.managers) {
      if (other === this) continue;
      const life = other.#process;
      this.#cluster.timeline.after(this.#cluster.lagMs, () => {
        if (other.server !== undefined && other.#process === life) other.catchUp();
      });
    }
  }
}

/** Injects random faults: leader changes, kills, restarts, lost messages. Heals everything at the end. */
export function injectFaults(cluster: FakeConsensusGroup, random: Random, durationMs: number): void {
  const untilMs = cluster.timeline.nowMs + durationMs;
  const step = (): void => {
    if (cluster.timeline.nowMs >= untilMs) {
      cluster.dropsMessage = () => false;
      for (const manager of cluster.managers) if (manager.server === undefined) manager.restart();
      return cluster.lead(cluster.managers[0]);
    }
    injectFault(cluster, random);
    cluster.timeline.after(random.between(20, 200), step);
  };
  step();
}

function injectFault(cluster: FakeConsensusGroup, random: Random): void {
  const manager = random.pick(cluster.managers);
  const up = cluster.managers.filter(({ server }) => server !== undefined);
  const loss = random.pick([0, 0, 0.1]);
  cluster.dropsMessage = () => random.chance(loss);
  cluster.lagMs = random.pick([0, 3, 50]);
  if (manager.server === undefined) manager.restart(random.pick([undefined, ...up]));
  else if (up.length > 2 && random.chance(0.5)) manager.kill();
  if (cluster.leader === undefined || random.chance(0.3))
    cluster.lead(random.pick(cluster.managers.filter(({ server }) => server !== undefined)));
}
