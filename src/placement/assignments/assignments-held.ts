/**
 * What this node holds: brings its host in line with what the registry assigns to it, and gives back what it should not
 * have. For each assignment, on the left what is true here, on top what the registry wants:
 *
 *                hold              give back                          drop
 *   nothing      take              one transaction: back to waiting   forget
 *   taking       wait              wait                               wait
 *   held         -                 release, then give back            release
 *   releasing    wait, take again  wait                               wait
 *
 * `give back` is wanted when the leader asks for it, when this node is drained, and when its host could not take the
 * assignment several times. `drop` is wanted when it is assigned here no longer, and for everything while the node is
 * not sure of its registration: then others may soon be given what it holds. Releasing never deletes what is durable.
 * It knows as many assignments as the registry has for this node.
 */
import { assert } from '../../base/assert.ts';
import { type Outcome, RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { TimerExpired, Schedule } from '../../base/runtime/loop.ts';
import type { RegistryChange, RegistryEntry, RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import { type ContainerName, clusterKey, parseClusterKey } from '../../registry/cluster-keys.ts';
import type { NodeMode } from '../../registration/node-modes.ts';
import { readNodeState } from '../../registration/registration-records.ts';
import { type AssignedRecord, type Releasing, decodeAssigned, nameText } from '../../registry/assignment/record.ts';
import { giveBack } from '../leader/transactions.ts';

/** What a host is given. `revision` is of this assignment to this node: later owners have higher ones, so it is a fence. */
export type HeldAssignment = ContainerName & { readonly revision: number };

export type HeldTimer = { readonly text: string; readonly operation: number };

export type HeldInput =
  /** All keys of this node. */
  | { readonly kind: 'loaded'; readonly entries: readonly RegistryEntry[] }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[] }
  /** The registration is not sure any more; it is again. */
  | { readonly kind: 'suspend' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'ended'; readonly text: string; readonly operation: number; readonly outcome: Outcome<unknown> }
  | TimerExpired<HeldTimer>;

export type HeldAct =
  | {
      readonly kind: 'take' | 'release';
      readonly text: string;
      readonly operation: number;
      readonly assignment: HeldAssignment;
    }
  | {
      readonly kind: 'transact';
      readonly text: string;
      readonly operation: number;
      readonly transaction: RegistryTransaction;
    }
  | { readonly kind: 'tell'; readonly event: HeldEvent };

export type HeldEffect = HeldAct | Schedule<HeldTimer>;

export type HeldEvent =
  | { readonly kind: 'taken' | 'released' | 'gaveBack'; readonly name: string }
  | { readonly kind: 'takeFailed' | 'releaseFailed'; readonly name: string; readonly error: RemusterError };

export type HeldOptions = {
  readonly operationsMax: number;
  /** So often a host may fail to take an assignment before another node is tried. */
  readonly takeTriesMax: number;
  readonly takeTimeoutMs: number;
  readonly releaseTimeoutMs: number;
  readonly retryMsMin: number;
  readonly retryMsMax: number;
};

export const heldDefaults: HeldOptions = {
  operationsMax: 32,
  takeTriesMax: 3,
  takeTimeoutMs: 30_000,
  releaseTimeoutMs: 30_000,
  retryMsMin: 100,
  retryMsMax: 5_000,
};

type Doing = 'nothing' | 'taking' | 'held' | 'releasing' | 'givingBack';
type Wanted = 'hold' | 'stay' | 'giveBack' | 'drop';
type Assigned = { readonly record: AssignedRecord; readonly modRevision: number; readonly createRevision: number };

type Item = {
  readonly name: ContainerName;
  readonly text: string;
  assigned: Assigned | undefined;
  doing: Doing;
  /** Under which revision it was taken. */
  takenRevision: number;
  /** Of the operation under way, or of the pause before the next one; 0 is none. */
  operation: number;
  paused: boolean;
  failures: number;
  /** The host does not manage to take it. */
  unfit: boolean;
  /** A release has begun, or a taking has not ended in time: until a release has ended well nobody knows what is held. */
  doubtful: boolean;
};

export class AssignmentsHeld {
  readonly #self: NodeId;
  readonly #options: HeldOptions;
  readonly #items = new Map<string, Item>();
  /** Items to look at again, each once. */
  readonly #due = new Set<string>();
  #mode: NodeMode | 'none' | 'unknown' = 'none';
  #suspended = true;
  #operating = 0;
  #nextOperation = 1;
  #effects: HeldEffect[] = [];

  constructor(self: NodeId, options: HeldOptions) {
    this.#self = self;
    this.#options = options;
  }

  /** What it has taken and serves. */
  held(): readonly ContainerName[] {
    return [...this.#items.values()]
      .filter(({ doing, doubtful }) => doing === 'held' && !doubtful)
      .map(({ name }) => name);
  }

  /** Everything is as the registry wants it: nothing is under way or to be tried again. */
  get isSettled(): boolean {
    if (this.#suspended || this.#operating > 0) return false;
    return [...this.#items.values()].every((item) => this.#action(item) === undefined);
  }

  step(nowMs: number, input: HeldInput): readonly HeldEffect[] {
    this.#take(nowMs, input);
    this.#pump(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #take(nowMs: number, input: HeldInput): void {
    switch (input.kind) {
      case 'loaded':
        return this.#load(input.entries);
      case 'changed':
        for (const change of input.changes) {
          if (change.kind === 'put') this.#put(change.entry);
          else this.#gone(change.key);
        }
        return;
      case 'suspend':
      case 'resume':
        this.#suspended = input.kind === 'suspend';
        return this.#lookAtAll();
      case 'ended':
        return this.#ended(nowMs, input.text, input.operation, input.outcome);
      case 'expired':
        return this.#expired(nowMs, input.timer);
    }
  }

  #load(entries: readonly RegistryEntry[]): void {
    const present = new Set(entries.map(({ key }) => key));
    if (!present.has(clusterKey({ kind: 'state', node: this.#self }))) this.#setMode('none');
    for (const item of this.#items.values()) {
      if (!present.has(clusterKey({ kind: 'assignment', node: this.#self, ...item.name }))) this.#unassign(item.text);
    }
    for (const entry of entries) this.#put(entry);
  }

  #put(entry: RegistryEntry): void {
    const key = parseClusterKey(entry.key);
    if (key?.kind === 'state') return this.#setMode(readNodeState(entry.value)?.mode ?? 'unknown');
    if (key?.kind !== 'assignment') return;
    const { pool, container } = key;
    const text = nameText(key);
    const item = this.#items.get(text) ?? newItem({ pool, container }, text);
    const { modRevision, createRevision } = entry;
    if (item.assigned?.createRevision !== createRevision) {
      item.unfit = false;
      item.failures = 0;
    }
    item.assigned = { record: decodeAssigned(entry.value), modRevision, createRevision };
    this.#items.set(text, item);
    this.#due.add(text);
  }

  #gone(text: string): void {
    const key = parseClusterKey(text);
    if (key?.kind === 'state') this.#setMode('none');
    else if (key?.kind === 'assignment') this.#unassign(nameText(key));
  }

  #unassign(text: string): void {
    const item = this.#items.get(text);
    if (item === undefined) return;
    item.assigned = undefined;
    this.#due.add(text);
  }

  #setMode(mode: NodeMode | 'none' | 'unknown'): void {
    if (mode === this.#mode) return;
    this.#mode = mode;
    this.#lookAtAll();
  }

  #lookAtAll(): void {
    for (const text of this.#items.keys()) this.#due.add(text);
  }

  #wanted({ assigned, unfit }: Item): Wanted {
    if (assigned === undefined || this.#suspended) return 'drop';
    if (assigned.record.releasing !== undefined || unfit) return 'giveBack';
    if (this.#mode === 'drained') return 'giveBack';
    // A state that is missing or unreadable never means that something may be begun.
    return this.#mode === 'none' || this.#mode === 'unknown' ? 'stay' : 'hold';
  }

  #action(item: Item): 'take' | 'release' | 'giveBack' | undefined {
    const wanted = this.#wanted(item);
    if (item.doing === 'held') {
      // Given away and back since it was taken: what the host has belongs to the former time.
      const isFormer = item.assigned !== undefined && item.assigned.createRevision !== item.takenRevision;
      const isWrong = isFormer || item.doubtful;
      return wanted === 'giveBack' || wanted === 'drop' || isWrong ? 'release' : undefined;
    }
    if (item.doing !== 'nothing') return undefined;
    if (wanted === 'hold') return 'take';
    return wanted === 'giveBack' ? 'giveBack' : undefined;
  }

  #pump(nowMs: number): void {
    for (const text of this.#due) {
      const item = this.#items.get(text);
      const action = item === undefined || item.paused ? undefined : this.#action(item);
      if (item !== undefined && action !== undefined) {
        if (this.#operating >= this.#options.operationsMax) return;
        this.#start(nowMs, item, action);
      } else if (item !== undefined && item.doing === 'nothing' && item.assigned === undefined) {
        this.#items.delete(text);
      }
      this.#due.delete(text);
    }
  }

  #start(nowMs: number, item: Item, action: 'take' | 'release' | 'giveBack'): void {
    const { text } = item;
    const operation = this.#nextOperation++;
    item.operation = operation;
    this.#operating += 1;
    if (action === 'giveBack') {
      item.doing = 'givingBack';
      const transaction = this.#giveBack(item);
      this.#effects.push({ kind: 'transact', text, operation, transaction });
      return;
    }
    item.doing = action === 'take' ? 'taking' : 'releasing';
    item.doubtful = action === 'release';
    if (action === 'take') item.takenRevision = item.assigned?.createRevision ?? 0;
    const assignment = { ...item.name, revision: item.takenRevision };
    this.#effects.push({ kind: action, text, operation, assignment });
    const timeoutMs = action === 'take' ? this.#options.takeTimeoutMs : this.#options.releaseTimeoutMs;
    this.#effects.push({ kind: 'schedule', atMs: nowMs + timeoutMs, timer: { text, operation } });
  }

  #giveBack({ name, assigned, unfit }: Item): RegistryTransaction {
    const { record, modRevision } = assigned as Assigned;
    const why: Releasing = record.releasing ?? { reason: unfit ? 'take_failed' : 'bounced', to: undefined };
    return giveBack(this.#self, { name, modRevision, record }, why, unfit ? record.attempts + 1 : 0);
  }

  #ended(nowMs: number, text: string, operation: number, outcome: Outcome<unknown>): void {
    const item = this.#items.get(text);
    if (item === undefined || item.operation !== operation || item.paused) return;
    const { doing } = item;
    this.#over(item);
    this.#due.add(text);
    item.doing = 'nothing';
    if (doing === 'givingBack') return this.#gaveBack(nowMs, item, outcome as Outcome<TransactionResult>);
    if (outcome.ok) {
      item.failures = 0;
      if (doing === 'taking') item.doing = 'held';
      this.#effects.push({ kind: 'tell', event: { kind: doing === 'taking' ? 'taken' : 'released', name: text } });
      return;
    }
    const kind = doing === 'taking' ? 'takeFailed' : 'releaseFailed';
    this.#effects.push({ kind: 'tell', event: { kind, name: text, error: outcome.error } });
    if (doing === 'releasing') item.doing = 'held';
    this.#pause(nowMs, item);
    if (doing === 'taking' && item.failures >= this.#options.takeTriesMax) item.unfit = true;
  }

  #gaveBack(nowMs: number, item: Item, outcome: Outcome<TransactionResult>): void {
    if (!outcome.ok || !outcome.value.succeeded) return this.#pause(nowMs, item);
    item.failures = 0;
    // The watch will say the same, perhaps after it has been assigned here once more.
    if ((item.assigned?.modRevision ?? 0) < outcome.value.revision) item.assigned = undefined;
    this.#effects.push({ kind: 'tell', event: { kind: 'gaveBack', name: item.text } });
  }

  /** Whatever is still said about its operation, or comes from its timer, is of the past. */
  #over(item: Item): void {
    item.operation = 0;
    this.#operating -= 1;
    assert(this.#operating >= 0, 'more operations have ended than begun');
  }

  /** Before the same is tried again. */
  #pause(nowMs: number, item: Item): void {
    item.failures += 1;
    item.paused = true;
    item.operation = this.#nextOperation++;
    const delayMs = Math.min(this.#options.retryMsMax, this.#options.retryMsMin * 2 ** Math.min(20, item.failures - 1));
    const timer = { text: item.text, operation: item.operation };
    this.#effects.push({ kind: 'schedule', atMs: nowMs + delayMs, timer });
  }

  #expired(nowMs: number, { text, operation }: HeldTimer): void {
    const item = this.#items.get(text);
    if (item === undefined || item.operation !== operation) return;
    if (item.paused) {
      item.paused = false;
      this.#due.add(text);
      return;
    }
    const error = new RemusterError(
      'DEADLINE',
      `the host did not end to ${item.doing === 'taking' ? 'take' : 'release'} it`,
    );
    // It may still be taking. Only after a release it is certain that it has nothing; another node is tried then.
    if (item.doing === 'taking') item.unfit = true;
    item.doubtful = true;
    const kind = item.doing === 'taking' ? 'takeFailed' : 'releaseFailed';
    this.#effects.push({ kind: 'tell', event: { kind, name: text, error } });
    this.#over(item);
    item.doing = 'held';
    this.#pause(nowMs, item);
  }
}

function newItem(name: ContainerName, text: string): Item {
  return {
    name,
    text,
    assigned: undefined,
    doing: 'nothing',
    takenRevision: 0,
    operation: 0,
    paused: false,
    failures: 0,
    unfit: false,
    doubtful: false,
  };
}
