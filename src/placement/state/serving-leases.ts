/**
 * The serving leases that the leader grants. A lease is `expired` only after 1.1 of its length, on proof that the
 * process ended, or when a later generation is seen; the node itself stops serving at 0.8. Never reads the registry,
 * owns no timer.
 *
 *   valid      granted within the lease: the node may own containers and receive new ones
 *   uncertain  the node may or may not be serving: none of its containers is reassigned, and it receives none
 *   expired    the node does not serve: 1.1 of the lease have passed since its last grant and since the start of this
 *              leadership, or its process has ended, or a later generation of the node has been seen
 *
 * While the leader takes a container over from a node with an expired lease, and until the outcome of that takeover is
 * known, the node gets no lease. Afterwards it gets one only when its address table shows the takeover. So a node with
 * a valid lease knows which containers it has lost, and a node that cannot learn it expires.
 */
import type { RegistryEpoch } from '../../base/registry.ts';
import { compareEpochs } from '../../base/registry-epoch.ts';
import { type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';

export type ServingLeaseStatus = 'valid' | 'uncertain' | 'expired';
type Renewal = 'granted' | 'superseded' | 'blocked' | 'behind' | 'full';

/** A node instance, and the revision that its address table has reached. */
export type ServingLeaseRequest = {
  readonly node: NodeId;
  readonly generation: number;
  /** How far the address table of the node is; no epoch before the table is loaded. */
  readonly seen: { readonly revision: number; readonly epoch: RegistryEpoch | undefined };
};

/** `revision`: the address table of the node has to reach it before the node serves under this lease. */
export type ServingLeaseGrant = { readonly leaseMs: number; readonly revision: number };

/** Lease of the highest known generation of a node. */
type NodeLease = {
  generation: number;
  /** Undefined: not granted by this leadership. */
  grantedMs: number | undefined;
  /** When the end of the process was proved. */
  goneMs: number | undefined;
  /** Takeovers from this node whose outcome is unknown. */
  openTakeovers: number;
  /** The address table of the node has to reach it. */
  requiredRevision: number;
};

const newLease = { grantedMs: undefined, goneMs: undefined, openTakeovers: 0, requiredRevision: 0 } as const;
const expiryRatio = 1.1;
/** A request that a process sent just before its end may arrive after the proof of its end, but not this much later. */
const lateRequestRatio = 2;
const nodesMax = 10_000;

export class ServingLeases {
  readonly leaseMs: number;
  readonly #leases = new Map<NodeId, NodeLease>();
  #leadingSinceMs = 0;
  /** The address tables of all nodes have to reach it. */
  #requiredRevision = 0;

  constructor(leaseMs: number) {
    this.leaseMs = leaseMs;
  }

  /**
   * Starts a leadership, which does not know the grants of the leaders before it. It keeps recent proofs of the end of
   * a process: such a node may have ended together with the former leader.
   */
  startLeadership(nowMs: number): void {
    for (const [node, { generation, goneMs }] of this.#leases) {
      if (goneMs === undefined || nowMs >= goneMs + this.leaseMs) this.#leases.delete(node);
      else this.#leases.set(node, { ...newLease, generation, goneMs });
    }
    this.#leadingSinceMs = nowMs;
    this.#requiredRevision = 0;
  }

  /** Renews the lease and returns it, or an error code for the node. `own` is the epoch of the leader's view. */
  grant(
    nowMs: number,
    { node, generation, seen }: ServingLeaseRequest,
    own: RegistryEpoch,
  ): Outcome<ServingLeaseGrant> {
    const order = seen.epoch === undefined ? 'same' : compareEpochs(seen.epoch, own);
    if (order === 'foreign')
      return failure('FENCED', `the node follows the registry ${seen.epoch}, and this one is ${own}`, 'no');
    if (order !== 'same')
      return failure('PRECONDITION', `the registry was restored: the node has seen ${seen.epoch}`, 'no');
    switch (this.renew(nowMs, node, generation, seen.revision)) {
      case 'superseded':
        return failure('FENCED', `generation ${generation} of the node is known to have ended`, 'no');
      case 'blocked':
        return failure('PRECONDITION', 'containers of the node are being taken over by other nodes', 'no');
      case 'behind':
        return failure('PRECONDITION', 'the address table of the node is behind', 'no');
      case 'full':
        return failure('CAPACITY', `more than ${nodesMax} nodes request the serving lease`);
      case 'granted':
        return success({ leaseMs: this.leaseMs, revision: this.requiredRevision(node) });
      default:
        return failure('INTERNAL');
    }
  }

  /** `seenRevision`: the revision that the address table of the node has reached. */
  renew(nowMs: number, node: NodeId, generation: number, seenRevision = Infinity): Renewal {
    const lease = this.#leaseOf(nowMs, node, generation);
    if (lease === undefined) return 'full';
    if (generation < lease.generation) return 'superseded';
    if (lease.goneMs !== undefined && nowMs < lease.goneMs + lateRequestRatio * this.leaseMs) return 'superseded';
    if (lease.openTakeovers > 0) return 'blocked';
    if (seenRevision < this.requiredRevision(node)) return 'behind';
    lease.goneMs = undefined;
    lease.grantedMs = nowMs;
    return 'granted';
  }

  /** A registration shows that this generation has started, so all earlier ones have ended. */
  onGenerationSeen(nowMs: number, node: NodeId, generation: number): void {
    this.#leaseOf(nowMs, node, generation);
  }

  /** Proof, not suspicion: the process of this generation has ended. */
  markGone(nowMs: number, node: NodeId, generation: number): void {
    const lease = this.#leaseOf(nowMs, node, generation);
    if (lease?.generation === generation) lease.goneMs = nowMs;
  }

  /** A takeover from this node instance starts; each call is followed by one of `unblockGrants`. */
  blockGrants(nowMs: number, node: NodeId, generation: number): void {
    const lease = this.#leaseOf(nowMs, node, generation);
    if (lease?.generation === generation) lease.openTakeovers += 1;
  }

  /** A takeover has ended: at `revokedRevision`, or without effect if that is undefined. */
  unblockGrants(node: NodeId, generation: number, revokedRevision: number | undefined): void {
    const lease = this.#leases.get(node);
    if (lease?.generation !== generation) return;
    lease.openTakeovers = Math.max(0, lease.openTakeovers - 1);
    lease.requiredRevision = Math.max(lease.requiredRevision, revokedRevision ?? 0);
  }

  /** Every change of former leaders has a lower revision. */
  requireRevisionOfAll(revision: number): void {
    this.#requiredRevision = revision;
  }

  /** The address table of the node has to reach it before the node serves. */
  requiredRevision(node: NodeId): number {
    return Math.max(this.#requiredRevision, this.#leases.get(node)?.requiredRevision ?? 0);
  }

  /** The highest generation seen; undefined for an unknown node. */
  generationOf(node: NodeId): number | undefined {
    return this.#leases.get(node)?.generation;
  }

  status(nowMs: number, node: NodeId, generation: number): ServingLeaseStatus {
    const latest = this.#leases.get(node);
    if (latest !== undefined && generation < latest.generation) return 'expired';
    const lease = latest?.generation === generation ? latest : undefined;
    if (lease !== undefined && (lease.goneMs !== undefined || lease.openTakeovers > 0)) return 'expired';
    if (lease?.grantedMs !== undefined && nowMs < lease.grantedMs + this.leaseMs) return 'valid';
    return nowMs < this.#expiryMs(lease) ? 'uncertain' : 'expired';
  }

  /** True only on proof that this generation has ended; an expired lease alone may be that of a silent node. */
  hasEnded(node: NodeId, generation: number): boolean {
    const lease = this.#leases.get(node);
    if (lease === undefined || generation > lease.generation) return false;
    return generation < lease.generation || lease.goneMs !== undefined;
  }

  /** When the status changes without any further event; undefined if it does not. */
  nextChangeMs(nowMs: number, node: NodeId, generation: number): number | undefined {
    const status = this.status(nowMs, node, generation);
    if (status === 'expired') return undefined;
    const latest = this.#leases.get(node);
    const lease = latest?.generation === generation ? latest : undefined;
    return status === 'valid' ? (lease?.grantedMs ?? nowMs) + this.leaseMs : this.#expiryMs(lease);
  }

  #expiryMs(lease: NodeLease | undefined): number {
    return Math.max(this.#leadingSinceMs, lease?.grantedMs ?? this.#leadingSinceMs) + expiryRatio * this.leaseMs;
  }

  /** The entry of the node, for this generation or a later one; undefined when the table is full. */
  #leaseOf(nowMs: number, node: NodeId, generation: number): NodeLease | undefined {
    const lease = this.#leases.get(node);
    if (lease !== undefined && lease.generation >= generation) return lease;
    if (lease === undefined && this.#leases.size >= nodesMax && !this.#removeExpired(nowMs)) return undefined;
    const next = { ...newLease, generation };
    this.#leases.set(node, next);
    return next;
  }

  /** Removes nodes whose status is `expired` with and without their entry. True if there is room. */
  #removeExpired(nowMs: number): boolean {
    for (const [node, { generation, openTakeovers }] of this.#leases) {
      const isExpired = openTakeovers === 0 && this.status(nowMs, node, generation) === 'expired';
      if (isExpired && nowMs >= this.#expiryMs(undefined)) this.#leases.delete(node);
    }
    return this.#leases.size < nodesMax;
  }
}
