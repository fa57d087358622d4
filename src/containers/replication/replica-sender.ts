/**
 * Sends replicas what they lack: commits from the tail, pipelined, or a snapshot step by step. Reports results; never
 * decides who is in the ISR.
 *
 *   following          up to `requestsMax` requests at once, and more of those that are full, each with the commits behind
 *                      the one before. One that is refused or fails is the end of all that came after it: the copy is
 *                      asked, or told, from where it is.
 *   unknown, copying   one request at a time
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
  /** Copies that are getting a snapshot from this node, of all containers. */
  readonly snapshotting: Set<ReplicaProgress>;
  readonly copyingMax: number;
  /** Never the same number twice in the life of this process. */
  readonly nextSnapshot: () => number;
};

export type ReplicaSenderEvents = {
  /** Something has changed for that copy. */
  readonly ended: (verdict: ReplicaReplyEffect) => void;
  /** Commits up to this one have been handed to the disk. */
  readonly issued: () => number;
  /** Of the record by which there are these copies. */
  readonly revision: () => number;
  readonly unreadable: () => void;
};

/** What a copy has not answered yet, or what is being read for it. */
type UnderWay = { readonly bytes: number; cancel: Cancel };

type OwnedState = {
  readonly pool: number;
  readonly container: number;
  readonly fence: Fence;
  readonly inMemory: boolean;
};

/** In one of several requests: the transport carries 32 KB in one piece; what is larger is cut, and put together again. */
const commitsBytesMax = 28 * 2 ** 10;
/** In a step of a snapshot: the next one waits for its answer, however long that takes. */
const stepBytesMax = 1 * 2 ** 20;
/**
 * To one copy at once: what comes then goes together later. One that is full waits for no more to come. None sets out
 * while more bytes than that are on their way.
 */
const requestsMax = 4;
const underWayBytesMax = 1 * 2 ** 20;
/** What takes as long again to carry as the usual request. */
const largeBytes = 1 * 2 ** 20;

const nothing: Cancel = () => {};

export class ReplicaSender {
  readonly #ports: ReplicaSenderPorts;
  readonly #events: ReplicaSenderEvents;
  readonly #state: OwnedState;
  readonly #log: ReplicationLog;
  readonly #reader: StateReader;
  /** What is on its way, or being read. At most a few at once. */
  readonly #requests = new Map<ReplicaProgress, UnderWay[]>();
  /** Of `ports.copying`, those of this container. */
  readonly #copying = new Set<ReplicaProgress>();
  #isStopped = false;

  constructor(
    ports: ReplicaSenderPorts,
    events: ReplicaSenderEvents,
    state: OwnedState,
    log: ReplicationLog,
    reader: StateReader,
  ) {
    this.#ports = ports;
    this.#events = events;
    this.#state = state;
    this.#log = log;
    this.#reader = reader;
  }

