/**
 * Bootstraps a consensus group: exactly one manager may form it, after all seeds and known managers answered that none
 * exists. A dead manager blocks.
 *
 * A manager that finds no state of a group on its disk asks all seeds and all managers it knows:
 *
 *   there is a group, or there was one        -> wait to be added
 *   a seed or a manager does not answer       -> wait: it may have begun one
 *   a manager with a lower id is here         -> wait: that one begins
 *   none of these, for two rounds in a row    -> begin
 *
 * Everybody who is asked tells which managers it has heard of, those who asked it included, and these are asked, too.
 * So of two managers that share a seed the later one always learns of the earlier, and the earlier is asked by the
 * later before that one begins. Managers without a common seed know of each other through membership, which takes a
 * moment: hence two rounds.
 *
 * Death is no permission: a manager that begins is a group by itself, may acknowledge by itself, and has it all on its
 * disk when it comes back. So a manager that was ever here is waited for, dead or alive, until it answers, another one
 * answers at its address, or an operator says that there is no other group (`bootstrap` skips the questions). The
 * machine is over once this node belongs to a group.
 */
import { unreachable } from '../../base/assert.ts';
import type { TimerExpired, PersistFailed, Schedule } from '../../base/runtime/loop.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Peer } from '../../base/ports.ts';

export type GroupAnswer = {
  readonly id: NodeId;
  readonly eligible: boolean;
  readonly hasGroup: boolean;
  /** Of whom the one who answers has heard. */
  readonly managers: readonly Peer[];
};

export type GroupFormationInput =
  | { readonly kind: 'begin'; readonly seeds: readonly Address[]; readonly bootstrap: boolean }
  /** The managers that this node knows of, dead ones too, itself left out; told before each round. */
  | { readonly kind: 'managers'; readonly managers: readonly Peer[] }
  | { readonly kind: 'answered'; readonly round: number; readonly from: Address; readonly answer: GroupAnswer }
  | { readonly kind: 'unanswered'; readonly round: number; readonly from: Address }
  /** A manager that belongs to no group asked us. */
  | { readonly kind: 'askedBy'; readonly manager: Peer }
  /** Somebody has told of a leader. */
  | { readonly kind: 'heardOfGroup' }
  /** This node belongs to a group now, however that came about. */
  | { readonly kind: 'belongs' };

export type FormationBlocker = 'found' | 'seed' | 'lower' | 'silent';

export type GroupFormationEffect =
  | { readonly kind: 'ask'; readonly round: number; readonly to: Address }
  /** The owner answers with `managers`. */
  | { readonly kind: 'look' }
  | { readonly kind: 'form' }
  /** Said once for each new reason. */
  | { readonly kind: 'waiting'; readonly why: FormationBlocker; readonly detail: string };

type Round = {
  readonly number: number;
  readonly open: Map<string, Address>;
  readonly asked: Set<string>;
  readonly answers: GroupAnswer[];
  readonly silent: Address[];
};

const clearRoundsNeeded = 2;
const knownMax = 256;

type Decided = GroupFormationEffect | Schedule<'round'>;

export class GroupFormation {
  readonly #self: NodeId;
  readonly #roundMs: number;
  #seeds: readonly Address[] = [];
  /** Every manager that was ever here, by what this node was told or asked. */
  readonly #known = new Map<NodeId, Address>();
  #round: Round | undefined;
  #rounds = 0;
  #clearRounds = 0;
  /** Even if all of its members are gone: what they agreed on is on their disks, and only they can bring it back. */
  #existed = false;
  #isOver = false;
  #why: FormationBlocker | undefined;

  constructor(self: NodeId, roundMs: number) {
    this.#self = self;
    this.#roundMs = roundMs;
  }

  step(nowMs: number, input: GroupFormationInput | TimerExpired<'round'> | PersistFailed): readonly Decided[] {
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
        this.#know(input.manager);
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

  #know({ id, host, port }: Peer): void {
    if (id !== this.#self && (this.#known.has(id) || this.#known.size < knownMax)) this.#known.set(id, { host, port });
  }

  #ask(nowMs: number, managers: readonly Peer[]): readonly Decided[] {
    for (const manager of managers) this.#know(manager);
    const round = { number: ++this.#rounds, open: new Map(), asked: new Set<string>(), answers: [], silent: [] };
    this.#round = round;
    const asks = [...this.#seeds, ...this.#known.values()].flatMap((to) => this.#askIn(round, to));
    return asks.length > 0 ? asks : this.#judge(nowMs);
  }

  #askIn(round: Round, to: Address): readonly Decided[] {
    if (round.asked.has(keyOf(to))) return [];
    round.asked.add(keyOf(to));
    round.open.set(keyOf(to), to);
    return [{ kind: 'ask', round: round.number, to }];
  }

  #answered(nowMs: number, input: GroupFormationInput & { kind: 'answered' }): readonly Decided[] {
    const { from, answer } = input;
    // Whoever was known at this address is there no more.
    for (const [id, at] of this.#known) if (id !== answer.id && keyOf(at) === keyOf(from)) this.#known.delete(id);
    if (answer.eligible) this.#know({ ...from, id: answer.id });
    for (const manager of answer.managers) if (!this.#known.has(manager.id)) this.#know(manager);
    const round = this.#round;
    if (round === undefined || !this.#settle(input)) return [];
    round.answers.push(answer);
    const further = [...this.#known.values()].flatMap((to) => this.#askIn(round, to));
    return further.length > 0 ? further : this.#judge(nowMs);
  }

  #settle({ round, from }: { readonly round: number; readonly from: Address }): boolean {
    return this.#round?.number === round && this.#round.open.delete(keyOf(from));
  }

  #judge(nowMs: number): readonly Decided[] {
    const round = this.#round;
    if (round === undefined || round.open.size > 0) return [];
    this.#round = undefined;
    const why = this.#obstacle(round);
    // Who asked us in the meantime is asked in the next round.
    const isClear = why === undefined && [...this.#known.values()].every((at) => round.asked.has(keyOf(at)));
    this.#clearRounds = isClear ? this.#clearRounds + 1 : 0;
    if (this.#clearRounds >= (this.#seeds.length === 0 ? 1 : clearRoundsNeeded)) return this.#form();
    const again: Decided = { kind: 'schedule', atMs: nowMs + this.#roundMs, timer: 'round' };
    if (why === undefined || why.why === this.#why) return [again];
    this.#why = why.why;
    return [{ kind: 'waiting', ...why }, again];
  }

  #obstacle({ answers, silent }: Round): { readonly why: FormationBlocker; readonly detail: string } | undefined {
    this.#existed ||= answers.some(({ hasGroup }) => hasGroup);
    if (this.#existed) return { why: 'found', detail: 'there is a group; it will add this manager' };
    const seed = silent.find((address) => this.#seeds.some((one) => keyOf(one) === keyOf(address)));
    if (seed !== undefined) return { why: 'seed', detail: `the seed ${keyOf(seed)} has not answered` };
    if (silent.length > 0) return { why: 'silent', detail: silence(silent) };
    const isFirst = answers.every(({ id, eligible }) => !eligible || id >= this.#self);
    return isFirst ? undefined : { why: 'lower', detail: 'a manager with a lower id begins the group' };
  }

  #form(): readonly Decided[] {
    this.#isOver = true;
    return [{ kind: 'form' }];
  }
}

function silence(silent: readonly Address[]): string {
  const where = silent.map(keyOf).join(' ');
  return `${where} was here and is silent: it may have begun the group. Start it again, or, if its disk is lost, start one manager with --bootstrap`;
}

function keyOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
