/**
 * Creates, deletes, lists, shows and explains pools, on any node. Writes pool records only; the placer creates, moves
 * and removes containers.
 */
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { type Registry, type RegistryEntry, type RegistryTransaction, onlyKey } from '../../base/registry.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../registry/cluster-keys.ts';
import { type ContainerExplanation, containerExplanation } from './container-explanation.ts';
import { type PoolRequest, type PoolSpec, poolSpecDifference, poolSpec } from './pool-spec.ts';
import {
  type ContainerView,
  type ContainerLookup,
  type PoolDescription,
  type PoolRow,
  type PoolDetails,
  containerView,
  describePool,
  poolRow,
} from './pool-views.ts';
import { PoolReader, containerLookupOf } from './pool-reader.ts';
import { type PoolRecord, encodeNodeNumber, encodePool, readNodeNumber, readPool } from '../state/container-records.ts';

export type CreatedPool = PoolDescription & {
  /** False: the same pool existed already. */
  readonly created: boolean;
};

const timeoutMs = 5_000;
const conflictsMax = 10;
const containersShownMax = 10_000;
const lastPoolKey = clusterKey({ kind: 'lastPool' });

export class PoolOperations {
  readonly #registry: Pick<Registry, 'range' | 'transact'>;
  readonly #clock: Clock;
  readonly #reader: PoolReader;

  constructor(registry: Pick<Registry, 'range' | 'transact'>, clock: Clock) {
    this.#registry = registry;
    this.#clock = clock;
    this.#reader = new PoolReader(registry, clock);
  }

