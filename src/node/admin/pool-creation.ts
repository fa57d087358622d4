/**
 * Creates a pool and replies when the address table of this node has it, so that it is callable here at once. If the
 * table lags far behind, it replies anyway, because the pool exists: calls here then wait for the table and never reach
 * a former pool of that name.
 */
import { type Done, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { Registry } from '../../base/registry.ts';
import type { AddressTable, ContainerCalls } from '../../containers/contract.ts';
import { type CreatedPool, PoolOperations } from '../../placement/operations/pool-operations.ts';
import type { PoolRequest } from '../../placement/operations/pool-spec.ts';
import { describePool } from '../../placement/operations/pool-views.ts';

/** Longest wait for the address table. */
const awaitTableMsMax = 2_000;
const pollMs = 10;

export type PoolCreationPorts = {
  readonly registry: Pick<Registry, 'range' | 'transact'>;
  readonly clock: Clock;
  /** Undefined on nodes without containers. */
  readonly containers:
    | { readonly table: Pick<AddressTable, 'pool'>; readonly calls: Pick<ContainerCalls, 'expectPool'> }
    | undefined;
  /** The registry has the pool; the table of this node may lag. */
  readonly onCreated?: (pool: CreatedPool) => void;
};

export function createPoolAndAwaitTable(ports: PoolCreationPorts, request: PoolRequest, done: Done<CreatedPool>): void {
  const { registry, clock, containers, onCreated } = ports;
  new PoolOperations(registry, clock).create(request, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const { name, id } = outcome.value;
    containers?.calls.expectPool(name, Number.parseInt(id, 10));
    onCreated?.(outcome.value);
    awaitTable(ports, outcome.value, clock.nowMs() + awaitTableMsMax, () => done(success(outcome.value)));
  });
}

function awaitTable(ports: PoolCreationPorts, pool: CreatedPool, untilMs: number, known: () => void): void {
  const { clock, containers } = ports;
  const record = containers?.table.pool(pool.name)?.record;
  const isKnown = record !== undefined && describePool(pool.name, record).id === pool.id;
  if (isKnown || clock.nowMs() >= untilMs) return known();
  clock.schedule(pollMs, () => awaitTable(ports, pool, untilMs, known));
}
