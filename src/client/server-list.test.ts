/** The order in which a client tries nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../base/random.ts';
import { addressKey, ServerList } from './server-list.ts';

const at = (port: number): { host: string; port: number } => ({ host: 'h', port });

test('a server list stays with one node until it fails, then goes through the others', () => {
  const servers = new ServerList([at(1), at(2), at(1)], new Random('servers'));
  assert.equal(servers.count, 2);
  assert.deepEqual(servers.current, at(1));
  servers.demote(at(1));
  assert.deepEqual(servers.current, at(2));
  assert.deepEqual(servers.nextUntried(new Set(['h:2'])), at(1));
  assert.equal(servers.nextUntried(new Set(['h:1', 'h:2'])), undefined);
});

test('an update keeps the present node first and the configured addresses last', () => {
  const servers = new ServerList([at(1)], new Random('servers'));
  servers.update([at(2), at(3), at(1)]);
  assert.deepEqual(servers.current, at(1));
  assert.equal(servers.count, 3);
  servers.update([at(4)]);
  assert.deepEqual([servers.current, servers.count], [at(1), 2]);
  servers.demote(at(1));
  servers.update([at(5)]);
  assert.deepEqual([servers.current, servers.count], [at(5), 2]);
});

test('a large cluster is sampled at random', () => {
  const servers = new ServerList([at(1)], new Random('servers'));
  const members = Array.from({ length: 5_000 }, (_, i) => at(i + 10));
  const sample = (): string => {
    servers.update(members);
    const tried = new Set<string>();
    for (let next = servers.nextUntried(tried); next !== undefined; next = servers.nextUntried(tried))
      tried.add(addressKey(next));
    assert.ok(tried.size <= 66);
    return [...tried].join();
  };
  assert.notEqual(sample(), sample());
});
