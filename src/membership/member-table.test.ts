/** The rules by which one node changes its mind about others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIdFrom } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import { MemberTable } from './member-table.ts';

const patience = { silentAfterMs: 100, deadAfterMs: 500, forgetAfterMs: 5_000 };

function node(number: number, changes: Partial<Identity> = {}): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(number));
  const address = { host: '10.0.0.1', port: 7_000 + number };
  return { id, name: `n${number}`, ...address, generation: 1, roles: ['worker'], dc: 'dc1', ...changes };
}

function tableOf(membersMax = 10): MemberTable {
  return new MemberTable(node(1), membersMax);
}

function typesOf(events: readonly { type: string }[]): string[] {
  return events.map((event) => event.type);
}

test('hearsay is not shown until it is heard', () => {
  const table = tableOf();
  assert.deepEqual(table.learned(0, node(2)), []);
  assert.equal(table.views(0).length, 1);
  assert.deepEqual(typesOf(table.heard(5, node(2))), ['member.alive']);
  assert.equal(table.views(9).at(-1)?.silentMs, 4);
});

test('hearsay proves no life', () => {
  const table = tableOf();
  table.heard(0, node(2));
  table.learned(400, node(2));
  assert.deepEqual(typesOf(table.swept(400, patience)), ['member.probe-failed']);
});

test('silence leads to probe-failed, dead and oblivion, one verdict at a time', () => {
  const table = tableOf();
  table.heard(0, node(2));
  assert.deepEqual(table.swept(99, patience), []);
  assert.deepEqual(typesOf(table.swept(100, patience)), ['member.probe-failed']);
  assert.deepEqual(table.swept(499, patience), []);
  assert.deepEqual(typesOf(table.swept(500, patience)), ['member.dead']);
  assert.deepEqual(table.swept(5_000, patience), []);
  assert.equal(table.size, 0);
});

test('the echo of an older life changes nothing', () => {
  const table = tableOf();
  table.heard(0, node(2, { generation: 3 }));
  assert.deepEqual(table.heard(50, node(2, { generation: 2 })), []);
  assert.deepEqual(table.left(50, node(2, { generation: 2 }), 'late'), []);
  assert.equal(table.views(50).at(-1)?.silentMs, 50);
});

test('a life that is only heard of ends the older one and has to be met', () => {
  const table = tableOf();
  table.heard(0, node(2));
  assert.deepEqual(typesOf(table.learned(5, node(2, { generation: 2, port: 9_000 }))), ['member.dead']);
  assert.equal(table.get(node(2).id)?.entry.port, 9_000);
  assert.deepEqual(typesOf(table.heard(9, node(2, { generation: 2, port: 9_000 }))), ['member.alive']);
});

test('who left stays gone, whatever arrives late', () => {
  const table = tableOf();
  table.heard(0, node(2));
  assert.deepEqual(typesOf(table.left(5, node(2), 'bye')), ['member.left']);
  assert.deepEqual(table.left(6, node(2), 'bye'), []);
  assert.deepEqual(table.heard(7, node(2)), []);
  assert.deepEqual(typesOf(table.heard(8, node(2, { generation: 2 }))), ['member.alive']);
});

test('a process with our id in another life is a conflict; our own echo is not', () => {
  const table = tableOf();
  assert.deepEqual(typesOf(table.heard(0, node(1, { generation: 2 }))), ['member.conflict']);
  assert.deepEqual(table.heard(0, node(1)), []);
  assert.equal(table.size, 0);
});

test('a full table makes room by giving up the gone before hearsay, and never the living', () => {
  const table = tableOf(3);
  table.heard(0, node(2));
  table.learned(1, node(3));
  table.heard(2, node(4));
  table.left(2, node(4), 'bye');
  table.heard(3, node(5));
  assert.deepEqual(
    [2, 3, 4, 5].filter((number) => table.get(node(number).id) !== undefined),
    [2, 3, 5],
  );
  table.heard(4, node(6));
  assert.deepEqual(table.heard(5, node(7)), []);
  assert.equal(table.size, 3);
});

test('what the store should know is marked: the met and the gone, not the hearsay', () => {
  const table = tableOf();
  table.learned(0, node(3));
  assert.equal(table.unsaved.size, 0);
  table.heard(0, node(2));
  assert.deepEqual([...table.unsaved], [node(2).id]);
});
