/**
 * Sends replicas what they lack: commits from the log tail, pipelined, or a snapshot step by step. Reports the results;
 * never decides which replicas are in the ISR.
 *
 *   replicating             up to `requestsMax` requests in flight, more if they are full; each starts where the one
 *                           before ends. A refused or failed request cancels all after it: the owner sends again from
 *                           the position that the replica reports.
 *   probing, snapshotting   one request in flight
 */
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Streams } from '../../base/ports.ts';
import { encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import type { ReplicationRequest, ReplicaStatus } from '../../messages/replication.ts';
import type { StateEntry } from '../contract.ts';
import type { ReplicaProgress, SentRequest } from './replica-progress.ts';
import type { ReplicationLog, ReplicaReplyEffect } from './replication-log.ts';
import { SnapshotSender } from './snapshot-sender.ts';
import type { StateReader } from './state-reader.ts';
import { type ReplicatedCommit, packedRowsOf } from './log-tail.ts';

export type ReplicaSenderPorts = {
  readonly streams: Pick<Streams, 'request'>;
  readonly addressOf: (node: NodeId) => Address | undefined;
  readonly isGone: (node: NodeId, generation: number) => boolean;
  readonly requestTimeoutMs: number;
  /** Replicas of all containers that receive a snapshot from this node. */
  readonly snapshotting: Set<ReplicaProgress>;
  readonly snapshotsMax: number;
  /** Unique while this process runs. */
  readonly nextSnapshot: () => number;
};

export type ReplicaSenderEvents = {
  /** A request or a read for a replica has ended. */
  readonly ended: (effect: ReplicaReplyEffect) => void;
  /** The last commit given to the owner's disk. */
  readonly issued: () => number;
  /** Revision of the current record. */
  readonly revision: () => number;
  readonly unreadable: () => void;
};

/** A request without a reply yet, or a read of the store for a snapshot. */
type InFlightRequest = { readonly bytes: number; cancel: Cancel };

/** The fields that every request of this owner carries. */
type ReplicationHeader = {
  readonly pool: number;
  readonly container: number;
  readonly fence: Fence;
  readonly inMemory: boolean;
};

/** Per pipelined request: the transport carries 32 KB in one frame, and splits what is larger. */
const commitsBytesMax = 28 * 2 ** 10;
/** Per snapshot step; larger, since the next step waits for the reply. */
const stepBytesMax = 1 * 2 ** 20;
/**
 * In flight to one replica: further commits are batched until a reply arrives. Full requests do not count against
 * `requestsMax`; no request starts while `inFlightBytesMax` or more are in flight.
 */
const requestsMax = 4;
const inFlightBytesMax = 1 * 2 ** 20;
/** Each such amount extends the timeout of a request by its usual length. */
const largeBytes = 1 * 2 ** 20;

const notCancellable: Cancel = () => {};

export class ReplicaSender {
  readonly #ports: ReplicaSenderPorts;
  readonly #events: ReplicaSenderEvents;
  readonly #header: ReplicationHeader;
  readonly #log: ReplicationLog;
  readonly #reader: StateReader;
  /** Requests and reads in progress, few per replica. */
  readonly #requests = new Map<ReplicaProgress, InFlightRequest[]>();
  /** The members of `ports.snapshotting` that belong to this container. */
  readonly #snapshotting = new Set<ReplicaProgress>();
  #isStopped = false;

  constructor(
    ports: ReplicaSenderPorts,
    events: ReplicaSenderEvents,
    header: ReplicationHeader,
    log: ReplicationLog,
    reader: StateReader,
  ) {
    this.#ports = ports;
    this.#events = events;
    this.#header = header;
    this.#log = log;
    this.#reader = reader;
  }

  /** Sends all that can be sent now. */
  sendPending(): void {
    for (const progress of this.#snapshotting)
      if (progress.snapshot === undefined || !this.#isCurrent(progress)) this.#snapshotEnded(progress);
    for (const progress of this.#log.replicas.values()) {
      if (progress.backoffTicks > 0) continue;
      if (progress.mode === 'replicating') this.#replicate(progress);
      else if (progress.inFlight > 0) continue;
      else if (progress.mode === 'snapshotting') this.#sendSnapshot(progress);
      else this.#sendCommitsAfter(progress, this.#log.tail.last, []);
    }
  }

  /** The node is gone: its requests are cancelled, and commits stop waiting for it. */
  abandon(node: NodeId): void {
    const progress = this.#log.replicas.get(node);
    if (progress === undefined) return;
    this.#cancel(progress);
    this.#log.onFailure(progress, true);
  }

  /** Abandons the replicas that membership has declared gone. */
  abandonGone(): void {
    for (const progress of this.#log.replicas.values()) {
      const isCaughtUp = progress.acked >= this.#log.tail.last;
      const isWaitedFor = this.#log.isRequired(progress) && !isCaughtUp && !progress.isLeaving;
      if (isWaitedFor && this.#isGone(progress)) this.abandon(progress.node);
      // In a pool in memory a restarted replica has lost its state, even if no commit waits for it.
      else if (isCaughtUp && this.#header.inMemory && this.#isGone(progress)) this.#log.replicaRestarted(progress);
    }
  }

  stop(): void {
    this.#isStopped = true;
    for (const progress of this.#requests.keys()) this.#cancel(progress);
    for (const progress of this.#snapshotting) this.#snapshotEnded(progress);
  }

  #snapshotEnded(progress: ReplicaProgress): void {
    this.#snapshotting.delete(progress);
    this.#ports.snapshotting.delete(progress);
  }

  #cancel(progress: ReplicaProgress): void {
    const requests = this.#requests.get(progress);
    this.#requests.delete(progress);
    progress.inFlight = 0;
    progress.inFlightBytes = 0;
    for (const { cancel } of requests ?? []) cancel();
  }

  #startRequest(progress: ReplicaProgress, bytes: number): InFlightRequest {
    let requests = this.#requests.get(progress);
    if (requests === undefined) this.#requests.set(progress, (requests = []));
    const request = { bytes, cancel: notCancellable };
    progress.inFlight = requests.push(request);
    progress.inFlightBytes += bytes;
    return request;
  }

  /** False: the request was cancelled. */
  #complete(progress: ReplicaProgress, request: InFlightRequest): boolean {
    const requests = this.#requests.get(progress);
    const at = requests?.indexOf(request) ?? -1;
    if (this.#isStopped || requests === undefined || at < 0) return false;
    requests.splice(at, 1);
    progress.inFlight = requests.length;
    progress.inFlightBytes -= request.bytes;
    return true;
  }

  /** The owner's disk sets the pace: the commits of its next write go to the replicas at the same time. */
  #replicate(progress: ReplicaProgress): void {
    const { tail } = this.#log;
    const issued = this.#events.issued();
    // A failure to send changes the mode.
    while (progress.mode === 'replicating' && progress.next < issued) {
      const after = progress.next;
      const commits = tail.after(after, issued, commitsBytesMax);
      const isFull = after + commits.length < issued;
      if ((progress.inFlight >= requestsMax && !isFull) || progress.inFlightBytes >= inFlightBytesMax) return;
      progress.sent = after + commits.length;
      this.#log.markSent(progress.sent);
      this.#sendCommitsAfter(progress, after, commits);
    }
  }

  #sendCommitsAfter(progress: ReplicaProgress, after: number, commits: readonly ReplicatedCommit[]): void {
    this.#request(progress, {
      kind: 'replicateCommits',
      ...this.#header,
      revision: this.#events.revision(),
      after: this.#log.tail.positionOf(after),
      commits: commits.map(packedRowsOf),
    });
  }

  #sendSnapshot(progress: ReplicaProgress): void {
    const { snapshotting, snapshotsMax, nextSnapshot } = this.#ports;
    if (progress.unackedStep !== undefined) return this.#send(progress, progress.unackedStep);
    if (progress.snapshot === undefined) {
      // A replica that commits wait for does not wait for a free place.
      if (snapshotting.size >= snapshotsMax && !progress.isInIsr) return;
      snapshotting.add(progress);
      this.#snapshotting.add(progress);
      progress.snapshot = new SnapshotSender(nextSnapshot(), this.#log.durable);
    }
    const { snapshot } = progress;
    const next = snapshot.next(this.#log.durable);
    if (next === 'page') this.#readPage(progress, snapshot);
    else if (next === 'commits') this.#sendCommits(progress, snapshot);
  }

  #readPage(progress: ReplicaProgress, snapshot: SnapshotSender): void {
    const reading = this.#startRequest(progress, 0);
    this.#reader.page(snapshot.cursor, (outcome) => {
      if (!this.#complete(progress, reading)) return;
      if (progress.snapshot !== snapshot) return this.#events.ended('accepted');
      if (!outcome.ok) {
        progress.backOff();
        return this.#events.unreadable();
      }
      const { entries, isLast } = outcome.value;
      const isWhole = snapshot.pageSent(entries, isLast, this.#events.issued());
      this.#sendStep(progress, snapshot, isWhole, entries, []);
    });
  }

  #sendCommits(progress: ReplicaProgress, snapshot: SnapshotSender): void {
    const commits = this.#log.tail.after(snapshot.sent, this.#log.durable, stepBytesMax);
    const isWhole = snapshot.commitsSent(snapshot.sent + commits.length);
    this.#sendStep(progress, snapshot, isWhole, [], commits);
  }

  #sendStep(
    progress: ReplicaProgress,
    snapshot: SnapshotSender,
    isWhole: boolean,
    entries: readonly StateEntry[],
    commits: readonly ReplicatedCommit[],
  ): void {
    this.#request(progress, {
      kind: 'replicateSnapshot',
      ...this.#header,
      revision: this.#events.revision(),
      snapshot: snapshot.snapshot,
      step: snapshot.step - 1,
      entries,
      commits: commits.map(packedRowsOf),
      install: isWhole ? this.#log.tail.positionOf(snapshot.sent) : undefined,
    });
  }

  #request(progress: ReplicaProgress, request: ReplicationRequest): void {
    const body = encodeMessage(request);
    if (request.kind === 'replicateSnapshot') progress.unackedStep = { body, revision: request.revision };
    this.#send(progress, { body, revision: request.revision });
  }

  #send(progress: ReplicaProgress, { body, revision }: SentRequest): void {
    const { streams, addressOf, requestTimeoutMs } = this.#ports;
    const address = addressOf(progress.node);
    if (address === undefined) {
      this.#cancel(progress);
      return this.#log.onFailure(progress, this.#isGone(progress));
    }
    const timeoutMs = requestTimeoutMs * (1 + body.length / largeBytes);
    const sent = this.#startRequest(progress, body.length);
    sent.cancel = streams.request(address, body, timeoutMs, (outcome) => {
      if (!this.#complete(progress, sent) || !this.#isCurrent(progress)) return;
      const reply = outcome.ok ? tryDecodeMessage(outcome.value) : undefined;
      if (reply?.kind === 'replicaStatus') return this.#onReply(progress, reply, revision);
      this.#cancel(progress);
      // DRAINED: the node is leaving and accepts no requests until it restarts.
      const isLeaving = !outcome.ok && outcome.error.code === 'DRAINED';
      this.#log.onFailure(progress, isLeaving || this.#isGone(progress));
      this.#events.ended('refused');
    });
  }

  #onReply(progress: ReplicaProgress, reply: ReplicaStatus, revision: number): void {
    const effect = this.#log.onReply(progress, reply, revision);
    // The requests behind this one do not start where the replica ends.
    if (reply.refusal !== undefined || progress.mode !== 'replicating') this.#cancel(progress);
    this.#events.ended(effect);
  }

  /** Asked only about replicas that do not reply: a node that is back has the state of its earlier generation. */
  #isGone({ node, generation, recordedGeneration }: ReplicaProgress): boolean {
    const known = generation ?? recordedGeneration;
    return known !== undefined && this.#ports.isGone(node, known);
  }

  /** The record still names the replica. */
  #isCurrent(progress: ReplicaProgress): boolean {
    return this.#log.replicas.get(progress.node) === progress;
  }
}
