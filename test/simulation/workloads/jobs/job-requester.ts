/**
 * Sends job requests through a node and observes their start and end, so a request that never ends is found. The
 * outcome is undefined if the node crashes.
 */
import type { Outcome } from '../../../../src/base/errors.ts';
import type { JobVerb } from '../../../../src/messages/jobs.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;
const replyMarginMs = 300;
/** The deadline of the node for storing a bundle. */
const storeMsMax = 40_000;

export type SimulatedJobRequest =
  | { readonly verb: JobVerb; readonly request: unknown; readonly submitter: string }
  | { readonly verb: 'store'; readonly sha256: string; readonly code: Uint8Array };

/** Undefined: there was no reply. */
export type JobReplyHandler = (outcome: Outcome<string> | undefined) => void;

export class JobRequester {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  #requests = 0;

  constructor(world: SimulatedWorld<SimulatedNode>, observe: WorkloadContext['observe']) {
    this.#world = world;
    this.#observe = observe;
  }

  send(node: string, jobRequest: SimulatedJobRequest, timeoutMs: number, onReply: JobReplyHandler): void {
    const hostProcess = this.#world.host(node).process;
    let isOpen = true;
    const end: JobReplyHandler = (outcome) => {
      if (isOpen) onReply(outcome);
      isOpen = false;
    };
    this.#world.timeline.after(timeoutMs * fastestClock + replyMarginMs, () => end(undefined));
    hostProcess?.run(() => this.#sendTo(node, jobRequest, timeoutMs, end));
  }

  #sendTo(node: string, jobRequest: SimulatedJobRequest, timeoutMs: number, end: JobReplyHandler): void {
    const core = this.#world.program(node)?.core;
    const gateway = core?.jobs?.gateway;
    const hostProcess = this.#world.host(node).process;
    if (core === undefined || gateway === undefined || hostProcess === undefined) return end(undefined);
    const request = ++this.#requests;
    const allowedMs = jobRequest.verb === 'store' ? storeMsMax : timeoutMs;
    const deadlineMs = core.clock.nowMs() + allowedMs;
    const { pausedMs } = hostProcess;
    this.#observe({ kind: 'requestStarted', node, request, timeoutMs: allowedMs });
    const ended: JobReplyHandler = (outcome) => {
      const lateMs = core.clock.nowMs() - deadlineMs - fastestClock * (hostProcess.pausedMs - pausedMs);
      const code = outcome === undefined || outcome.ok ? 'OK' : outcome.error.code;
      this.#observe({ kind: 'requestEnded', node, request, code, lateMs });
      end(outcome);
    };
    if (jobRequest.verb !== 'store')
      return gateway.send(jobRequest.verb, JSON.stringify(jobRequest.request), jobRequest.submitter, timeoutMs, ended);
    gateway.storeBundle(jobRequest.sha256, jobRequest.code, (outcome) => {
      ended(outcome.ok ? { ok: true, value: '' } : outcome);
    });
  }
}
