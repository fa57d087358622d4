/** Assignments over HTTP: create, await, compare. */
import assert from 'node:assert/strict';
import { type Entry, entries, history, put, type Target, until } from './manager-requests.ts';

const pool = 'things';

/** By container: the key, which names the owner, and how often it was written there, which shows any move. */
export type Assigned = ReadonlyMap<string, Entry>;

/** Waits until all of them have a node. */
export async function createAssignments(target: Target, containers: readonly string[]): Promise<Assigned> {
  for (const container of containers) {
    const { code, body } = await put(target, `/cluster/unassigned/${pool}/${container}`, '{}');
    assert.equal(code, 'OK', JSON.stringify(body));
  }
  return await until(`${containers.join()} assigned`, async () => {
    const found = await readAssignments(target);
    return containers.every((container) => found.has(container)) ? found : undefined;
  });
}

export async function readAssignments(target: Target): Promise<Assigned> {
  const found = (await entries(target, '/cluster/nodes/')).filter(({ key }) => key.split('/')[4] === pool);
  const containers = found.map((entry): [string, Entry] => [entry.key.split('/')[5]!, entry]);
  assert.equal(new Set(containers.map(([container]) => container)).size, containers.length, 'one has two owners');
  return new Map(containers);
}

function ownerOf(all: Assigned, container: string): string {
  return all.get(container)?.key.split('/')[3] ?? assert.fail(`nobody has ${container}`);
}

export function ownedBy(all: Assigned, id: string): string[] {
  return [...all.keys()].filter((container) => ownerOf(all, container) === id).toSorted();
}

/** Nothing moved, and nobody was given up, as far as these tell. */
export async function assertNothingMoved(before: Assigned, targets: readonly Target[]): Promise<void> {
  assert.deepEqual(await readAssignments(targets[0]!), before);
  for (const target of targets) {
    const given = (await history(target)).filter(({ type }) => type === 'node.lost' || type === 'assigner.lost');
    assert.deepEqual(given, []);
  }
}