  /** Idempotent: the same pool again is no error. A different pool of that name is PRECONDITION. */
  create(request: PoolRequest, done: Done<CreatedPool>): void {
    this.#checked(
      () => poolSpec(request),
      done,
      (spec) => this.#create(request, spec, conflictsMax, done),
    );
  }

  /** Starts the deletion; the placer removes the containers, then the pool. Idempotent while the pool exists. */
  delete(name: string, done: Done<PoolDescription>): void {
    this.#update(name, (record) => (record.state === 'deleting' ? record : { ...record, state: 'deleting' }), done);
  }

  /** Rolls the containers to that version, one after the other. Versions only grow: a lower one changes nothing. */
  setModuleVersion(name: string, version: number, done: Done<PoolDescription>): void {
    const isVersion = Number.isSafeInteger(version) && version >= 0;
    this.#update(
      name,
      (record) => {
        if (!isVersion) throw new RemusterError('BAD_ARGUMENT', 'a module version is a whole number, 0 or more');
        if (record.state === 'deleting') throw new RemusterError('PRECONDITION', `pool ${name} is being deleted`, 'no');
        // A late caller with an older version must not undo a newer one.
        return version <= record.moduleVersion ? record : { ...record, moduleVersion: version };
      },
      done,
    );
  }

  list(done: Done<readonly PoolRow[]>): void {
    const pools = new Map<string, PoolRecord>();
    const containers = new Map<string, ContainerLookup[]>();
    const take = (entry: RegistryEntry): void => {
      const key = parseClusterKey(entry.key);
      if (key?.kind === 'pool') {
        const record = readPool(entry.value);
        if (record !== undefined) pools.set(key.pool, record);
      } else if (key?.kind === 'container') {
        const found = containers.get(key.pool) ?? [];
        containers.set(key.pool, found);
        found.push(containerLookupOf(entry));
      }
    };
    this.#reader.readPages(keyRanges.containers, take, (outcome) => {
      if (!outcome.ok) return done(outcome);
      done(success([...pools].map(([name, pool]) => poolRow(name, pool, containers.get(name) ?? []))));
    });
  }

  /** At most `limit` containers, in order, starting with number `from`. */
  show(
    name: string,
    { from = 0, limit = containersShownMax }: { from?: number; limit?: number },
    done: Done<PoolDetails>,
  ): void {
    this.#reader.findWithView(name, done, ({ record }, view) => {
      const all = new Map<number, ContainerLookup>();
      const take = (entry: RegistryEntry): void => {
        const key = parseClusterKey(entry.key);
        if (key?.kind === 'container') all.set(Number(key.container), containerLookupOf(entry));
      };
      this.#reader.readPages(keyRanges.containersOf(name), take, (outcome) => {
        if (!outcome.ok) return done(outcome);
        const { containers: count, ...row } = poolRow(name, record, all.values());
        const last = Math.min(count, from + Math.min(limit, containersShownMax));
        const containers: ContainerView[] = [];
        for (let id = from; id < last; id++) containers.push(containerView(view, id, all.get(id)));
        done(success({ ...row, containerCount: count, containers, more: last < count }));
      });
    });
  }

  showContainer(pool: string, id: number, done: Done<ContainerView & { readonly pool: string }>): void {
    this.#reader.findContainer(pool, id, done, (view, _, found) => ({ pool, ...containerView(view, id, found) }));
  }

  explainContainer(pool: string, id: number, done: Done<ContainerExplanation & { pool: string; id: number }>): void {
    this.#reader.findContainer(pool, id, done, (view, record, found) => ({
      pool,
      id,
      ...containerExplanation(view, record, found),
    }));
  }

  #create(request: PoolRequest, spec: PoolSpec, conflicts: number, done: Done<CreatedPool>): void {
    const { name, moduleVersion = 0 } = request;
    const key = clusterKey({ kind: 'pool', pool: name });
    this.#reader.read([onlyKey(key), onlyKey(lastPoolKey)], (outcome) => {
      if (!outcome.ok) return done(outcome);
      const existing = outcome.value.get(key);
      if (existing !== undefined) return this.#replyExisting(name, spec, readPool(existing.value), done);
      const last = outcome.value.get(lastPoolKey);
      const major = (last === undefined ? 0 : (readNodeNumber(last.value) ?? Number.NaN)) + 1;
      if (!Number.isSafeInteger(major)) return done(failure('INTERNAL', 'the number of the last pool cannot be read'));
      const record: PoolRecord = { ...spec, major, minor: 0, moduleVersion, state: 'active' };
      const transaction: RegistryTransaction = {
        compare: [
          { key, target: 'version', is: 'equal', than: 0 },
          { key: lastPoolKey, target: 'modRevision', is: 'equal', than: last?.modRevision ?? 0 },
        ],
        then: [
          { kind: 'put', key, value: encodePool(record) },
          { kind: 'put', key: lastPoolKey, value: encodeNodeNumber(major) },
        ],
        otherwise: [],
      };
      this.#transact(transaction, conflicts, done, {
        succeeded: () => ({ ...describePool(name, record), created: true }),
        conflict: () => this.#create(request, spec, conflicts - 1, done),
      });
    });
  }

  #replyExisting(name: string, spec: PoolSpec, existing: PoolRecord | undefined, done: Done<CreatedPool>): void {
    if (existing === undefined) return done(failure('PRECONDITION', `the record of pool ${name} cannot be read`, 'no'));
    const difference = poolSpecDifference(spec, existing);
    if (existing.state === 'deleting')
      return done(failure('PRECONDITION', `pool ${name} is being deleted; wait until it is gone`, 'no'));
    if (difference !== undefined)
      return done(failure('PRECONDITION', `pool ${name} already exists, with ${difference}`, 'no'));
    done(success({ ...describePool(name, existing), created: false }));
  }

  /** Writes nothing if `change` returns the same record. */
  #update(
    name: string,
    change: (record: PoolRecord) => PoolRecord,
    done: Done<PoolDescription>,
    conflicts = conflictsMax,
  ): void {
    this.#reader.find(name, done, ({ record, modRevision }) => {
      this.#checked(
        () => change(record),
        done,
        (changed) => {
          if (changed === record) return done(success(describePool(name, record)));
          const key = clusterKey({ kind: 'pool', pool: name });
          const compare = [{ key, target: 'modRevision', is: 'equal', than: modRevision }] as const;
          const then = [{ kind: 'put', key, value: encodePool(changed) }] as const;
          this.#transact({ compare, then, otherwise: [] }, conflicts, done, {
            succeeded: () => describePool(name, changed),
            conflict: () => this.#update(name, change, done, conflicts - 1),
          });
        },
      );
    });
  }

  #transact<T>(
    transaction: RegistryTransaction,
    conflicts: number,
    done: Done<T>,
    then: { readonly succeeded: () => T; readonly conflict: () => void },
  ): void {
    this.#registry.transact(transaction, { timeoutMs }, (outcome) => {
      if (!outcome.ok) done(outcome);
      else if (outcome.value.succeeded) done(success(then.succeeded()));
      else if (conflicts > 0) then.conflict();
      else done(failure('CAPACITY', 'the records of pools change too often: try again'));
    });
  }

  /** Calls `next` with the result of the check; an error ends the call after it has returned, like all others. */
  #checked<T>(check: () => T, done: Done<never>, next: (value: T) => void): void {
    let checked: Outcome<T>;
    try {
      checked = success(check());
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      checked = { ok: false, error };
    }
    if (checked.ok) return next(checked.value);
    const refused = checked;
    this.#clock.schedule(0, () => done(refused));
  }
}
