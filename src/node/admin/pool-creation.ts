/**
 * Creates a pool and replies when this node's address table has it, so that it is callable here at once. A table far
 * behind is not awaited, because the pool exists; calls here wait for the table and reach no former pool.
 */
import { type Done, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { Registry } from '../../base/registry.ts';
import type { AddressTable, ContainerCalls } from '../../containers/contract.ts';
import { type CreatedPool, PoolOperations } from '../../placement/operations/pool-operations.ts';
import type { PoolRequest } from '../../placement/operations/pool-spec.ts';
import { describePool } from '../../placement/operations/pool-views.ts';

/** A table that is further behind has other troubles. */
const knownMsMax = 2_000;
const lookMs = 10;

export type PoolCreationPorts = {
  readonly registry: Pick<Registry, 'range' | 'transact'>;
  readonly clock: Clock;
  /** Undefined on nodes without containers. */
  readonly containers:
    | { readonly table: Pick<AddressTable, 'pool'>; readonly calls: Pick<ContainerCalls, 'expectPool'> }
    | undefined;
  /** It is in the registry; this node may not know it yet. */
  readonly made?: (pool: CreatedPool) => void;
};

export function createPoolAndAwaitTable(ports: PoolCreationPorts, request: PoolRequest, done: Done<CreatedPool>): void {
  const { registry, clock, containers, made } = ports;
  new PoolOperations(registry, clock).create(request, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const { name, id } = outcome.value;
    containers?.calls.expectPool(name, Number.parseInt(id, 10));
    made?.(outcome.value);
    whenKnown(ports, outcome.value, clock.nowMs() + knownMsMax, () => done(success(outcome.value)));
  });
}

function whenKnown(ports: PoolCreationPorts, pool: CreatedPool, untilMs: number, known: () => void): void {
  const { clock, containers } = ports;
  const record = containers?.table.pool(pool.name)?.record;
  const isKnown = record !== undefined && describePool(pool.name, record).id === pool.id;
  if (isKnown || clock.nowMs() >= untilMs) return known();
  clock.schedule(lookMs, () => whenKnown(ports, pool, untilMs, known));
}
