/**
 * Sends one job request through a node and observes its start and end; ends undefined when the node is gone. Each is
 * observed as a request, so one that never ends is found.
 */
import type { Outcome } from '../../../../src/base/errors.ts';
import type { JobVerb } from '../../../../src/messages/jobs.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;
const patienceMs = 300;
/** Code is stored under a deadline of the node's own. */
const storeMsMax = 40_000;

export type SimulatedJobRequest =
  | { readonly verb: JobVerb; readonly words: unknown; readonly submitter: string }
  | { readonly verb: 'store'; readonly sha256: string; readonly code: Uint8Array };

/** Undefined: nobody answered at all. */
export type JobReplyHandler = (outcome: Outcome<string> | undefined) => void;

export class JobRequester {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  #requests = 0;

  constructor(world: SimulatedWorld<SimulatedNode>, observe: WorkloadContext['observe']) {
    this.#world = world;
    this.#observe = observe;
  }

  request(node: string, question: SimulatedJobRequest, timeoutMs: number, answered: JobReplyHandler): void {
    const life = this.#world.host(node).process;
    let isOpen = true;
    const end: JobReplyHandler = (outcome) => {
      if (isOpen) answered(outcome);
      isOpen = false;
    };
    this.#world.timeline.after(timeoutMs * fastestClock + patienceMs, () => end(undefined));
    life?.run(() => this.#ask(node, question, timeoutMs, end));
  }

  #ask(node: string, question: SimulatedJobRequest, timeoutMs: number, end: JobReplyHandler): void {
    const core = this.#world.program(node)?.core;
    const desk = core?.jobs?.gateway;
    const life = this.#world.host(node).process;
    if (core === undefined || desk === undefined || life === undefined) return end(undefined);
    const request = ++this.#requests;
    const allowedMs = question.verb === 'store' ? storeMsMax : timeoutMs;
    const deadlineMs = core.clock.nowMs() + allowedMs;
    const { pausedMs } = life;
    this.#observe({ kind: 'requestStarted', node, request, timeoutMs: allowedMs });
    const ended: JobReplyHandler = (outcome) => {
      const lateMs = core.clock.nowMs() - deadlineMs - fastestClock * (life.pausedMs - pausedMs);
      const code = outcome === undefined || outcome.ok ? 'OK' : outcome.error.code;
      this.#observe({ kind: 'requestEnded', node, request, code, lateMs });
      end(outcome);
    };
    if (question.verb !== 'store')
      return desk.send(question.verb, JSON.stringify(question.words), question.submitter, timeoutMs, ended);
    desk.storeBundle(question.sha256, question.code, (outcome) => {
      ended(outcome.ok ? { ok: true, value: '' } : outcome);
    });
  }
}
