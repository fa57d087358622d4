/**
 * One question to the cluster about jobs, through some node: ends with the answer, an error, or nothing when that node is
 * gone or stands still. Tells of each as a request, so that one that never ends is found.
 */
import type { Outcome } from '../../base/errors.ts';
import type { JobVerb } from '../../messages/jobs.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { StageSpec } from '../observation.ts';
import type { World } from '../world.ts';

/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;
const patienceMs = 300;
/** Code is stored under a deadline of the node's own. */
const storeMsMax = 40_000;

export type Question =
  | { readonly verb: JobVerb; readonly words: unknown; readonly submitter: string }
  | { readonly verb: 'store'; readonly sha256: string; readonly code: Uint8Array };

/** Undefined: nobody answered at all. */
export type Answered = (outcome: Outcome<string> | undefined) => void;

export class Errands {
  readonly #world: World<HostedNode>;
  readonly #observe: StageSpec['observe'];
  #requests = 0;

  constructor(world: World<HostedNode>, observe: StageSpec['observe']) {
    this.#world = world;
    this.#observe = observe;
  }

  ask(node: string, question: Question, timeoutMs: number, answered: Answered): void {
    const life = this.#world.host(node).life;
    let isOpen = true;
    const end: Answered = (outcome) => {
      if (isOpen) answered(outcome);
      isOpen = false;
    };
    this.#world.timeline.after(timeoutMs * fastestClock + patienceMs, () => end(undefined));
    life?.enter(() => this.#ask(node, question, timeoutMs, end));
  }

  #ask(node: string, question: Question, timeoutMs: number, end: Answered): void {
    const core = this.#world.program(node)?.core;
    const desk = core?.jobs?.desk;
    const life = this.#world.host(node).life;
    if (core === undefined || desk === undefined || life === undefined) return end(undefined);
    const request = ++this.#requests;
    const allowedMs = question.verb === 'store' ? storeMsMax : timeoutMs;
    const deadlineMs = core.clock.nowMs() + allowedMs;
    const { stalledMs } = life;
    this.#observe({ kind: 'requestStarted', node, request, timeoutMs: allowedMs });
    const ended: Answered = (outcome) => {
      const lateMs = core.clock.nowMs() - deadlineMs - fastestClock * (life.stalledMs - stalledMs);
      const code = outcome === undefined || outcome.ok ? 'OK' : outcome.error.code;
      this.#observe({ kind: 'requestEnded', node, request, code, lateMs });
      end(outcome);
    };
    if (question.verb !== 'store')
      return desk.order(question.verb, JSON.stringify(question.words), question.submitter, timeoutMs, ended);
    desk.storeBundle(question.sha256, question.code, (outcome) => {
      ended(outcome.ok ? { ok: true, value: '' } : outcome);
    });
  }
}
