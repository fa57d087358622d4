/**
 * Clients of simulated pools: concurrent calls, retried through other nodes under the same id; sometimes duplicated.
 * Reports a history.
 */
import type { Outcome } from '../../../../src/base/errors.ts';
import { type CallId, formatCallId } from '../../../../src/base/ids.ts';
import type { Clock } from '../../../../src/base/ports.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { CallResult, ContainerCalls } from '../../../../src/containers/contract.ts';
import { encodeValue } from '../../../../src/messages/codec/value.ts';
import type { Observation } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import {
  historyKeysOf,
  targetContainersOf,
  drawCellCall,
  type PoolShape,
  replyTextsOf,
  type PlannedCellCall,
  methodCallOf,
} from './cell-calls.ts';
import { SimulatedSession } from './client-session.ts';

const lanesEach = 2;
const pausesMs = [200, 600, 1_500];
const timeoutsMs = [900, 3_000, 9_000];
const patientTimeoutMs = 20_000;
const patienceMs = 16_000;
const againMsMax = 300;
/** Of so many calls one is not sent again once it is promised that nothing happened. */
const givesUpEvery = 4;
/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;

export type PoolClientsOptions = {
  readonly world: SimulatedWorld<unknown>;
  readonly random: Random;
  readonly count: number;
  /** They wait long enough for whatever happens when nothing is hurt. */
  readonly hasLongTimeouts: boolean;
  readonly observe: (observation: Observation) => void;
  /** Pools that can be called now. */
  readonly pools: () => readonly PoolShape[];
  /** Where a call enters the cluster; undefined while the node is down or not ready. */
  readonly entryPoint: (node: string) => { readonly calls: ContainerCalls; readonly clock: Clock } | undefined;
  /** A caller has its answer to a writing call. `container` when the route names one. */
  readonly acknowledged: (call: string, pool: string, containers: readonly number[] | undefined) => void;
};

export class PoolClients {
  readonly #spec: PoolClientsOptions;
  readonly #pauseMsMax: number;
  #resting = false;
  #requests = 0;

  constructor(spec: PoolClientsOptions) {
    this.#spec = spec;
    this.#pauseMsMax = spec.random.fork('pause').pick(pausesMs);
  }

  start(): void {
    const { random, count } = this.#spec;
    for (let at = 1; at <= count; at++) {
      const session = new SimulatedSession(`c${at}`);
      for (let lane = 1; lane <= lanesEach; lane++)
        new CallLane(session, random.fork(`client/${at}/${lane}`), this.#spec, this).next();
    }
  }

  stop(): void {
    this.#resting = true;
  }

  get resting(): boolean {
    return this.#resting;
  }

  get pauseMsMax(): number {
    return this.#pauseMsMax;
  }

  nextRequest(): number {
    return ++this.#requests;
  }
}

type Open = {
  readonly id: CallId;
  readonly wish: PlannedCellCall;
  readonly giveUpMs: number;
  /** An answer that this client pretends to have lost. */
  lost: CallResult | undefined;
  attempt: number;
  /** Requests, and those of them that were answered with the promise that nothing happened. */
  sent: number;
  refused: number;
};

class CallLane {
  readonly #session: SimulatedSession;
  readonly #random: Random;
  readonly #spec: PoolClientsOptions;
  readonly #all: PoolClients;
  #open: Open | undefined;
  #lastSeen = '';

  constructor(session: SimulatedSession, random: Random, spec: PoolClientsOptions, all: PoolClients) {
    this.#session = session;
    this.#random = random;
    this.#spec = spec;
    this.#all = all;
  }

