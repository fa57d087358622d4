/**
 * Create, delete, list, show and explain pools, from any node. Writes pool records only; the placer makes, moves and
 * removes containers.
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
  /** False: it was there already, exactly so. */
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

  /** The same pool again is no error; another one of that name is PRECONDITION. */
  create(request: PoolRequest, done: Done<CreatedPool>): void {
    this.#checked(
      () => poolSpec(request),
      done,
      (spec) => this.#create(request, spec, conflictsMax, done),
    );
  }

  /** Begins it; the placer removes the containers and then the pool. Being deleted already is no error. */
  delete(name: string, done: Done<PoolDescription>): void {
    this.#change(name, (record) => (record.state === 'deleting' ? record : { ...record, state: 'deleting' }), done);
  }

  /** What its containers are to run from now on, one after the other; versions only go up. */
  setModuleVersion(name: string, version: number, done: Done<PoolDescription>): void {
    const isVersion = Number.isSafeInteger(version) && version >= 0;
    this.#change(
      name,
      (record) => {
        if (!isVersion) throw new RemusterError('BAD_ARGUMENT', 'a version is a whole number from 0 on');
        if (record.state === 'deleting') throw new RemusterError('PRECONDITION', `pool ${name} is being deleted`, 'no');
        // Who comes late with an older one must not take the newer one away.
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

  /** So many of its containers at most, from that one on. */
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
      const there = outcome.value.get(key);
      if (there !== undefined) return this.#answerExisting(name, spec, readPool(there.value), done);
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
        again: () => this.#create(request, spec, conflicts - 1, done),
      });
    });
  }

  #answerExisting(name: string, spec: PoolSpec, there: PoolRecord | undefined, done: Done<CreatedPool>): void {
    if (there === undefined) return done(failure('PRECONDITION', `the record of pool ${name} cannot be read`, 'no'));
    const differs = poolSpecDifference(spec, there);
    if (there.state === 'deleting')
      return done(failure('PRECONDITION', `pool ${name} is being deleted; wait until it is gone`, 'no'));
    if (differs !== undefined)
      return done(failure('PRECONDITION', `pool ${name} exists already, and has ${differs}`, 'no'));
    done(success({ ...describePool(name, there), created: false }));
  }

  /** A record that is given back as it is stays as it is. */
  #change(
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
            again: () => this.#change(name, change, done, conflicts - 1),
          });
        },
      );
    });
  }

  #transact<T>(
    transaction: RegistryTransaction,
    conflicts: number,
    done: Done<T>,
    then: { readonly succeeded: () => T; readonly again: () => void },
  ): void {
    this.#registry.transact(transaction, { timeoutMs }, (outcome) => {
      if (!outcome.ok) done(outcome);
      else if (outcome.value.succeeded) done(success(then.succeeded()));
      else if (conflicts > 0) then.again();
      else done(failure('CAPACITY', 'pools change too fast at this moment'));
    });
  }

  /** What is wrong from the beginning ends as everything does: after the call has returned. */
  #checked<T>(check: () => T, done: Done<never>, go: (value: T) => void): void {
    let checked: Outcome<T>;
    try {
      checked = success(check());
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      checked = { ok: false, error };
    }
    if (checked.ok) go(checked.value);
    else this.#refuse(done, checked);
  }

  #refuse(done: Done<never>, outcome: Outcome<never>): void {
    this.#clock.schedule(0, () => done(outcome));
  }
}
