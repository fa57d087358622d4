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
const longTimeoutMs = 20_000;
const retryLimitMs = 16_000;
const retryMsMax = 300;
/** Of so many calls one is given up once all its attempts ended with `stateChanged: 'no'`. */
const givesUpEvery = 4;
/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;

export type PoolClientsOptions = {
  readonly world: SimulatedWorld<unknown>;
  readonly random: Random;
  readonly count: number;
  /** Timeouts are long enough for every call to succeed without faults. */
  readonly hasLongTimeouts: boolean;
  readonly observe: (observation: Observation) => void;
  /** Pools that can be called now. */
  readonly pools: () => readonly PoolShape[];
  /** The calls port of a node; undefined while the node is down or not ready. */
  readonly entryPoint: (node: string) => { readonly calls: ContainerCalls; readonly clock: Clock } | undefined;
  /** A caller has the reply of a write. `containers` if the route names them. */
  readonly acknowledged: (call: string, pool: string, containers: readonly number[] | undefined) => void;
};

export class PoolClients {
  readonly #options: PoolClientsOptions;
  readonly #pauseMsMax: number;
  #isStopped = false;
  #requests = 0;

  constructor(options: PoolClientsOptions) {
    this.#options = options;
    this.#pauseMsMax = options.random.fork('pause').pick(pausesMs);
  }

