/**
 * Replies to view requests. Joiners that arrive together are batched for at most 1.5 gossip intervals, so that one
 * reply names them all to each other; gossip would need a claim per pair. Their claims are merged at once; only the
 * reply waits.
 */
import type { NodeId } from '../../base/ids.ts';
import type { MembershipContext, MembershipMessageOf } from '../state/context.ts';
import type { AntiEntropy } from './anti-entropy.ts';

type ViewRequest = { readonly call: number; readonly message: MembershipMessageOf<'syncView'> };

/** A joiner beyond this number gets its reply at once. */
const waitingMax = 500;
/** Of the gossip interval: a joiner within this time after another one belongs to the same batch. */
const batchWindowRatio = 1 / 4;
/** Of the gossip interval: no reply waits longer. */
const batchMaxRatio = 3 / 2;

export class JoinCoordinator {
  readonly #context: MembershipContext;
  readonly #antiEntropy: AntiEntropy;
  #waiting: ViewRequest[] = [];
  #waitingSinceMs = 0;
  #lastJoinMs = Number.NEGATIVE_INFINITY;

  constructor(context: MembershipContext, antiEntropy: AntiEntropy) {
    this.#context = context;
    this.#antiEntropy = antiEntropy;
  }

  handleSync(from: NodeId, request: ViewRequest): void {
    const { outbox } = this.#context;
    this.#antiEntropy.mergeRequest(from, request.message);
    const isJoin = request.message.claims.some(({ kind, id }) => kind === 'join' && id === from);
    if (!isJoin) return this.#reply(request);
    const startsBatch = outbox.nowMs - this.#lastJoinMs >= this.#windowMs;
    this.#lastJoinMs = outbox.nowMs;
    if (startsBatch || this.#waiting.length >= waitingMax) return this.#reply(request);
    this.#waiting.push(request);
    if (this.#waiting.length > 1) return;
    this.#waitingSinceMs = outbox.nowMs;
    outbox.schedule(this.#windowMs, { kind: 'joinBatch' });
  }

  /** The timer of a batch: it is set again while more joiners arrive. */
  expire(): void {
    const { options, outbox } = this.#context;
    const endMs = this.#waitingSinceMs + options.gossipIntervalMs * batchMaxRatio;
    const dueMs = Math.min(this.#lastJoinMs + this.#windowMs, endMs);
    if (dueMs > outbox.nowMs) return outbox.schedule(dueMs - outbox.nowMs, { kind: 'joinBatch' });
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const request of waiting) this.#reply(request);
  }

  get #windowMs(): number {
    return this.#context.options.gossipIntervalMs * batchWindowRatio;
  }

  #reply({ call, message }: ViewRequest): void {
    this.#context.outbox.push({ kind: 'reply', call, message: this.#antiEntropy.replyTo(message) });
  }
}