  next(): void {
    this.#open = undefined;
    this.#later(this.#random.between(0, this.#all.pauseMsMax), () => {
      if (this.#all.resting) return;
      const pools = this.#spec.pools();
      if (pools.length === 0) return this.next();
      const id = this.#session.begin();
      const wish = drawCellCall(this.#random, this.#random.pick(pools), formatCallId(id), this.#lastSeen);
      const giveUpMs = this.#spec.world.timeline.nowMs + patienceMs;
      const open: Open = { id, wish, giveUpMs, lost: undefined, attempt: 1, sent: 0, refused: 0 };
      this.#open = open;
      for (const { client, key } of historyKeysOf(this.#session.name, wish))
        this.#spec.observe({
          kind: 'called',
          order: { client, number: id.counter, attempt: 1, key, action: wish.action },
        });
      this.#send(open);
      // Two at once: whoever comes second must get the answer of the first.
      if (this.#random.chance(0.1)) this.#send(open);
    });
  }

  #send(open: Open): void {
    const { world, entryPoint } = this.#spec;
    const node = this.#random.pick(world.names);
    const attempt = open.attempt;
    const longestMs = this.#spec.hasLongTimeouts ? patientTimeoutMs : this.#random.pick(timeoutsMs);
    const timeoutMs = longestMs * this.#random.between(0.5, 1);
    const again = (): void => this.#again(open, attempt);
    const [entrance, life] = [entryPoint(node), world.host(node).process];
    if (entrance === undefined || life === undefined) return again();
    open.sent += 1;
    life.run(() => this.#ask(node, entrance, open, timeoutMs));
    // The node may be gone by now, or stand still: then nobody answers.
    this.#later(timeoutMs * this.#random.between(0.7, 1.5) + againMsMax, again);
  }

  #ask(
    node: string,
    { calls, clock }: NonNullable<ReturnType<PoolClientsOptions['entryPoint']>>,
    open: Open,
    timeoutMs: number,
  ): void {
    const { world, observe } = this.#spec;
    const { wish, id, attempt } = open;
    const request = this.#all.nextRequest();
    const [deadlineMs, life] = [clock.nowMs() + timeoutMs, world.host(node).process];
    const stalledMs = life?.pausedMs ?? 0;
    observe({ kind: 'requestStarted', node, request, timeoutMs });
    const { method, args } = methodCallOf(wish);
    const call = { pool: wish.pool.name, method, args: encodeValue(args).slice(), route: wish.route };
    calls.call({ ...call, id, lowestPending: this.#session.lowestOpen, timeoutMs }, (outcome) => {
      const lateMs = clock.nowMs() - deadlineMs - fastestClock * ((life?.pausedMs ?? 0) - stalledMs);
      observe({ kind: 'requestEnded', node, request, code: outcome.ok ? 'OK' : outcome.error.code, lateMs });
      this.#ended(open, attempt, outcome);
    });
  }

  #ended(open: Open, attempt: number, outcome: Outcome<CallResult>): void {
    const call = formatCallId(open.id);
    if (!outcome.ok) {
      const { code, message, stateChanged } = outcome.error;
      if (stateChanged === 'no') open.refused += 1;
      // Of a call that is over for its caller nobody has to know any more.
      if (this.#open === open && this.#spec.pools().includes(open.wish.pool))
        this.#spec.observe({ kind: 'callFailed', call, code, message });
      return this.#again(open, attempt);
    }
    const { kind } = open.wish.action;
    if (kind !== 'read') this.#spec.acknowledged(call, open.wish.pool.name, targetContainersOf(open.wish));
    if (this.#open !== open) return;
    if (kind !== 'read' && open.lost === undefined && this.#random.chance(0.1)) {
      open.lost = outcome.value;
      return this.#again(open, attempt);
    }
    if (open.lost !== undefined)
      this.#spec.observe({ kind: 'answeredAgain', call, first: shown(open.lost), again: shown(outcome.value) });
    this.#answered(open, outcome.value);
  }

  #answered(open: Open, result: CallResult): void {
    const texts = replyTextsOf(result);
    for (const [at, { client }] of historyKeysOf(this.#session.name, open.wish).entries()) {
      const saw = texts[at] ?? 'nothing';
      this.#spec.observe({ kind: 'answered', order: { client, number: open.id.counter }, saw });
      if (open.wish.action.kind !== 'put') this.#lastSeen = saw;
    }
    this.#session.close(open.id);
    this.next();
  }

  /** Once for each attempt, whoever notices first that it came to nothing. */
  #again(open: Open, attempt: number): void {
    if (this.#open !== open || open.attempt !== attempt) return;
    open.attempt += 1;
    const isGone = !this.#spec.pools().includes(open.wish.pool);
    const isRefused = open.sent > 0 && open.refused === open.sent;
    const givesUp = isRefused && open.id.counter % givesUpEvery === 0;
    if (isGone || givesUp || this.#spec.world.timeline.nowMs > open.giveUpMs) {
      if (isRefused) this.#refused(open);
      this.#session.close(open.id);
      return this.next();
    }
    this.#later(this.#random.between(1, againMsMax), () => {
      if (this.#open === open) this.#send(open);
    });
  }

  #refused({ id, wish }: Open): void {
    const clients = historyKeysOf(this.#session.name, wish);
    const orders = clients.map(({ client }) => ({ client, number: id.counter }));
    this.#spec.observe({ kind: 'refused', call: formatCallId(id), orders });
  }

  #later(delayMs: number, run: () => void): void {
    this.#spec.world.timeline.after(delayMs, run);
  }
}

function shown(result: CallResult): string {
  return replyTextsOf(result).join(' | ');
}
