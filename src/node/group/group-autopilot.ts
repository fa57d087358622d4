/**
 * On the leader: adds living managers, promotes caught-up ones, replaces voters that are dead for long, keeps voters
 * odd. One change at a time.
 *
 * The number of voters is kept odd (an even one needs more of them for the same safety), except that two are better
 * than one: what the first has agreed to survives on the second.
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { TimerExpired, PersistFailed, Schedule } from '../../base/runtime/loop.ts';
import type { Address } from '../../base/ports.ts';
import type { GroupChange, GroupMember } from '../../consensus/state/state-machine.ts';
import type { ControlPlaneValues } from '../options/control-plane-options.ts';

export type KnownManager = Address & {
  readonly id: NodeId;
  readonly name: string;
  readonly isAlive: boolean;
};

export type GroupSnapshot = {
  readonly isLeading: boolean;
  readonly self: NodeId;
  readonly group: readonly GroupMember[];
  /** Those that are syncing and have everything the leader has, or nearly. */
  readonly caughtUp: ReadonlySet<NodeId>;
  /** The managers of this datacenter that membership knows, ourselves included. */
  readonly managers: readonly KnownManager[];
};

export type AutopilotInput =
  | { readonly kind: 'begin' }
  | { readonly kind: 'look'; readonly look: GroupSnapshot }
  /** Whether a manager outside belongs to no group. */
  | { readonly kind: 'checked'; readonly id: NodeId; readonly isFree: boolean }
  | { readonly kind: 'unchecked'; readonly id: NodeId }
  | { readonly kind: 'changed'; readonly id: NodeId; readonly ok: boolean };

export type AutopilotEffect =
  /** The owner answers with `look`. */
  | { readonly kind: 'see' }
  | { readonly kind: 'check'; readonly manager: KnownManager }
  | { readonly kind: 'change'; readonly change: GroupChange; readonly why: string }
  /** A manager belongs to another group of the same name. Said once for each. */
  | { readonly kind: 'foreign'; readonly id: NodeId; readonly name: string };

export type AutopilotOptions = {
  readonly intervalMs: number;
  readonly votersMax: number;
  /** How long a voter may be dead before another one takes its place; 0 leaves that to operators. */
  readonly replaceAfterMs: number;
};

export function autopilotOptions({
  votersMax,
  replaceVoterAfterMs: replaceAfterMs,
}: ControlPlaneValues): AutopilotOptions {
  return { intervalMs: 250, votersMax, replaceAfterMs };
}

const foreignMax = 64;
/** Managers beyond the voters that follow the log, ready to take a place; further ones are left outside. */
const sparesMax = 2;

type Decided = AutopilotEffect | Schedule<'keep'>;

export class GroupAutopilot {
  readonly #options: AutopilotOptions;
  #look: GroupSnapshot | undefined;
  /** True while a question or a change is under way. */
  #isBusy = false;
  readonly #deadSinceMs = new Map<NodeId, number>();
  readonly #foreign = new Set<NodeId>();
  #nextCandidate = 0;

  constructor(options: AutopilotOptions) {
    this.#options = options;
  }

