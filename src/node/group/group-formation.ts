/**
 * Bootstraps a consensus group: exactly one manager may create it, after all seeds and known managers have replied that
 * none exists. A dead manager blocks.
 *
 * A manager without group state on its disk sends requests to all seeds and all managers it knows, in rounds:
 *
 *   a group exists or existed                      -> wait to be added
 *   a seed or a manager does not reply             -> wait: it may have created a group
 *   a manager with a lower id takes part           -> wait: that one creates the group
 *   none of these, in two rounds one after another -> create the group
 *
 * Each reply lists the managers that its sender knows, requesters included, and these get requests, too. So of two
 * managers that share a seed the later one always learns of the earlier, and sends it a request before it creates a
 * group. Managers without a common seed learn of each other through membership, which takes a moment: hence two rounds.
 *
 * A dead manager still blocks: a manager that created a group may have acknowledged writes alone and has them on its
 * disk when it returns. So each manager that was ever known must reply, unless another one replies at its address, or
 * an operator states that no other group exists (`bootstrap` skips the requests). The machine stops once this node is
 * in a group.
 */
import { unreachable } from '../../base/assert.ts';
import type { TimerExpired, PersistFailed, Schedule } from '../../base/runtime/loop.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Peer } from '../../base/ports.ts';

export type GroupReply = {
  readonly id: NodeId;
  readonly eligible: boolean;
  readonly hasGroup: boolean;
  /** The managers that the sender of the reply knows. */
  readonly managers: readonly Peer[];
};

export type GroupFormationInput =
  | { readonly kind: 'start'; readonly seeds: readonly Address[]; readonly bootstrap: boolean }
  /** The managers that membership knows, dead ones included, this node excluded. Fed before each round. */
  | { readonly kind: 'managers'; readonly managers: readonly Peer[] }
  | { readonly kind: 'replied'; readonly round: number; readonly from: Address; readonly reply: GroupReply }
  | { readonly kind: 'requestFailed'; readonly round: number; readonly from: Address }
  /** A manager without a group has sent a request to this node. */
  | { readonly kind: 'requestedBy'; readonly manager: Peer }
  /** A leader hint has arrived, so a group exists. */
  | { readonly kind: 'groupFound' }
  /** This node is in a group now, for whatever reason. */
  | { readonly kind: 'joined' };

export type FormationBlocker = 'found' | 'seed' | 'lower' | 'silent';

export type GroupFormationEffect =
  | { readonly kind: 'request'; readonly round: number; readonly to: Address }
  /** The host replies with `managers`. */
  | { readonly kind: 'listManagers' }
  | { readonly kind: 'bootstrap' }
  /** Emitted once for each new reason. */
  | { readonly kind: 'waiting'; readonly why: FormationBlocker; readonly detail: string };

type Round = {
  readonly number: number;
  readonly pending: Map<string, Address>;
  readonly requested: Set<string>;
  readonly replies: GroupReply[];
  readonly silent: Address[];
};

const clearRoundsNeeded = 2;
const knownMax = 256;

type FormationOutput = GroupFormationEffect | Schedule<'round'>;

export class GroupFormation {
  readonly #self: NodeId;
  readonly #roundMs: number;
  #seeds: readonly Address[] = [];
  /** Every manager that membership, a reply or a request has ever named. */
  readonly #known = new Map<NodeId, Address>();
  #round: Round | undefined;
  #rounds = 0;
  #clearRounds = 0;
  /** Stays true if all members of the group are gone: its state is on their disks, and only they can restore it. */
  #groupExisted = false;
  #isStopped = false;
  #blocker: FormationBlocker | undefined;

  constructor(self: NodeId, roundMs: number) {
    this.#self = self;
    this.#roundMs = roundMs;
  }

