/**
 * Executes membership changes of the manager group on the leader. One at a time. Refuses loss of quorum before writing;
 * records removals first, so that the leader does not add the node again.
 */
import { type Done, RemusterError, failure, isRemusterError, success, withPossibleEffect } from '../../base/errors.ts';
import { type NodeId, namePattern, parseNodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import type { Registry, RegistryTransaction } from '../../base/registry.ts';
import type { GroupChange, GroupMember } from '../../consensus/state/state-machine.ts';
import { recordRemoval, clearRemoval } from '../group/removed-managers.ts';
import type { ManagerRole } from '../group/manager-role.ts';
import type { ManagerDirectory } from '../group/manager-directory.ts';
import { type CommandArguments, reasonArgument, commandArguments } from './command-arguments.ts';
import { removalBlocker } from './removal.ts';

export type GroupCommandParts = {
  readonly clock: Clock;
  readonly registry: Pick<Registry, 'transact'>;
  readonly seat: Pick<ManagerRole, 'group' | 'change'>;
  readonly managers: Pick<ManagerDirectory, 'all'>;
  readonly self: NodeId;
};

const busyRetryMs = 100;

export class GroupCommands {
  readonly #parts: GroupCommandParts;

  constructor(parts: GroupCommandParts) {
    this.#parts = parts;
  }

  /** BAD_ARGUMENT by throwing when the words make no sense. */
  change(words: unknown, timeoutMs: number, done: Done<object>): void {
    const fields = commandArguments(words);
    const change = changeIn(fields);
    const untilMs = this.#parts.clock.nowMs() + timeoutMs;
    if (change.kind === 'remove') return this.#remove(change.id, fields, untilMs, done);
    if (change.kind === 'promote') return this.#change(change, untilMs, done);
    this.#write(clearRemoval(change.member.id), untilMs, (outcome) => {
      if (outcome.ok) this.#change(change, untilMs, done);
      else done(outcome);
    });
  }

  transfer(words: unknown, timeoutMs: number, done: Done<object>): void {
    const { to } = commandArguments(words);
    const target = to === undefined ? undefined : idIn(to);
    this.#parts.seat.group.transfer(target, timeoutMs, (outcome) => done(outcome.ok ? success({}) : outcome));
  }

  #remove(id: NodeId, fields: CommandArguments, untilMs: number, done: Done<object>): void {
    const refusal = removalBlocker(this.#members(), id, (other) => this.#follows(other));
    if (refusal !== undefined) return done(failure('PRECONDITION', refusal, 'no'));
    const voters = this.#members().filter((member) => member.standing === 'voter' && member.id !== id).length;
    if (fields['dryRun'] === true) return done(success({ dryRun: true, voters }));
    const name = this.#nameOf(id) ?? id;
    this.#write(recordRemoval(id, { name, reason: reasonArgument(fields) }), untilMs, (written) => {
      if (!written.ok) return done(written);
      this.#change({ kind: 'remove', id }, untilMs, (outcome) => {
        if (outcome.ok || outcome.error.stateChanged !== 'no') return done(outcome.ok ? success({ voters }) : outcome);
        // It surely did not happen: then it must not be kept out, either.
        this.#write(clearRemoval(id), untilMs, (cleared) =>
          done(cleared.ok ? outcome : { ok: false, error: withPossibleEffect(outcome.error) }),
        );
      });
    });
  }

  /** Living by membership, and keeping up with the log: only then can it be counted on. */
  #follows(id: NodeId): boolean {
    const { self, managers, seat } = this.#parts;
    if (id === self) return true;
    const isAlive = managers.all().some((manager) => manager.id === id && manager.isAlive);
    return isAlive && seat.group.progress().some((one) => one.id === id && one.caughtUp);
  }

  #change(change: GroupChange, untilMs: number, done: Done<object>): void {
    const { clock, seat } = this.#parts;
    const id = change.kind === 'add' ? change.member.id : change.id;
    const name = change.kind === 'add' ? change.member.name : (this.#nameOf(id) ?? id);
    const leftMs = Math.max(busyRetryMs, untilMs - clock.nowMs());
    seat.change(change, leftMs, (outcome) => {
      if (outcome.ok) return done(success({}));
      const { error } = outcome;
      const isBusy = isRemusterError(error, 'CAPACITY') && clock.nowMs() + busyRetryMs < untilMs;
      if (isBusy) clock.schedule(busyRetryMs, () => this.#change(change, untilMs, done));
      else
        done(
          isRemusterError(error, 'PRECONDITION')
            ? failure(error.code, `${name}: ${error.message}`, error.stateChanged)
            : outcome,
        );
    });
  }

  #write(transaction: RegistryTransaction, untilMs: number, done: Done<unknown>): void {
    const timeoutMs = Math.max(busyRetryMs, untilMs - this.#parts.clock.nowMs());
    this.#parts.registry.transact(transaction, { timeoutMs }, done);
  }

  #members(): readonly GroupMember[] {
    return this.#parts.seat.group.view().members;
  }

  #nameOf(id: NodeId): string | undefined {
    return this.#members().find((member) => member.id === id)?.name;
  }
}

function idIn(word: unknown): NodeId {
  return parseNodeId(typeof word === 'string' ? word : '');
}

function changeIn({ kind, id, name, host, port }: CommandArguments): GroupChange {
  if (kind === 'promote' || kind === 'remove') return { kind, id: idIn(id) };
  if (kind !== 'add')
    throw new RemusterError('BAD_ARGUMENT', 'a change of the group adds, promotes or removes somebody');
  const isPlace = typeof host === 'string' && host !== '' && Number.isInteger(port) && (port as number) > 0;
  if (typeof name !== 'string' || !namePattern.test(name) || !isPlace)
    throw new RemusterError('BAD_ARGUMENT', 'a manager to be added has a name and an address');
  return { kind, member: { id: idIn(id), name, host, port: port as number } };
}
