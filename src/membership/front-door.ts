/**
 * Answers those who ask for our view. Who comes alone is answered at once. Who comes in a crowd waits a moment, at most
 * one and a half gossip intervals, until nobody else comes: then all of them hear of each other in one answer, instead
 * of by gossip, which would have to tell each newcomer of each other one, in a moment in which all have most to do.
 *
 * What they say about themselves counts from the moment they say it; only the answer waits.
 */
import type { NodeId } from '../base/ids.ts';
import type { Group, MessageNamed } from './group.ts';
import type { ViewExchange } from './view-exchange.ts';

type Question = { readonly call: number; readonly message: MessageNamed<'sync'> };

/** More than these do not wait. */
const waitingMax = 500;
/** Of the gossip interval: who comes within this time after another belongs to the same crowd. */
const togetherRatio = 1 / 4;
/** Of the gossip interval: nobody waits longer. */
const waitRatio = 3 / 2;

export class FrontDoor {
  readonly #group: Group;
  readonly #views: ViewExchange;
  #waiting: Question[] = [];
  #waitingSinceMs = 0;
  #cameMs = Number.NEGATIVE_INFINITY;

  constructor(group: Group, views: ViewExchange) {
    this.#group = group;
    this.#views = views;
  }

  asked(from: NodeId, question: Question): void {
    const { out } = this.#group;
    this.#views.heard(from, question.message);
    if (!question.message.claims.some(({ kind, id }) => kind === 'join' && id === from)) return this.#answer(question);
    const cameAlone = out.nowMs - this.#cameMs >= this.#togetherMs;
    this.#cameMs = out.nowMs;
    if (cameAlone || this.#waiting.length >= waitingMax) return this.#answer(question);
    this.#waiting.push(question);
    if (this.#waiting.length > 1) return;
    this.#waitingSinceMs = out.nowMs;
    out.after(this.#togetherMs, { kind: 'crowd' });
  }

  /** The timer of a crowd: perhaps more are coming. */
  expire(): void {
    const { options, out } = this.#group;
    const endMs = this.#waitingSinceMs + options.gossipIntervalMs * waitRatio;
    const dueMs = Math.min(this.#cameMs + this.#togetherMs, endMs);
    if (dueMs > out.nowMs) return out.after(dueMs - out.nowMs, { kind: 'crowd' });
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const question of waiting) this.#answer(question);
  }

  get #togetherMs(): number {
    return this.#group.options.gossipIntervalMs * togetherRatio;
  }

  #answer({ call, message }: Question): void {
    this.#group.out.put({ kind: 'reply', call, message: this.#views.answerTo(message) });
  }
}
