/**
 * Clients of a simulated group: one command at a time, retried under the same number until answered or given up. Reach
 * isolated nodes too.
 */
import { type Outcome, success } from '../../../../src/base/errors.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { RegisterAction } from '../../checking/register-model.ts';
import type { Observation } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { type CellReply, encodeCellCommand, type CellCommand } from './replicated-cells.ts';
import type { GroupNode } from './group-node.ts';

/** One of these lists for each run: all on one cell, or side by side. */
const keyLists = [['a'], ['a', 'b'], ['a', 'b', 'c', 'd']];
/** One of them for each run: many orders, or few. */
const pausesMs = [60, 200, 400];
const quietPauseMs = 8_000;
const burstMs = 5_000;
const attemptMs = 1_500;
const retryLimitMs = 8_000;
const againMsMax = 150;
/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;

export type GroupClientsOptions = {
  readonly world: SimulatedWorld<GroupNode>;
  readonly random: Random;
  readonly count: number;
  /** They want something now and then only. */
  readonly areQuiet: boolean;
  readonly observe: (observation: Observation) => void;
};

export class GroupClients {
  readonly #spec: GroupClientsOptions;
  readonly #pauseMsMax: number;
  readonly #inBursts: boolean;
  readonly keys: readonly string[];
  #resting = false;
  #requests = 0;

  constructor(spec: GroupClientsOptions) {
    this.#spec = spec;
    const random = spec.random.fork('pause');
    this.#pauseMsMax = spec.areQuiet ? quietPauseMs : random.pick(pausesMs);
    this.#inBursts = random.chance(0.5);
    this.keys = random.pick(keyLists);
  }

  start(): void {
    const { count, random } = this.#spec;
    for (let at = 1; at <= count; at++) new Client(`c${at}`, random.fork(`client/${at}`), this.#spec, this).next();
  }

  stop(): void {
    this.#resting = true;
  }

  get resting(): boolean {
    return this.#resting;
  }

  /** How long a client waits before its next order. In some runs all are silent at times: then logs are equal. */
  pauseMs(random: Random): number {
    const pauseMs = random.between(0, this.#pauseMsMax);
    const phase = (this.#spec.world.timeline.nowMs + pauseMs) / burstMs;
    const isSilent = this.#inBursts && Math.floor(phase) % 2 === 1;
    return isSilent ? pauseMs + (1 - (phase % 1)) * burstMs : pauseMs;
  }

  nextRequest(): number {
    return ++this.#requests;
  }
}

class Client {
  readonly #name: string;
  readonly #random: Random;
  readonly #spec: GroupClientsOptions;
  readonly #all: GroupClients;
  #number = 0;
  #attempt = 0;
  #open: CellCommand | undefined;
  #giveUpMs = 0;
  /** Whom it asks. */
  #node: string;
  #lastSeen = '';

  constructor(name: string, random: Random, spec: GroupClientsOptions, all: GroupClients) {
    this.#name = name;
    this.#random = random;
    this.#spec = spec;
    this.#all = all;
    this.#node = random.pick(spec.world.names);
  }

  next(): void {
    this.#open = undefined;
    this.#later(this.#all.pauseMs(this.#random), () => {
      if (this.#all.resting) return;
      const action = this.#draw();
      const key = this.#random.pick(this.#all.keys);
      const order: CellCommand = { client: this.#name, number: ++this.#number, attempt: 1, key, action };
      this.#attempt = 1;
      this.#giveUpMs = this.#spec.world.timeline.nowMs + retryLimitMs;
      this.#spec.observe({ kind: 'called', order });
      this.#send(order);
    });
  }

  #draw(): RegisterAction {
    const draw = this.#random.fraction();
    const value = `<${this.#name}/${this.#number + 1}>`;
    if (draw < 0.4) return { kind: 'read' };
    if (draw < 0.6) return { kind: 'put', value };
    if (draw < 0.8) return { kind: 'append', value };
    return { kind: 'swap', expected: this.#lastSeen, value };
  }

  #send(order: CellCommand): void {
    this.#open = order;
    const { world } = this.#spec;
    const [seat, life] = [world.program(this.#node), world.host(this.#node).process];
    if (seat?.handle === undefined || life === undefined) return this.#elsewhere(order, undefined);
    life.run(() => this.#ask(seat, order));
    // The node may be down or stand still: then nobody answers. Some clients wait for it longer than others.
    this.#later(this.#random.between(0.1, 1.5) * attemptMs, () => {
      if (this.#open === order) this.#elsewhere(order, undefined);
    });
  }

  #ask(seat: GroupNode, order: CellCommand): void {
    const { world, observe } = this.#spec;
    const { name: node, clock, handle } = seat;
    const request = this.#all.nextRequest();
    const timeoutMs = this.#random.between(0.2, 1) * attemptMs;
    const [deadlineMs, life] = [clock.nowMs() + timeoutMs, world.host(node).process];
    const stalledMs = life?.pausedMs ?? 0;
    observe({ kind: 'requestStarted', node, request, timeoutMs });
    const ended = (outcome: Outcome<unknown>): void => {
      const lateMs = clock.nowMs() - deadlineMs - fastestClock * ((life?.pausedMs ?? 0) - stalledMs);
      observe({ kind: 'requestEnded', node, request, code: outcome.ok ? 'OK' : outcome.error.code, lateMs });
    };
    if (order.action.kind === 'read') {
      const read = (): void => this.#answered(order, { kind: 'done', saw: seat.ledger.read(order.key) });
      // A lease that holds is a barrier too.
      if (this.#random.chance(0.5) && handle?.leadership.isLeading() === true) {
        ended(success(undefined));
        return read();
      }
      handle?.readBarrier(timeoutMs, (outcome) => {
        ended(outcome);
        if (outcome.ok) read();
        else this.#failed(seat, order);
      });
      return;
    }
    handle?.propose(encodeCellCommand(order), timeoutMs, (outcome) => {
      ended(outcome);
      if (outcome.ok) {
        const { index, fence, result } = outcome.value;
        observe({ kind: 'agreed', node, order, index, fence });
        this.#answered(order, result);
      } else {
        const { code, stateChanged } = outcome.error;
        observe({ kind: 'attemptFailed', order, code, stateChanged });
        this.#failed(seat, order);
      }
    });
  }

  #answered(order: CellCommand, answer: CellReply): void {
    if (this.#open?.number !== order.number || answer.kind !== 'done') return;
    this.#lastSeen = answer.saw;
    this.#spec.observe({ kind: 'answered', order, saw: answer.saw });
    this.next();
  }

  #failed(seat: GroupNode, order: CellCommand): void {
    if (this.#open === order) this.#elsewhere(order, seat.handle?.view().leader);
  }

  /** Follows the hint, or tries anybody. */
  #elsewhere(order: CellCommand, hint: string | undefined): void {
    const { world } = this.#spec;
    this.#open = { ...order, attempt: ++this.#attempt };
    const again = this.#open;
    const named = this.#random.chance(0.85) ? world.names.find((name) => world.program(name)?.id === hint) : undefined;
    this.#node = named ?? this.#random.pick(world.names);
    if (world.timeline.nowMs > this.#giveUpMs) return this.next();
    this.#later(this.#random.between(1, againMsMax), () => {
      if (this.#open === again) this.#send(again);
    });
  }

  #later(delayMs: number, run: () => void): void {
    this.#spec.world.timeline.after(delayMs, run);
  }
}
