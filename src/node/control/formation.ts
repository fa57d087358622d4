/**
 * How a group of managers comes into being: exactly one manager may begin it, alone, and all others are added to it
 * through its log. A manager that finds no state of a group on its disk asks all seeds and all managers it knows:
 *
 *   there is a group, or there was one -> wait to be added
 *   a seed has never answered          -> wait: it may belong to one, on the other side of a cut
 *   a manager with a lower id is here  -> wait: that one begins
 *   none of these                      -> begin
 *
 * Everybody who is asked tells which managers it has heard of, those who asked it included, and these are asked, too. So
 * of two managers that share a seed the later one always learns of the earlier, and the earlier is asked by the later
 * before that one begins. Managers without a common seed know of each other through membership, which takes a moment:
 * nobody begins before two rounds in a row found nothing. `bootstrap` skips the questions: an operator says that there is no other group. The machine never looks
 * at who is alive beyond what it is told, and is over once this node belongs to a group.
 */
import { unreachable } from '../../base/assert.ts';
import type { Expired, PersistFailed, Schedule } from '../../base/loop.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Peer } from '../../base/ports.ts';

export type Acquaintance = Address & { readonly id: NodeId; readonly isGone: boolean };

export type GroupAnswer = {
  readonly id: NodeId;
  readonly eligible: boolean;
  readonly hasGroup: boolean;
  /** Of whom the one who answers has heard. */
  readonly managers: readonly Peer[];
};

export type FormationInput =
  | { readonly kind: 'begin'; readonly seeds: readonly Address[]; readonly bootstrap: boolean }
  /** The managers that this node knows of, itself left out; told before each round. */
  | { readonly kind: 'managers'; readonly managers: readonly Acquaintance[] }
  | { readonly kind: 'answered'; readonly round: number; readonly from: Address; readonly answer: GroupAnswer }
  | { readonly kind: 'unanswered'; readonly round: number; readonly from: Address }
  /** A manager that belongs to no group asked us. */
  | { readonly kind: 'askedBy'; readonly id: NodeId }
  /** Somebody has told of a leader. */
  | { readonly kind: 'heardOfGroup' }
  /** This node belongs to a group now, however that came about. */
  | { readonly kind: 'belongs' };

export type Waiting = 'found' | 'seed' | 'lower' | 'silent';

export type FormationEffect =
  | { readonly kind: 'ask'; readonly round: number; readonly to: Address }
  /** The owner answers with `managers`. */
  | { readonly kind: 'look' }
  | { readonly kind: 'form' }
  /** Said once for each new reason. */
  | { readonly kind: 'waiting'; readonly why: Waiting; readonly detail: string };

type Round = {
  readonly number: number;
  readonly open: Map<string, Address>;
  readonly asked: Set<string>;
  readonly answers: GroupAnswer[];
  readonly silent: Address[];
};

/** One that waits asks in each round; one that has not asked for so long is gone. */
const askerRounds = 5;
const clearRoundsNeeded = 2;
const askersMax = 64;
const askedMax = 256;

type Decided = FormationEffect | Schedule<'round'>;

export class Formation {
  readonly #self: NodeId;
  readonly #roundMs: number;
  #seeds: readonly Address[] = [];
  /** Seeds that once answered: which member stands behind them is known, so its death can be known, too. */
  readonly #met = new Map<string, NodeId>();
  #round: Round | undefined;
  #rounds = 0;
  #clearRounds = 0;
  /** Managers with a lower id that asked us, with the round in which they did. */
  readonly #lower = new Map<NodeId, number>();
  /** Even if all of its members are gone: what they agreed on is on their disks, and only they can bring it back. */
  #existed = false;
  readonly #gone = new Set<NodeId>();
  #isOver = false;
  #why: Waiting | undefined;

  constructor(self: NodeId, roundMs: number) {
    this.#self = self;
    this.#roundMs = roundMs;
  }