  step(nowMs: number, input: AutopilotInput | TimerExpired<'keep'> | PersistFailed): readonly Decided[] {
    switch (input.kind) {
      case 'begin':
        return [this.#again(nowMs)];
      case 'expired':
        return [{ kind: 'see' }, this.#again(nowMs)];
      case 'look':
        this.#look = input.look;
        this.#noteDead(nowMs, input.look);
        return this.#isBusy || !input.look.isLeading ? [] : this.#decide(nowMs, input.look);
      case 'checked':
        this.#isBusy = false;
        return this.#checked(input);
      case 'unchecked':
        this.#isBusy = false;
        return [];
      case 'changed':
        this.#isBusy = false;
        return input.ok ? [{ kind: 'see' }] : [];
      case 'persistFailed':
        return [];
      default:
        return unreachable(input);
    }
  }

  #again(nowMs: number): Decided {
    return { kind: 'schedule', atMs: nowMs + this.#options.intervalMs, timer: 'keep' };
  }

  #noteDead(nowMs: number, { group, managers }: GroupSnapshot): void {
    const living = new Set(managers.filter(({ isAlive }) => isAlive).map(({ id }) => id));
    for (const { id } of group) if (!living.has(id) && !this.#deadSinceMs.has(id)) this.#deadSinceMs.set(id, nowMs);
    for (const id of this.#deadSinceMs.keys())
      if (living.has(id) || !group.some((member) => member.id === id)) this.#deadSinceMs.delete(id);
  }

  #decide(nowMs: number, look: GroupSnapshot): readonly Decided[] {
    const change = this.#promotion(nowMs, look) ?? this.#removal(nowMs, look);
    if (change !== undefined) {
      this.#isBusy = true;
      return [change];
    }
    if (look.group.length >= this.#options.votersMax + sparesMax) return [];
    const outside = look.managers.filter((m) => m.isAlive && !look.group.some(({ id }) => id === m.id));
    const manager = outside[this.#nextCandidate++ % Math.max(1, outside.length)];
    if (manager === undefined) return [];
    this.#isBusy = true;
    return [{ kind: 'check', manager }];
  }

  #promotion(nowMs: number, look: GroupSnapshot): AutopilotEffect | undefined {
    const ready = look.group.filter((m) => m.standing === 'syncing' && look.caughtUp.has(m.id) && this.#lives(m.id));
    const [first] = ready;
    if (first === undefined) return undefined;
    const promote = (why: string): AutopilotEffect => ({
      kind: 'change',
      change: { kind: 'promote', id: first.id },
      why,
    });
    const voters = look.group.filter(({ standing }) => standing === 'voter').length;
    if (voters % 2 === 0 && voters < this.#options.votersMax) return promote('it has caught up');
    if (voters === 1) return promote('two are better than one');
    if (voters + 2 <= this.#options.votersMax && ready.length >= 2) return promote('two more have caught up');
    return this.#replaceable(nowMs, look) === undefined ? undefined : promote('it takes the place of a dead voter');
  }

  /** After the new voter has come, the dead one goes: never the other way round. */
  #removal(nowMs: number, look: GroupSnapshot): AutopilotEffect | undefined {
    const voters = look.group.filter(({ standing }) => standing === 'voter').length;
    const dead = voters % 2 === 0 && voters > 2 ? this.#replaceable(nowMs, look) : undefined;
    if (dead === undefined) return undefined;
    return { kind: 'change', change: { kind: 'remove', id: dead.id }, why: 'it has been dead for long' };
  }

  #replaceable(nowMs: number, { group, self }: GroupSnapshot): GroupMember | undefined {
    const { replaceAfterMs } = this.#options;
    if (replaceAfterMs === 0) return undefined;
    return group.find(({ id, standing }) => {
      const sinceMs = this.#deadSinceMs.get(id) ?? nowMs;
      return standing === 'voter' && id !== self && nowMs - sinceMs >= replaceAfterMs;
    });
  }

  #lives(id: NodeId): boolean {
    return !this.#deadSinceMs.has(id);
  }

  #checked({ id, isFree }: AutopilotInput & { kind: 'checked' }): readonly Decided[] {
    const manager = this.#look?.managers.find((one) => one.id === id);
    if (manager === undefined || this.#look?.isLeading !== true) return [];
    if (!isFree) {
      if (this.#foreign.has(id) || this.#foreign.size >= foreignMax) return [];
      this.#foreign.add(id);
      return [{ kind: 'foreign', id, name: manager.name }];
    }
    this.#isBusy = true;
    const { name, host, port } = manager;
    return [{ kind: 'change', change: { kind: 'add', member: { id, name, host, port } }, why: 'it lives here' }];
  }
}
