/**
 * On the leader: marks a node as lost when its registration is gone and the grace for a new leader and for a slow clock
 * has passed. Takeovers and late returns rest on this mark, which outlives the leader. Marks no node while none is
 * registered.
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
  | { readonly kind: 'elected' }
  | { readonly kind: 'leadershipLost' }
  | { readonly kind: 'loaded'; readonly entries: readonly RegistryEntry[] }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[] }
  | { readonly kind: 'written'; readonly call: number; readonly outcome: Outcome<TransactionResult> };

export type NodeLost = { readonly type: 'node.lost'; readonly node: NodeId; readonly epoch: number };

export type ExpiryEffect =
  /** Load and watch the node directory; replaces an earlier informer. */
  | { readonly kind: 'startInformer' }
  | { readonly kind: 'stopInformer' }
  | { readonly kind: 'write'; readonly call: number; readonly transaction: RegistryTransaction }
  | { readonly kind: 'event'; readonly event: NodeLost };

type Input = ExpiryInput | TimerExpired<'wake'> | PersistFailed;
type Effect = ExpiryEffect | Schedule<'wake'>;
type Options = Pick<RegistrationOptions, 'ttlMs' | 'regrantDelayMs' | 'backoffMinMs'>;

type PendingMark = {
  readonly call: number;
  readonly node: NodeId;
  readonly state: { readonly entry: RegistryEntry; readonly record: NodeStateRecord };
};

export class ExpiryWorker implements Machine<Input, Effect> {
  readonly #options: Options;
  readonly #directory = new NodeDirectory();
  /** When this leader first saw that a node is not registered. */
  readonly #missingSinceMs = new Map<NodeId, number>();
  /** Since when this node leads in the current epoch; undefined while it does not lead. */
  #leadingSinceMs: number | undefined;
  #epoch: number | undefined;
  #isLoaded = false;
  #pendingMark: PendingMark | undefined;
  #calls = 0;
  #retryAtMs = 0;
  #effects: Effect[] = [];

  constructor(options: Options) {
    this.#options = options;
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    this.#handle(nowMs, input);
    this.#markIfDue(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #handle(nowMs: number, input: Input): void {
    switch (input.kind) {
      case 'elected':
        this.#reset(nowMs);
        this.#effects.push({ kind: 'startInformer' });
        return;
      case 'leadershipLost':
        this.#reset(undefined);
        this.#effects.push({ kind: 'stopInformer' });
        return;
      case 'loaded':
        this.#directory.load(input.entries);
        this.#isLoaded = true;
        return this.#onDirectoryChanged(nowMs);
      case 'changed':
        this.#directory.apply(input.changes);
        return this.#onDirectoryChanged(nowMs);
      case 'written':
        return this.#onWritten(nowMs, input.call, input.outcome);
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
    this.#pendingMark = undefined;
    this.#retryAtMs = 0;
  }

  #onDirectoryChanged(nowMs: number): void {
    const epoch = this.#directory.epoch?.record?.epoch;
    if (epoch !== this.#epoch && this.#leadingSinceMs !== undefined) this.#leadingSinceMs = nowMs;
    this.#epoch = epoch;
    for (const { id, registration } of this.#directory.nodes()) {
      if (registration !== undefined) this.#missingSinceMs.delete(id);
      else if (!this.#missingSinceMs.has(id)) this.#missingSinceMs.set(id, nowMs);
    }
    for (const id of this.#missingSinceMs.keys())
      if (this.#directory.get(id) === undefined) this.#missingSinceMs.delete(id);
  }

  #markIfDue(nowMs: number): void {
    const epoch = this.#epoch;
    const witness = this.#directory.nodes().find(({ registration }) => registration !== undefined)?.registration?.entry;
    if (!this.#isLoaded || this.#leadingSinceMs === undefined || this.#pendingMark !== undefined) return;
    if (epoch === undefined || witness === undefined) return;
    let nextMs: number | undefined;
    for (const [id, sinceMs] of this.#missingSinceMs) {
      const node = this.#directory.get(id);
      if (node?.state === undefined || isMarked(node, epoch)) continue;
      const dueMs = Math.max(
        this.#leadingSinceMs + this.#options.ttlMs,
        sinceMs + this.#options.regrantDelayMs,
        this.#retryAtMs,
      );
      if (nowMs >= dueMs) return this.#mark(id, node.state, epoch, witness);
      nextMs = Math.min(dueMs, nextMs ?? dueMs);
    }
    if (nextMs !== undefined) this.#effects.push({ kind: 'schedule', atMs: nextMs, timer: 'wake' });
  }

  #mark(node: NodeId, state: NonNullable<NodeDirectoryEntry['state']>, epoch: number, witness: RegistryEntry): void {
    this.#calls += 1;
    const record = { ...(state.record ?? unreadableState), epoch, lost: true };
    this.#pendingMark = { call: this.#calls, node, state: { entry: state.entry, record } };
    const transaction = markLostTransaction(node, this.#pendingMark.state, witness);
    this.#effects.push({ kind: 'write', call: this.#calls, transaction });
  }

  #onWritten(nowMs: number, call: number, outcome: Outcome<TransactionResult>): void {
    if (this.#pendingMark?.call !== call) return;
    const { node, state } = this.#pendingMark;
    this.#pendingMark = undefined;
    if (!outcome.ok || !outcome.value.succeeded) {
      this.#retryAtMs = nowMs + this.#options.backoffMinMs;
      return;
    }
    // The informer reports the same change a little later.
    this.#directory.put({
      ...state.entry,
      value: encodeRegistrationRecord(state.record),
      modRevision: outcome.value.revision,
    });
    this.#effects.push({ kind: 'event', event: { type: 'node.lost', node, epoch: state.record.epoch } });
  }
}

function isMarked({ state }: NodeDirectoryEntry, epoch: number): boolean {
  return state?.record !== undefined && state.record.lost && state.record.epoch === epoch;
}

/** The state of a node whose record is malformed: never active. */
const unreadableState: NodeStateRecord = {
  mode: 'drained',
  reason: 'registration_expired',
  generation: 0,
  epoch: 0,
  lost: true,
  sinceWallMs: 0,
  note: '',
};
