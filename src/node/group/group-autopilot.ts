/**
 * Runs on the leader: adds living managers, promotes caught-up ones, replaces voters that have been dead for long. One
 * change at a time; a new voter joins before the dead one leaves.
 *
 * The number of voters stays odd, because an even number needs a larger majority for the same safety. The exception is
 * two instead of one: every acknowledged entry then survives on the second disk.
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
  /** Syncing members that have the whole log of the leader, or nearly. */
  readonly caughtUp: ReadonlySet<NodeId>;
  /** The managers of this datacenter in membership, this node included. */
  readonly managers: readonly KnownManager[];
};

export type AutopilotInput =
  | { readonly kind: 'start' }
  | { readonly kind: 'snapshot'; readonly snapshot: GroupSnapshot }
  /** Whether a manager outside of the group is in no group at all. */
  | { readonly kind: 'checked'; readonly id: NodeId; readonly isFree: boolean }
  | { readonly kind: 'checkFailed'; readonly id: NodeId }
  | { readonly kind: 'changed'; readonly id: NodeId; readonly ok: boolean };

export type AutopilotEffect =
  /** The host replies with `snapshot`. */
  | { readonly kind: 'inspect' }
  | { readonly kind: 'check'; readonly manager: KnownManager }
  | { readonly kind: 'change'; readonly change: GroupChange; readonly why: string }
  /** A manager is in another group of the same name. Emitted once per manager. */
  | { readonly kind: 'foreign'; readonly id: NodeId; readonly name: string };

export type AutopilotOptions = {
  readonly intervalMs: number;
  readonly votersMax: number;
  /** How long a voter may be dead before another manager replaces it; 0 leaves that to operators. */
  readonly replaceAfterMs: number;
};

export function autopilotOptions({
  votersMax,
  replaceVoterAfterMs: replaceAfterMs,
}: ControlPlaneValues): AutopilotOptions {
  return { intervalMs: 250, votersMax, replaceAfterMs };
}

const foreignMax = 64;
/** Managers beyond the voters that follow the log and can replace a voter; additional ones stay outside. */
const sparesMax = 2;

type AutopilotOutput = AutopilotEffect | Schedule<'poll'>;

export class GroupAutopilot {
  readonly #options: AutopilotOptions;
  #snapshot: GroupSnapshot | undefined;
  /** True while a check or a change is pending. */
  #isBusy = false;
  readonly #deadSinceMs = new Map<NodeId, number>();
  readonly #foreign = new Set<NodeId>();
  #nextCandidate = 0;

  constructor(options: AutopilotOptions) {
    this.#options = options;
  }

  step(nowMs: number, input: AutopilotInput | TimerExpired<'poll'> | PersistFailed): readonly AutopilotOutput[] {
    switch (input.kind) {
      case 'start':
        return [this.#scheduleNext(nowMs)];
      case 'expired':
        return [{ kind: 'inspect' }, this.#scheduleNext(nowMs)];
      case 'snapshot':
        this.#snapshot = input.snapshot;
        this.#trackDeaths(nowMs, input.snapshot);
        return this.#isBusy || !input.snapshot.isLeading ? [] : this.#decide(nowMs, input.snapshot);
      case 'checked':
        this.#isBusy = false;
        return this.#onChecked(input);
      case 'checkFailed':
        this.#isBusy = false;
        return [];
      case 'changed':
        this.#isBusy = false;
        return input.ok ? [{ kind: 'inspect' }] : [];
      case 'persistFailed':
        return [];
      default:
        return unreachable(input);
    }
  }

  #scheduleNext(nowMs: number): AutopilotOutput {
    return { kind: 'schedule', atMs: nowMs + this.#options.intervalMs, timer: 'poll' };
  }

  #trackDeaths(nowMs: number, { group, managers }: GroupSnapshot): void {
    const living = new Set(managers.filter(({ isAlive }) => isAlive).map(({ id }) => id));
    for (const { id } of group) if (!living.has(id) && !this.#deadSinceMs.has(id)) this.#deadSinceMs.set(id, nowMs);
    for (const id of this.#deadSinceMs.keys())
      if (living.has(id) || !group.some((member) => member.id === id)) this.#deadSinceMs.delete(id);
  }

  #decide(nowMs: number, snapshot: GroupSnapshot): readonly AutopilotOutput[] {
    const change = this.#promotion(nowMs, snapshot) ?? this.#removal(nowMs, snapshot);
    if (change !== undefined) {
      this.#isBusy = true;
      return [change];
    }
    if (snapshot.group.length >= this.#options.votersMax + sparesMax) return [];
    const outside = snapshot.managers.filter((one) => one.isAlive && !snapshot.group.some(({ id }) => id === one.id));
    const manager = outside[this.#nextCandidate++ % Math.max(1, outside.length)];
    if (manager === undefined) return [];
    this.#isBusy = true;
    return [{ kind: 'check', manager }];
  }

  #promotion(nowMs: number, snapshot: GroupSnapshot): AutopilotEffect | undefined {
    const ready = snapshot.group.filter(
      (one) => one.standing === 'syncing' && snapshot.caughtUp.has(one.id) && this.#isAlive(one.id),
    );
    const [first] = ready;
    if (first === undefined) return undefined;
    const promote = (why: string): AutopilotEffect => ({
      kind: 'change',
      change: { kind: 'promote', id: first.id },
      why,
    });
    const voters = snapshot.group.filter(({ standing }) => standing === 'voter').length;
    if (voters % 2 === 0 && voters < this.#options.votersMax) return promote('it has caught up');
    if (voters === 1) return promote('two voters are safer than one');
    if (voters + 2 <= this.#options.votersMax && ready.length >= 2) return promote('two more managers have caught up');
    return this.#replaceable(nowMs, snapshot) === undefined ? undefined : promote('it replaces a dead voter');
  }

  /** The dead voter leaves after the new one has joined, never before. */
  #removal(nowMs: number, snapshot: GroupSnapshot): AutopilotEffect | undefined {
    const voters = snapshot.group.filter(({ standing }) => standing === 'voter').length;
    const dead = voters % 2 === 0 && voters > 2 ? this.#replaceable(nowMs, snapshot) : undefined;
    if (dead === undefined) return undefined;
    return { kind: 'change', change: { kind: 'remove', id: dead.id }, why: 'it has been dead for too long' };
  }

  #replaceable(nowMs: number, { group, self }: GroupSnapshot): GroupMember | undefined {
    const { replaceAfterMs } = this.#options;
    if (replaceAfterMs === 0) return undefined;
    return group.find(({ id, standing }) => {
      const sinceMs = this.#deadSinceMs.get(id) ?? nowMs;
      return standing === 'voter' && id !== self && nowMs - sinceMs >= replaceAfterMs;
    });
  }

  #isAlive(id: NodeId): boolean {
    return !this.#deadSinceMs.has(id);
  }

  #onChecked({ id, isFree }: AutopilotInput & { kind: 'checked' }): readonly AutopilotOutput[] {
    const manager = this.#snapshot?.managers.find((one) => one.id === id);
    if (manager === undefined || this.#snapshot?.isLeading !== true) return [];
    if (!isFree) {
      if (this.#foreign.has(id) || this.#foreign.size >= foreignMax) return [];
      this.#foreign.add(id);
      return [{ kind: 'foreign', id, name: manager.name }];
    }
    this.#isBusy = true;
    const { name, host, port } = manager;
    return [
      {
        kind: 'change',
        change: { kind: 'add', member: { id, name, host, port } },
        why: 'it is an alive manager of this datacenter',
      },
    ];
  }
}
