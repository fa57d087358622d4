/**
 * Executes changes of the manager group on the leader, one at a time. Rejects a loss of quorum before any write.
 * Records a removal before it executes it, so that the autopilot does not add the node again.
 */
import { type Done, RemusterError, failure, isRemusterError, success, withPossibleEffect } from '../../base/errors.ts';
import { type NodeId, namePattern, parseNodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import type { Registry, RegistryTransaction } from '../../base/registry.ts';
import { notMemberText } from '../../consensus/state/configuration-log.ts';
import type { GroupChange, GroupMember } from '../../consensus/state/state-machine.ts';
import { recordRemoval, clearRemoval } from '../group/removed-managers.ts';
import type { ManagerRole } from '../group/manager-role.ts';
import type { ManagerDirectory } from '../group/manager-directory.ts';
import { type CommandArguments, reasonArgument, commandArguments } from './command-arguments.ts';
import { removalBlocker } from './removal.ts';

export type GroupCommandPorts = {
  readonly clock: Clock;
  readonly registry: Pick<Registry, 'transact'>;
  readonly manager: Pick<ManagerRole, 'group' | 'change'>;
  readonly managers: Pick<ManagerDirectory, 'all' | 'nameOf'>;
  readonly self: NodeId;
};

const busyRetryMs = 100;

export class GroupCommands {
  readonly #ports: GroupCommandPorts;

  constructor(ports: GroupCommandPorts) {
    this.#ports = ports;
  }

  /** Throws BAD_ARGUMENT if the arguments are invalid. */
  change(args: unknown, timeoutMs: number, done: Done<object>): void {
    const fields = commandArguments(args);
    const change = changeIn(fields);
    const untilMs = this.#ports.clock.nowMs() + timeoutMs;
    if (change.kind === 'remove') return this.#remove(change.id, fields, untilMs, done);
    if (change.kind === 'promote') return this.#promote(change.id, untilMs, done);
    this.#write(clearRemoval(change.member.id), untilMs, (outcome) => {
      if (outcome.ok) this.#change(change, untilMs, done);
      else done(outcome);
    });
  }

  transfer(args: unknown, timeoutMs: number, done: Done<object>): void {
    const { to } = commandArguments(args);
    const target = to === undefined ? undefined : idIn(to);
    this.#ports.manager.group.transfer(target, timeoutMs, (outcome) => done(outcome.ok ? success({}) : outcome));
  }

  #promote(id: NodeId, untilMs: number, done: Done<object>): void {
    if (this.#nameOf(id) !== undefined) return this.#change({ kind: 'promote', id }, untilMs, done);
    const name = this.#ports.managers.nameOf(id) ?? `node ${id}`;
    done(failure('PRECONDITION', notMemberText(name), 'no'));
  }

  #remove(id: NodeId, fields: CommandArguments, untilMs: number, done: Done<object>): void {
    const blocker = removalBlocker(this.#members(), id, (other) => this.#isCaughtUp(other));
    if (blocker !== undefined) return done(failure('PRECONDITION', blocker, 'no'));
    const voters = this.#members().filter((member) => member.standing === 'voter' && member.id !== id).length;
    if (fields['dryRun'] === true) return done(success({ dryRun: true, voters }));
    const name = this.#nameOf(id) ?? id;
    this.#write(recordRemoval(id, { name, reason: reasonArgument(fields) }), untilMs, (written) => {
      if (!written.ok) return done(written);
      this.#change({ kind: 'remove', id }, untilMs, (outcome) => {
        if (outcome.ok || outcome.error.stateChanged !== 'no') return done(outcome.ok ? success({ voters }) : outcome);
        // The removal certainly did not happen, so the record must go too, or the autopilot would never add the node
        // again.
        this.#write(clearRemoval(id), untilMs, (cleared) =>
          done(cleared.ok ? outcome : { ok: false, error: withPossibleEffect(outcome.error) }),
        );
      });
    });
  }

  /** Alive in membership and caught up with the log. */
  #isCaughtUp(id: NodeId): boolean {
    const { self, managers, manager: role } = this.#ports;
    if (id === self) return true;
    const isAlive = managers.all().some((manager) => manager.id === id && manager.isAlive);
    return isAlive && role.group.progress().some((one) => one.id === id && one.caughtUp);
  }

  #change(change: GroupChange, untilMs: number, done: Done<object>): void {
    const { clock, manager } = this.#ports;
    const leftMs = Math.max(busyRetryMs, untilMs - clock.nowMs());
    manager.change(change, leftMs, (outcome) => {
      if (outcome.ok) return done(success({}));
      const { error } = outcome;
      const isBusy = isRemusterError(error, 'CAPACITY') && clock.nowMs() + busyRetryMs < untilMs;
      if (isBusy) clock.schedule(busyRetryMs, () => this.#change(change, untilMs, done));
      else done(outcome);
    });
  }

  #write(transaction: RegistryTransaction, untilMs: number, done: Done<unknown>): void {
    const timeoutMs = Math.max(busyRetryMs, untilMs - this.#ports.clock.nowMs());
    this.#ports.registry.transact(transaction, { timeoutMs }, done);
  }

  #members(): readonly GroupMember[] {
    return this.#ports.manager.group.view().members;
  }

  #nameOf(id: NodeId): string | undefined {
    return this.#members().find((member) => member.id === id)?.name;
  }
}

function idIn(value: unknown): NodeId {
  return parseNodeId(typeof value === 'string' ? value : '');
}

function changeIn({ kind, id, name, host, port }: CommandArguments): GroupChange {
  if (kind === 'promote' || kind === 'remove') return { kind, id: idIn(id) };
  if (kind !== 'add') throw new RemusterError('BAD_ARGUMENT', 'kind must be add, promote or remove');
  const hasAddress = typeof host === 'string' && host !== '' && Number.isInteger(port) && (port as number) > 0;
  if (typeof name !== 'string' || !namePattern.test(name) || !hasAddress)
    throw new RemusterError('BAD_ARGUMENT', 'a manager to add needs a name, a host and a port');
  return { kind, member: { id: idIn(id), name, host, port: port as number } };
}
