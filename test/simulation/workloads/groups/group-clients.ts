/**
 * Clients of a simulated group: one command at a time, retried under the same number until the reply or a limit. They
 * reach isolated nodes too.
 */
import { type Outcome, success } from '../../../../src/base/errors.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { RegisterAction } from '../../checking/register-model.ts';
import type { Observation } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { type CellReply, encodeCellCommand, type CellCommand } from './replicated-cells.ts';
import type { GroupNode } from './group-node.ts';

/** A run draws one of these lists: all clients use one key, or several. */
const keyLists = [['a'], ['a', 'b'], ['a', 'b', 'c', 'd']];
/** A run draws one of them: many commands, or few. */
const pausesMs = [60, 200, 400];
const quietPauseMs = 8_000;
const burstMs = 5_000;
const attemptMs = 1_500;
const retryLimitMs = 8_000;
const retryMsMax = 150;
/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;

export type GroupClientsOptions = {
  readonly world: SimulatedWorld<GroupNode>;
  readonly random: Random;
  readonly count: number;
  /** Clients send commands rarely. */
  readonly areQuiet: boolean;
  readonly observe: (observation: Observation) => void;
};

export class GroupClients {
  readonly #options: GroupClientsOptions;
  readonly #pauseMsMax: number;
  readonly #inBursts: boolean;
  readonly keys: readonly string[];
  #isStopped = false;
  #requests = 0;

  constructor(options: GroupClientsOptions) {
    this.#options = options;
    const random = options.random.fork('pause');
    this.#pauseMsMax = options.areQuiet ? quietPauseMs : random.pick(pausesMs);
    this.#inBursts = random.chance(0.5);
    this.keys = random.pick(keyLists);
  }

  start(): void {
    const { count, random } = this.#options;
    for (let at = 1; at <= count; at++) new Client(`c${at}`, random.fork(`client/${at}`), this.#options, this).next();
  }

  stop(): void {
    this.#isStopped = true;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /**
   * How long a client waits before its next command. In some runs all clients are silent at times: then logs are
   * equal.
   */
  pauseMs(random: Random): number {
    const pauseMs = random.between(0, this.#pauseMsMax);
    const phase = (this.#options.world.timeline.nowMs + pauseMs) / burstMs;
    const isSilentPhase = this.#inBursts && Math.floor(phase) % 2 === 1;
    return isSilentPhase ? pauseMs + (1 - (phase % 1)) * burstMs : pauseMs;
  }

  nextRequest(): number {
    return ++this.#requests;
  }
}

class Client {
  readonly #name: string;
  readonly #random: Random;
  readonly #options: GroupClientsOptions;
  readonly #all: GroupClients;
  #number = 0;
  #attempt = 0;
  #open: CellCommand | undefined;
  #giveUpMs = 0;
  /** The node that gets its requests. */
  #node: string;
  #lastRead = '';

  constructor(name: string, random: Random, options: GroupClientsOptions, all: GroupClients) {
    this.#name = name;
    this.#random = random;
    this.#options = options;
    this.#all = all;
    this.#node = random.pick(options.world.names);
  }

  next(): void {
    this.#open = undefined;
    this.#schedule(this.#all.pauseMs(this.#random), () => {
      if (this.#all.isStopped) return;
      const action = this.#draw();
      const key = this.#random.pick(this.#all.keys);
      const command: CellCommand = { client: this.#name, number: ++this.#number, attempt: 1, key, action };
      this.#attempt = 1;
      this.#giveUpMs = this.#options.world.timeline.nowMs + retryLimitMs;
      this.#options.observe({ kind: 'called', command });
      this.#send(command);
    });
  }

  #draw(): RegisterAction {
    const draw = this.#random.fraction();
    const value = `<${this.#name}/${this.#number + 1}>`;
    if (draw < 0.4) return { kind: 'read' };
    if (draw < 0.6) return { kind: 'put', value };
    if (draw < 0.8) return { kind: 'append', value };
    return { kind: 'swap', expected: this.#lastRead, value };
  }

  #send(command: CellCommand): void {
    this.#open = command;
    const { world } = this.#options;
    const [groupNode, hostProcess] = [world.program(this.#node), world.host(this.#node).process];
    if (groupNode?.handle === undefined || hostProcess === undefined) return this.#retryElsewhere(command, undefined);
    hostProcess.run(() => this.#request(groupNode, command));
    // A node that crashed or is paused does not reply. Some clients wait longer than others.
    this.#schedule(this.#random.between(0.1, 1.5) * attemptMs, () => {
      if (this.#open === command) this.#retryElsewhere(command, undefined);
    });
  }

  #request(groupNode: GroupNode, command: CellCommand): void {
    const { world, observe } = this.#options;
    const { name: node, clock, handle } = groupNode;
    const request = this.#all.nextRequest();
    const timeoutMs = this.#random.between(0.2, 1) * attemptMs;
    const [deadlineMs, hostProcess] = [clock.nowMs() + timeoutMs, world.host(node).process];
    const pausedBeforeMs = hostProcess?.pausedMs ?? 0;
    observe({ kind: 'requestStarted', node, request, timeoutMs });
    const ended = (outcome: Outcome<unknown>): void => {
      const lateMs = clock.nowMs() - deadlineMs - fastestClock * ((hostProcess?.pausedMs ?? 0) - pausedBeforeMs);
      observe({ kind: 'requestEnded', node, request, code: outcome.ok ? 'OK' : outcome.error.code, lateMs });
    };
    if (command.action.kind === 'read') {
      const read = (): void => this.#replied(command, { kind: 'done', returned: groupNode.cells.read(command.key) });
      // A valid leader lease is a read barrier too.
      if (this.#random.chance(0.5) && handle?.leadership.isLeading() === true) {
        ended(success(undefined));
        return read();
      }
      handle?.readBarrier(timeoutMs, (outcome) => {
        ended(outcome);
        if (outcome.ok) read();
        else this.#failed(groupNode, command);
      });
      return;
    }
    handle?.propose(encodeCellCommand(command), timeoutMs, (outcome) => {
      ended(outcome);
      if (outcome.ok) {
        const { index, fence, result } = outcome.value;
        observe({ kind: 'committed', node, command, index, fence });
        this.#replied(command, result);
      } else {
        const { code, stateChanged } = outcome.error;
        observe({ kind: 'attemptFailed', command, code, stateChanged });
        this.#failed(groupNode, command);
      }
    });
  }

  #replied(command: CellCommand, reply: CellReply): void {
    if (this.#open?.number !== command.number || reply.kind !== 'done') return;
    this.#lastRead = reply.returned;
    this.#options.observe({ kind: 'replied', command, returned: reply.returned });
    this.next();
  }

  #failed(groupNode: GroupNode, command: CellCommand): void {
    if (this.#open === command) this.#retryElsewhere(command, groupNode.handle?.view().leader);
  }

  /** Follows the leader hint, or picks a random node. */
  #retryElsewhere(command: CellCommand, hint: string | undefined): void {
    const { world } = this.#options;
    this.#open = { ...command, attempt: ++this.#attempt };
    const next = this.#open;
    const hinted = this.#random.chance(0.85) ? world.names.find((name) => world.program(name)?.id === hint) : undefined;
    this.#node = hinted ?? this.#random.pick(world.names);
    if (world.timeline.nowMs > this.#giveUpMs) return this.next();
    this.#schedule(this.#random.between(1, retryMsMax), () => {
      if (this.#open === next) this.#send(next);
    });
  }

  #schedule(delayMs: number, run: () => void): void {
    this.#options.world.timeline.after(delayMs, run);
  }
}