  start(): void {
    const { random, count } = this.#options;
    for (let at = 1; at <= count; at++) {
      const session = new SimulatedSession(`c${at}`);
      for (let lane = 1; lane <= lanesEach; lane++)
        new CallLane(session, random.fork(`client/${at}/${lane}`), this.#options, this).next();
    }
  }

  stop(): void {
    this.#isStopped = true;
  }

  get isStopped(): boolean {
    return this.#isStopped;
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
  readonly plan: PlannedCellCall;
  readonly giveUpMs: number;
  /** A reply that this client has discarded, as if it were lost. */
  discarded: CallResult | undefined;
  attempt: number;
  /** Requests, and those of them that ended with `stateChanged: 'no'`. */
  sent: number;
  refused: number;
};

class CallLane {
  readonly #session: SimulatedSession;
  readonly #random: Random;
  readonly #options: PoolClientsOptions;
  readonly #all: PoolClients;
  #open: Open | undefined;
  #lastRead = '';

  constructor(session: SimulatedSession, random: Random, options: PoolClientsOptions, all: PoolClients) {
    this.#session = session;
    this.#random = random;
    this.#options = options;
    this.#all = all;
  }

  next(): void {
    this.#open = undefined;
    this.#schedule(this.#random.between(0, this.#all.pauseMsMax), () => {
      if (this.#all.isStopped) return;
      const pools = this.#options.pools();
      if (pools.length === 0) return this.next();
      const id = this.#session.begin();
      const plan = drawCellCall(this.#random, this.#random.pick(pools), formatCallId(id), this.#lastRead);
      const giveUpMs = this.#options.world.timeline.nowMs + retryLimitMs;
      const open: Open = { id, plan, giveUpMs, discarded: undefined, attempt: 1, sent: 0, refused: 0 };
      this.#open = open;
      for (const { client, key } of historyKeysOf(this.#session.name, plan))
        this.#options.observe({
          kind: 'called',
          command: { client, number: id.counter, attempt: 1, key, action: plan.action },
        });
      this.#send(open);
      // A duplicate of a call in flight: both must get the same reply.
      if (this.#random.chance(0.1)) this.#send(open);
    });
  }

  #send(open: Open): void {
    const { world, entryPoint } = this.#options;
    const node = this.#random.pick(world.names);
    const attempt = open.attempt;
    const longestMs = this.#options.hasLongTimeouts ? longTimeoutMs : this.#random.pick(timeoutsMs);
    const timeoutMs = longestMs * this.#random.between(0.5, 1);
    const retry = (): void => this.#retry(open, attempt);
    const [access, hostProcess] = [entryPoint(node), world.host(node).process];
    if (access === undefined || hostProcess === undefined) return retry();
    open.sent += 1;
    hostProcess.run(() => this.#request(node, access, open, timeoutMs));
    // A node that crashed or is paused does not reply.
    this.#schedule(timeoutMs * this.#random.between(0.7, 1.5) + retryMsMax, retry);
  }

  #request(
    node: string,
    { calls, clock }: NonNullable<ReturnType<PoolClientsOptions['entryPoint']>>,
    open: Open,
    timeoutMs: number,
  ): void {
    const { world, observe } = this.#options;
    const { plan, id, attempt } = open;
    const request = this.#all.nextRequest();
    const [deadlineMs, hostProcess] = [clock.nowMs() + timeoutMs, world.host(node).process];
    const pausedBeforeMs = hostProcess?.pausedMs ?? 0;
    observe({ kind: 'requestStarted', node, request, timeoutMs });
    const { method, args } = methodCallOf(plan);
    const call = { pool: plan.pool.name, method, args: encodeValue(args).slice(), route: plan.route };
    calls.call({ ...call, id, lowestPending: this.#session.lowestOpen, timeoutMs }, (outcome) => {
      const lateMs = clock.nowMs() - deadlineMs - fastestClock * ((hostProcess?.pausedMs ?? 0) - pausedBeforeMs);
      observe({ kind: 'requestEnded', node, request, code: outcome.ok ? 'OK' : outcome.error.code, lateMs });
      this.#onOutcome(open, attempt, outcome);
    });
  }

  #onOutcome(open: Open, attempt: number, outcome: Outcome<CallResult>): void {
    const call = formatCallId(open.id);
    if (!outcome.ok) {
      const { code, message, stateChanged } = outcome.error;
      if (stateChanged === 'no') open.refused += 1;
      // Errors of a call that its client has given up, or of a deleted pool, are not observed.
      if (this.#open === open && this.#options.pools().includes(open.plan.pool))
        this.#options.observe({ kind: 'callFailed', call, code, message });
      return this.#retry(open, attempt);
    }
    const { kind } = open.plan.action;
    if (kind !== 'read') this.#options.acknowledged(call, open.plan.pool.name, targetContainersOf(open.plan));
    if (this.#open !== open) return;
    if (kind !== 'read' && open.discarded === undefined && this.#random.chance(0.1)) {
      open.discarded = outcome.value;
      return this.#retry(open, attempt);
    }
    if (open.discarded !== undefined)
      this.#options.observe({
        kind: 'repliedAgain',
        call,
        first: formatReply(open.discarded),
        second: formatReply(outcome.value),
      });
    this.#onReply(open, outcome.value);
  }

  #onReply(open: Open, result: CallResult): void {
    const texts = replyTextsOf(result);
    for (const [at, { client }] of historyKeysOf(this.#session.name, open.plan).entries()) {
      const returned = texts[at] ?? 'nothing';
      this.#options.observe({ kind: 'replied', command: { client, number: open.id.counter }, returned });
      if (open.plan.action.kind !== 'put') this.#lastRead = returned;
    }
    this.#session.close(open.id);
    this.next();
  }

  /** At most once for each attempt: its error and its timeout both call this. */
  #retry(open: Open, attempt: number): void {
    if (this.#open !== open || open.attempt !== attempt) return;
    open.attempt += 1;
    const isGone = !this.#options.pools().includes(open.plan.pool);
    const isRefused = open.sent > 0 && open.refused === open.sent;
    const givesUp = isRefused && open.id.counter % givesUpEvery === 0;
    if (isGone || givesUp || this.#options.world.timeline.nowMs > open.giveUpMs) {
      if (isRefused) this.#observeRefusal(open);
      this.#session.close(open.id);
      return this.next();
    }
    this.#schedule(this.#random.between(1, retryMsMax), () => {
      if (this.#open === open) this.#send(open);
    });
  }

  #observeRefusal({ id, plan }: Open): void {
    const clients = historyKeysOf(this.#session.name, plan);
    const commands = clients.map(({ client }) => ({ client, number: id.counter }));
    this.#options.observe({ kind: 'callRefused', call: formatCallId(id), commands });
  }

  #schedule(delayMs: number, run: () => void): void {
    this.#options.world.timeline.after(delayMs, run);
  }
}

function formatReply(result: CallResult): string {
  return replyTextsOf(result).join(' | ');
}