  step(nowMs: number, input: GroupFormationInput | TimerExpired<'round'> | PersistFailed): readonly FormationOutput[] {
    if (this.#isStopped) return [];
    switch (input.kind) {
      case 'start':
        this.#seeds = input.seeds;
        return input.bootstrap ? this.#bootstrap() : [{ kind: 'listManagers' }];
      case 'managers':
        return this.#startRound(nowMs, input.managers);
      case 'replied':
        return this.#onReply(nowMs, input);
      case 'requestFailed':
        if (this.#settle(input)) this.#round?.silent.push(input.from);
        return this.#evaluate(nowMs);
      case 'requestedBy':
        this.#remember(input.manager);
        return [];
      case 'groupFound':
        this.#groupExisted = true;
        return [];
      case 'joined':
        this.#isStopped = true;
        return [];
      case 'expired':
        return [{ kind: 'listManagers' }];
      case 'persistFailed':
        return [];
      default:
        return unreachable(input);
    }
  }

  #remember({ id, host, port }: Peer): void {
    if (id !== this.#self && (this.#known.has(id) || this.#known.size < knownMax)) this.#known.set(id, { host, port });
  }

  #startRound(nowMs: number, managers: readonly Peer[]): readonly FormationOutput[] {
    for (const manager of managers) this.#remember(manager);
    const round = { number: ++this.#rounds, pending: new Map(), requested: new Set<string>(), replies: [], silent: [] };
    this.#round = round;
    const requests = [...this.#seeds, ...this.#known.values()].flatMap((to) => this.#requestOnce(round, to));
    return requests.length > 0 ? requests : this.#evaluate(nowMs);
  }

  #requestOnce(round: Round, to: Address): readonly FormationOutput[] {
    if (round.requested.has(keyOf(to))) return [];
    round.requested.add(keyOf(to));
    round.pending.set(keyOf(to), to);
    return [{ kind: 'request', round: round.number, to }];
  }

  #onReply(nowMs: number, input: GroupFormationInput & { kind: 'replied' }): readonly FormationOutput[] {
    const { from, reply } = input;
    // A manager that was known at this address is no longer there.
    for (const [id, at] of this.#known) if (id !== reply.id && keyOf(at) === keyOf(from)) this.#known.delete(id);
    if (reply.eligible) this.#remember({ ...from, id: reply.id });
    for (const manager of reply.managers) if (!this.#known.has(manager.id)) this.#remember(manager);
    const round = this.#round;
    if (round === undefined || !this.#settle(input)) return [];
    round.replies.push(reply);
    const further = [...this.#known.values()].flatMap((to) => this.#requestOnce(round, to));
    return further.length > 0 ? further : this.#evaluate(nowMs);
  }

  #settle({ round, from }: { readonly round: number; readonly from: Address }): boolean {
    return this.#round?.number === round && this.#round.pending.delete(keyOf(from));
  }

  #evaluate(nowMs: number): readonly FormationOutput[] {
    const round = this.#round;
    if (round === undefined || round.pending.size > 0) return [];
    this.#round = undefined;
    const blocked = this.#blockedBy(round);
    // A manager that sent a request meanwhile gets one in the next round.
    const isClear = blocked === undefined && [...this.#known.values()].every((at) => round.requested.has(keyOf(at)));
    this.#clearRounds = isClear ? this.#clearRounds + 1 : 0;
    if (this.#clearRounds >= (this.#seeds.length === 0 ? 1 : clearRoundsNeeded)) return this.#bootstrap();
    const nextRound: FormationOutput = { kind: 'schedule', atMs: nowMs + this.#roundMs, timer: 'round' };
    if (blocked === undefined || blocked.why === this.#blocker) return [nextRound];
    this.#blocker = blocked.why;
    return [{ kind: 'waiting', ...blocked }, nextRound];
  }

  #blockedBy({ replies, silent }: Round): { readonly why: FormationBlocker; readonly detail: string } | undefined {
    this.#groupExisted ||= replies.some(({ hasGroup }) => hasGroup);
    if (this.#groupExisted) return { why: 'found', detail: 'a group exists: its leader will add this manager' };
    const seed = silent.find((address) => this.#seeds.some((one) => keyOf(one) === keyOf(address)));
    if (seed !== undefined) return { why: 'seed', detail: `the seed ${keyOf(seed)} has not replied` };
    if (silent.length > 0) return { why: 'silent', detail: silentManagersText(silent) };
    const isFirst = replies.every(({ id, eligible }) => !eligible || id >= this.#self);
    return isFirst ? undefined : { why: 'lower', detail: 'a manager with a lower id creates the group' };
  }

  #bootstrap(): readonly FormationOutput[] {
    this.#isStopped = true;
    return [{ kind: 'bootstrap' }];
  }
}

function silentManagersText(silent: readonly Address[]): string {
  const addresses = silent.map(keyOf).join(', ');
  return `${addresses} was a manager, does not reply and may have created the group: start it again, or, if its disk is lost, start one manager with --bootstrap`;
}

function keyOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