  step(nowMs: number, input: FormationInput | Expired<'round'> | PersistFailed): readonly Decided[] {
    if (this.#isOver) return [];
    switch (input.kind) {
      case 'begin':
        this.#seeds = input.seeds;
        return input.bootstrap ? this.#form() : [{ kind: 'look' }];
      case 'managers':
        return this.#ask(nowMs, input.managers);
      case 'answered':
        return this.#answered(nowMs, input);
      case 'unanswered':
        if (this.#settle(input)) this.#round?.silent.push(input.from);
        return this.#judge(nowMs);
      case 'askedBy':
        if (input.id < this.#self && this.#lower.size < askersMax) this.#lower.set(input.id, this.#rounds);
        return [];
      case 'heardOfGroup':
        this.#existed = true;
        return [];
      case 'belongs':
        this.#isOver = true;
        return [];
      case 'expired':
        return [{ kind: 'look' }];
      case 'persistFailed':
        return [];
      default:
        return unreachable(input);
    }
  }

  #ask(nowMs: number, managers: readonly Acquaintance[]): readonly Decided[] {
    for (const [id, round] of this.#lower) if (round < this.#rounds - askerRounds) this.#lower.delete(id);
    this.#gone.clear();
    for (const { id, isGone } of managers) if (isGone) this.#gone.add(id);
    const open = new Map<string, Address>();
    for (const { host, port } of [...this.#seeds, ...managers.filter(({ isGone }) => !isGone)]) {
      const behind = this.#met.get(keyOf({ host, port }));
      if (behind === undefined || !this.#gone.has(behind)) open.set(keyOf({ host, port }), { host, port });
    }
    const number = ++this.#rounds;
    this.#round = { number, open, asked: new Set(open.keys()), answers: [], silent: [] };
    if (open.size === 0) return this.#judge(nowMs);
    return [...open.values()].map((to) => ({ kind: 'ask', round: number, to }));
  }

  #answered(nowMs: number, input: FormationInput & { kind: 'answered' }): readonly Decided[] {
    this.#met.set(keyOf(input.from), input.answer.id);
    if (!this.#settle(input)) return [];
    const round = this.#round as Round;
    round.answers.push(input.answer);
    const further = input.answer.managers.filter(({ id }) => id !== this.#self && !this.#gone.has(id));
    const effects = further.flatMap(({ host, port }) => this.#askAlso(round, { host, port }));
    return effects.length > 0 ? effects : this.#judge(nowMs);
  }

  #askAlso(round: Round, to: Address): readonly Decided[] {
    if (round.asked.has(keyOf(to)) || round.asked.size >= askedMax) return [];
    round.asked.add(keyOf(to));
    round.open.set(keyOf(to), to);
    return [{ kind: 'ask', round: round.number, to }];
  }

  #settle({ round, from }: { readonly round: number; readonly from: Address }): boolean {
    return this.#round?.number === round && this.#round.open.delete(keyOf(from));
  }

  #judge(nowMs: number): readonly Decided[] {
    const round = this.#round;
    if (round === undefined || round.open.size > 0) return [];
    this.#round = undefined;
    const why = this.#obstacle(round);
    this.#clearRounds = why === undefined ? this.#clearRounds + 1 : 0;
    if (why === undefined && this.#clearRounds >= (this.#seeds.length === 0 ? 1 : clearRoundsNeeded))
      return this.#form();
    const again: Decided = { kind: 'schedule', atMs: nowMs + this.#roundMs, timer: 'round' };
    if (why === undefined || why.why === this.#why) return [again];
    this.#why = why.why;
    return [{ kind: 'waiting', ...why }, again];
  }

  #obstacle({ answers, silent }: Round): { readonly why: Waiting; readonly detail: string } | undefined {
    this.#existed ||= answers.some(({ hasGroup }) => hasGroup);
    if (this.#existed) return { why: 'found', detail: 'there is a group; it will add this manager' };
    const seed = silent.find((address) => this.#seeds.some((one) => keyOf(one) === keyOf(address)));
    if (seed !== undefined) return { why: 'seed', detail: `the seed ${keyOf(seed)} has not answered` };
    if (silent.length > 0) return { why: 'silent', detail: `the manager at ${silent.map(keyOf).join(' ')} is silent` };
    const isFirst = answers.every(({ id, eligible }) => !eligible || id >= this.#self);
    if (!isFirst || this.#lower.size > 0) return { why: 'lower', detail: 'a manager with a lower id begins the group' };
    return undefined;
  }

  #form(): readonly Decided[] {
    this.#isOver = true;
    return [{ kind: 'form' }];
  }
}

function keyOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
