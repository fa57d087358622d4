/**
 * Answers view requests. Joins that arrive together are batched for at most 1.5 gossip intervals; their claims count at
 * once. A batch hears of itself in one reply, because gossip would have to tell each newcomer of every other one.
 *
 * What they say about themselves counts from the moment they say it; only the answer waits.
 */
import type { NodeId } from '../../base/ids.ts';
import type { MembershipContext, MembershipMessageOf } from '../state/context.ts';
import type { AntiEntropy } from './anti-entropy.ts';

type Question = { readonly call: number; readonly message: MembershipMessageOf<'syncView'> };

/** More than these do not wait. */
const waitingMax = 500;
/** Of the gossip interval: who comes within this time after another belongs to the same crowd. */
const batchWindowRatio = 1 / 4;
/** Of the gossip interval: nobody waits longer. */
const batchMaxRatio = 3 / 2;

export class JoinCoordinator {
  readonly #group: MembershipContext;
  readonly #views: AntiEntropy;
  #waiting: Question[] = [];
  #waitingSinceMs = 0;
  #cameMs = Number.NEGATIVE_INFINITY;

  constructor(group: MembershipContext, views: AntiEntropy) {
    this.#group = group;
    this.#views = views;
  }

  handleSync(from: NodeId, question: Question): void {
    const { outbox } = this.#group;
    this.#views.mergeRequest(from, question.message);
    if (!question.message.claims.some(({ kind, id }) => kind === 'join' && id === from)) return this.#answer(question);
    const cameAlone = outbox.nowMs - this.#cameMs >= this.#togetherMs;
    this.#cameMs = outbox.nowMs;
    if (cameAlone || this.#waiting.length >= waitingMax) return this.#answer(question);
    this.#waiting.push(question);
    if (this.#waiting.length > 1) return;
    this.#waitingSinceMs = outbox.nowMs;
    outbox.after(this.#togetherMs, { kind: 'crowd' });
  }

  /** The timer of a crowd: perhaps more are coming. */
  expire(): void {
    const { options, outbox } = this.#group;
    const endMs = this.#waitingSinceMs + options.gossipIntervalMs * batchMaxRatio;
    const dueMs = Math.min(this.#cameMs + this.#togetherMs, endMs);
    if (dueMs > outbox.nowMs) return outbox.after(dueMs - outbox.nowMs, { kind: 'crowd' });
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const question of waiting) this.#answer(question);
  }

  get #togetherMs(): number {
    return this.#group.options.gossipIntervalMs * batchWindowRatio;
  }

  #answer({ call, message }: Question): void {
    this.#group.outbox.put({ kind: 'reply', call, message: this.#views.replyTo(message) });
  }
}