  /** Sends whatever can be sent now. */
  sendPending(): void {
    for (const link of this.#copying) if (link.snapshot === undefined || !this.#isCurrent(link)) this.#copied(link);
    for (const link of this.#log.replicas.values()) {
      if (link.pauseTicks > 0) continue;
      if (link.mode === 'following') this.#follow(link);
      else if (link.inFlight > 0) continue;
      else if (link.mode === 'copying') this.#copy(link);
      else this.#append(link, this.#log.tail.last, []);
    }
  }

  /** Waiting for that node is in vain. */
  abandon(node: NodeId): void {
    const link = this.#log.replicas.get(node);
    if (link === undefined) return;
    this.#cancel(link);
    this.#log.onFailure(link, true);
  }

  /** Those of whom it is known that they are gone need not be waited for. */
  abandonGone(): void {
    for (const link of this.#log.replicas.values()) {
      const hasAll = link.acked >= this.#log.tail.last;
      const isWaitedFor = this.#log.isRequired(link) && !hasAll && !link.isLeaving;
      if (isWaitedFor && this.#isGone(link)) this.abandon(link.node);
      // What was only in memory ended with that life, also when nobody writes.
      else if (hasAll && this.#state.inMemory && this.#isGone(link)) this.#log.replicaRestarted(link);
    }
  }

  stop(): void {
    this.#isStopped = true;
    for (const link of this.#requests.keys()) this.#cancel(link);
    for (const link of this.#copying) this.#copied(link);
  }

  #copied(link: ReplicaProgress): void {
    this.#copying.delete(link);
    this.#ports.snapshotting.delete(link);
  }

  #cancel(link: ReplicaProgress): void {
    const requests = this.#requests.get(link);
    this.#requests.delete(link);
    link.inFlight = 0;
    link.underWayBytes = 0;
    for (const { cancel } of requests ?? []) cancel();
  }

  #begin(link: ReplicaProgress, bytes: number): UnderWay {
    let requests = this.#requests.get(link);
    if (requests === undefined) this.#requests.set(link, (requests = []));
    const request = { bytes, cancel: nothing };
    link.inFlight = requests.push(request);
    link.underWayBytes += bytes;
    return request;
  }

  /** False: nobody waits for it any more. */
  #ended(link: ReplicaProgress, request: UnderWay): boolean {
    const requests = this.#requests.get(link);
    const at = requests?.indexOf(request) ?? -1;
    if (this.#isStopped || requests === undefined || at < 0) return false;
    requests.splice(at, 1);
    link.inFlight = requests.length;
    link.underWayBytes -= request.bytes;
    return true;
  }

  /** Our own disk sets the pace: what has gathered for it goes to the copies at the same time, in one piece. */
  #follow(link: ReplicaProgress): void {
    const { tail } = this.#log;
    const issued = this.#events.issued();
    // One that cannot be sent ends the following.
    while (link.mode === 'following' && link.next < issued) {
      const after = link.next;
      const commits = tail.after(after, issued, commitsBytesMax);
      const isFull = after + commits.length < issued;
      if ((link.inFlight >= requestsMax && !isFull) || link.underWayBytes >= underWayBytesMax) return;
      link.sent = after + commits.length;
      this.#log.markSent(link.sent);
      this.#append(link, after, commits);
    }
  }

  #append(link: ReplicaProgress, after: number, commits: readonly ReplicatedCommit[]): void {
    this.#request(link, {
      kind: 'replicateCommits',
      ...this.#state,
      revision: this.#events.revision(),
      after: this.#log.tail.positionOf(after),
      commits: commits.map(packedRowsOf),
    });
  }

  #copy(link: ReplicaProgress): void {
    const { snapshotting, copyingMax, nextSnapshot } = this.#ports;
    if (link.unanswered !== undefined) return this.#send(link, link.unanswered);
    if (link.snapshot === undefined) {
      // Whoever is waited for does not wait for others.
      if (snapshotting.size >= copyingMax && !link.isInIsr) return;
      snapshotting.add(link);
      this.#copying.add(link);
      link.snapshot = new SnapshotSender(nextSnapshot(), this.#log.durable);
    }
    const { snapshot } = link;
    const next = snapshot.next(this.#log.durable);
    if (next === 'page') this.#readPage(link, snapshot);
    else if (next === 'commits') this.#sendCommits(link, snapshot);
  }

  #readPage(link: ReplicaProgress, snapshot: SnapshotSender): void {
    const reading = this.#begin(link, 0);
    this.#reader.page(snapshot.cursor, (outcome) => {
      if (!this.#ended(link, reading)) return;
      if (link.snapshot !== snapshot) return this.#events.ended('fine');
      if (!outcome.ok) {
        link.backOff();
        return this.#events.unreadable();
      }
      const { entries, isLast } = outcome.value;
      const isWhole = snapshot.pageSent(entries, isLast, this.#events.issued());
      this.#step(link, snapshot, isWhole, entries, []);
    });
  }

  #sendCommits(link: ReplicaProgress, snapshot: SnapshotSender): void {
    const commits = this.#log.tail.after(snapshot.sent, this.#log.durable, stepBytesMax);
    const isWhole = snapshot.commitsSent(snapshot.sent + commits.length);
    this.#step(link, snapshot, isWhole, [], commits);
  }

  #step(
    link: ReplicaProgress,
    snapshot: SnapshotSender,
    isWhole: boolean,
    entries: readonly StateEntry[],
    commits: readonly ReplicatedCommit[],
  ): void {
    this.#request(link, {
      kind: 'replicateSnapshot',
      ...this.#state,
      revision: this.#events.revision(),
      snapshot: snapshot.snapshot,
      step: snapshot.step - 1,
      entries,
      commits: commits.map(packedRowsOf),
      install: isWhole ? this.#log.tail.positionOf(snapshot.sent) : undefined,
    });
  }

  #request(link: ReplicaProgress, request: ReplicationRequest): void {
    const body = encodeMessage(request);
    if (request.kind === 'replicateSnapshot') link.unanswered = { body, revision: request.revision };
    this.#send(link, { body, revision: request.revision });
  }

  #send(link: ReplicaProgress, { body, revision }: SentRequest): void {
    const { streams, addressOf, requestTimeoutMs } = this.#ports;
    const address = addressOf(link.node);
    if (address === undefined) {
      this.#cancel(link);
      return this.#log.onFailure(link, this.#isGone(link));
    }
    const timeoutMs = requestTimeoutMs * (1 + body.length / largeBytes);
    const sent = this.#begin(link, body.length);
    sent.cancel = streams.request(address, body, timeoutMs, (outcome) => {
      if (!this.#ended(link, sent) || !this.#isCurrent(link)) return;
      const answer = outcome.ok ? tryDecodeMessage(outcome.value) : undefined;
      if (answer?.kind === 'replicaStatus') return this.#answered(link, answer, revision);
      this.#cancel(link);
      // A node that is leaving says so: it takes nothing any more in this life.
      const isLeaving = !outcome.ok && outcome.error.code === 'DRAINED';
      this.#log.onFailure(link, isLeaving || this.#isGone(link));
      this.#events.ended('refused');
    });
  }

  #answered(link: ReplicaProgress, answer: ReplicaStatus, revision: number): void {
    const verdict = this.#log.onReply(link, answer, revision);
    // What else is on its way does not begin where the copy ends.
    if (answer.refusal !== undefined || link.mode !== 'following') this.#cancel(link);
    this.#events.ended(verdict);
  }

  /** Asked only about who does not answer: a node that is back holds what its former life held. */
  #isGone({ node, generation, recordedGeneration }: ReplicaProgress): boolean {
    const life = generation ?? recordedGeneration;
    return life !== undefined && this.#ports.isGone(node, life);
  }

  /** It has not been taken out of the record meanwhile. */
  #isCurrent(link: ReplicaProgress): boolean {
    return this.#log.replicas.get(link.node) === link;
  }
}
