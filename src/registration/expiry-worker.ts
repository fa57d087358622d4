/**
 * On the leader: marks nodes as lost whose registration is gone, after the grace for a new leader and a slow clock.
 * What follows from it (takeover, late return) so rests on something agreed that outlives this leader. With no node
 * registered it marks none.
 */
import { unreachable } from '../base/assert.ts';
import type { Outcome } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { TimerExpired, Machine, PersistFailed, Schedule } from '../base/runtime/loop.ts';
import type { RegistryChange, RegistryEntry, RegistryTransaction, TransactionResult } from '../base/registry.ts';
import type { RegistrationOptions } from './registration-options.ts';
import { type NodeStateRecord, encodeRegistrationRecord } from './registration-records.ts';
import { NodeDirectory, type NodeDirectoryEntry } from './node-directory.ts';
import { markLostTransaction } from './registration-transactions.ts';

export type ExpiryInput =
  | { readonly kind: 'leading' }
  | { readonly kind: 'following' }
  | { readonly kind: 'loaded'; readonly entries: readonly RegistryEntry[] }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[] }
  | { readonly kind: 'written'; readonly call: number; readonly outcome: Outcome<TransactionResult> };

export type NodeLost = { readonly type: 'node.lost'; readonly node: NodeId; readonly epoch: number };

export type ExpiryEffect =
  /** Load and follow the roster; what was followed before is over. */
  | { readonly kind: 'follow' }
  | { readonly kind: 'unfollow' }
  | { readonly kind: 'write'; readonly call: number; readonly transaction: RegistryTransaction }
  | { readonly kind: 'event'; readonly event: NodeLost };

type Input = ExpiryInput | TimerExpired<'wake'> | PersistFailed;
type Effect = ExpiryEffect | Schedule<'wake'>;
type Options = Pick<RegistrationOptions, 'ttlMs' | 'regrantDelayMs' | 'backoffMinMs'>;

type Marking = {
  readonly call: number;
  readonly node: NodeId;
  readonly state: { readonly entry: RegistryEntry; readonly record: NodeStateRecord };
};

export class ExpiryWorker implements Machine<Input, Effect> {
  readonly #options: Options;
  readonly #roster = new NodeDirectory();
  /** Since when, by our clock, we know that a node is not registered. */
  readonly #missingSinceMs = new Map<NodeId, number>();
  /** Since when this node leads in the present epoch; undefined while it does not lead. */
  #leadingSinceMs: number | undefined;
  #epoch: number | undefined;
  #isLoaded = false;
  #marking: Marking | undefined;
  #calls = 0;
  #pausedUntilMs = 0;
  #out: Effect[] = [];

  constructor(options: Options) {
    this.#options = options;
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    this.#take(nowMs, input);
    this.#work(nowMs);
    const out = this.#out;
    this.#out = [];
    return out;
  }

  #take(nowMs: number, input: Input): void {
    switch (input.kind) {
      case 'leading':
        this.#reset(nowMs);
        this.#out.push({ kind: 'follow' });
        return;
      case 'following':
        this.#reset(undefined);
        this.#out.push({ kind: 'unfollow' });
        return;
      case 'loaded':
        this.#roster.load(input.entries);
        this.#isLoaded = true;
        return this.#looked(nowMs);
      case 'changed':
        this.#roster.apply(input.changes);
        return this.#looked(nowMs);
      case 'written':
        return this.#written(nowMs, input.call, input.outcome);
      case 'expired':
      case 'persistFailed':
        return;
      default:
        return unreachable(input);
    }
  }

  #reset(leadingSinceMs: number | undefined): void {
    this.#leadingSinceMs = leadingSinceMs;
    this.#isLoaded = false;
    this.#missingSinceMs.clear();
    this.#marking = undefined;
    this.#pausedUntilMs = 0;
  }

  #looked(nowMs: number): void {
    const epoch = this.#roster.epoch?.record?.epoch;
    if (epoch !== this.#epoch && this.#leadingSinceMs !== undefined) this.#leadingSinceMs = nowMs;
    this.#epoch = epoch;
    for (const { id, registration } of this.#roster.nodes()) {
      if (registration !== undefined) this.#missingSinceMs.delete(id);
      else if (!this.#missingSinceMs.has(id)) this.#missingSinceMs.set(id, nowMs);
    }
    for (const id of this.#missingSinceMs.keys())
      if (this.#roster.get(id) === undefined) this.#missingSinceMs.delete(id);
  }

  #work(nowMs: number): void {
    const epoch = this.#epoch;
    const witness = this.#roster.nodes().find(({ registration }) => registration !== undefined)?.registration?.entry;
    if (!this.#isLoaded || this.#leadingSinceMs === undefined || this.#marking !== undefined) return;
    if (epoch === undefined || witness === undefined) return;
    let nextMs: number | undefined;
    for (const [id, sinceMs] of this.#missingSinceMs) {
      const node = this.#roster.get(id);
      if (node?.state === undefined || isMarked(node, epoch)) continue;
      const dueMs = Math.max(
        this.#leadingSinceMs + this.#options.ttlMs,
        sinceMs + this.#options.regrantDelayMs,
        this.#pausedUntilMs,
      );
      if (nowMs >= dueMs) return this.#mark(id, node.state, epoch, witness);
      nextMs = Math.min(dueMs, nextMs ?? dueMs);
    }
    if (nextMs !== undefined) this.#out.push({ kind: 'schedule', atMs: nextMs, timer: 'wake' });
  }

  #mark(node: NodeId, state: NonNullable<NodeDirectoryEntry['state']>, epoch: number, witness: RegistryEntry): void {
    this.#calls += 1;
    const record = { ...(state.record ?? unreadable), epoch, lost: true };
    this.#marking = { call: this.#calls, node, state: { entry: state.entry, record } };
    const transaction = markLostTransaction(node, this.#marking.state, witness);
    this.#out.push({ kind: 'write', call: this.#calls, transaction });
  }

  #written(nowMs: number, call: number, outcome: Outcome<TransactionResult>): void {
    if (this.#marking?.call !== call) return;
    const { node, state } = this.#marking;
    this.#marking = undefined;
    if (!outcome.ok || !outcome.value.succeeded) {
      this.#pausedUntilMs = nowMs + this.#options.backoffMinMs;
      return;
    }
    // The mirror will say the same a little later.
    this.#roster.put({
      ...state.entry,
      value: encodeRegistrationRecord(state.record),
      modRevision: outcome.value.revision,
    });
    this.#out.push({ kind: 'event', event: { type: 'node.lost', node, epoch: state.record.epoch } });
  }
}

function isMarked({ state }: NodeDirectoryEntry, epoch: number): boolean {
  return state?.record !== undefined && state.record.lost && state.record.epoch === epoch;
}

/** What is said of a node whose state nobody can read: anything but active. */
const unreadable: NodeStateRecord = {
  mode: 'drained',
  reason: 'registration_expired',
  generation: 0,
  epoch: 0,
  lost: true,
  sinceWallMs: 0,
  note: '',
};
