/** Activates a drained node for an operator, from any node. Retries on conflict; an active node is no error. */
import { type Done, RemusterError, failure, success } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Clock } from '../base/ports.ts';
import type { Registry } from '../base/registry.ts';
import { nextMode } from './node-modes.ts';
import { type ClusterSnapshot, readClusterSnapshot } from './cluster-snapshot.ts';
import { type NodeStateRecord, noteCharactersMax } from './registration-records.ts';
import { activateTransaction } from './registration-transactions.ts';

const timeoutMs = 5_000;
const conflictRetriesMax = 5;

export function activateNodeState(
  ports: { readonly registry: Pick<Registry, 'range' | 'transact'>; readonly clock: Clock },
  request: { readonly node: NodeId; readonly note?: string },
  done: Done<NodeStateRecord>,
): void {
  attempt(ports, request, conflictRetriesMax, done);
}

function attempt(
  ports: Parameters<typeof activateNodeState>[0],
  request: Parameters<typeof activateNodeState>[1],
  retriesLeft: number,
  done: Done<NodeStateRecord>,
): void {
  const { registry, clock } = ports;
  const environment = (): { term: number; wallMs: number } => ({ term: 0, wallMs: clock.wallMs() });
  readClusterSnapshot(registry, request.node, timeoutMs, environment, (read) => {
    if (!read.ok) return done(read);
    const { registration, state } = read.value;
    const previous = state?.record;
    if (registration !== undefined && previous?.mode === 'active') return done(success(previous));
    const refusal = refusalOf(request.node, read.value);
    if (refusal !== undefined || registration === undefined || state === undefined)
      return done({ ok: false, error: refusal ?? new RemusterError('PRECONDITION', undefined, 'no') });
    const record: NodeStateRecord = {
      generation: previous?.generation ?? registration.record?.generation ?? 0,
      epoch: previous?.epoch ?? read.value.epoch?.record?.epoch ?? 0,
      mode: 'active',
      reason: 'admin_activate',
      lost: false,
      sinceWallMs: Math.max(0, Math.floor(clock.wallMs())),
      note: (request.note ?? '').slice(0, noteCharactersMax),
    };
    const transaction = activateTransaction(request.node, record, registration.entry, state.entry);
    registry.transact(transaction, { timeoutMs }, (outcome) => {
      if (!outcome.ok) done(outcome);
      else if (outcome.value.succeeded) done(success(record));
      else if (retriesLeft > 0) attempt(ports, request, retriesLeft - 1, done);
      else
        done(
          failure(
            'CAPACITY',
            `the state of node ${registration.record?.name ?? request.node} keeps changing: try again`,
          ),
        );
    });
  });
}

function refusalOf(node: NodeId, { registration, state }: ClusterSnapshot): RemusterError | undefined {
  if (registration === undefined && state === undefined)
    return new RemusterError('BAD_ARGUMENT', `there is no node ${node}`);
  const name = registration?.record?.name ?? node;
  if (registration === undefined)
    return new RemusterError('PRECONDITION', `node ${name} is not registered: start it, then activate it`, 'no');
  const mode = state === undefined ? 'none' : (state.record?.mode ?? 'unknown');
  return nextMode('admin_activate', mode) === undefined
    ? new RemusterError('PRECONDITION', `node ${name} is ${mode}, not drained`, 'no')
    : undefined;
}
