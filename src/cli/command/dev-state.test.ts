/** Pointers to dev clusters: a stale pointer leads nowhere, and its removal spares what still runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import {
  type DevState,
  devClusterAt,
  onlyDevCluster,
  removeDevState,
  runningDevClusters,
  removeDeadDevClusters,
  writeDevState,
} from './dev-state.ts';

let folder = '';
const runtimeDir = process.env['XDG_RUNTIME_DIR'];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'remuster-state-test-'));
  process.env['XDG_RUNTIME_DIR'] = join(folder, 'run');
  mkdirSync(join(folder, 'run'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
  if (runtimeDir === undefined) delete process.env['XDG_RUNTIME_DIR'];
  else process.env['XDG_RUNTIME_DIR'] = runtimeDir;
});

function stateOf(name: string, change: Partial<DevState> = {}): DevState {
  const root = join(folder, name);
  mkdirSync(root, { recursive: true });
  const nonce = Buffer.from(name.padEnd(16, '.')).toString('hex');
  const admin = 'http://127.0.0.1:1';
  return { pid: process.pid, nonce, root, temporary: true, control: admin, admin, token: 't', nodes: [], ...change };
}

async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  return child.pid ?? 0;
}

describe('a running dev cluster', () => {
  test('is found while it runs, and leaves nothing behind when it is removed', () => {
    const state = stateOf('one');
    writeDevState(state);
    assert.deepEqual(onlyDevCluster(), state);
    assert.deepEqual(devClusterAt({ root: state.root }), state);
    removeDevState(state.root, true);
    assert.equal(onlyDevCluster(), undefined);
    assert.deepEqual(readdirSync(join(folder, 'run')), []);
    assert.ok(!existsSync(state.root));
  });

  test('keeps a data directory that is not temporary', () => {
    const state = stateOf('kept', { temporary: false });
    writeDevState(state);
    writeFileSync(join(state.root, 'precious'), '');
    removeDevState(state.root, false);
    assert.deepEqual(readdirSync(state.root), ['precious']);
  });

  test('must be named when there are several', () => {
    writeDevState(stateOf('one'));
    writeDevState(stateOf('two'));
    assert.equal(onlyDevCluster(), undefined);
    assert.throws(() => devClusterAt({}), /several dev clusters run/);
    assert.equal(devClusterAt({ root: join(folder, 'two') }).root, join(folder, 'two'));
  });

  test('is named by the address of any of its nodes, and by no other address', () => {
    const node = { id: 'x', name: 'w1', pid: process.pid, roles: [], dc: 'd', host: '127.0.0.1', port: 1 };
    writeDevState(stateOf('one', { admin: 'http://127.0.0.1:71', nodes: [{ ...node, httpPort: 72 }] }));
    writeDevState(stateOf('two', { admin: 'http://127.0.0.1:81', nodes: [{ ...node, httpPort: 82 }] }));
    for (const addr of ['http://127.0.0.1:82', '127.0.0.1:82', 'http://localhost:81/'])
      assert.equal(devClusterAt({ addr }).root, join(folder, 'two'), addr);
    assert.throws(() => devClusterAt({ addr: 'http://10.0.0.1:71' }), /is not a dev cluster of this user/);
    assert.throws(() => devClusterAt({ addr: '127.0.0.1:72', root: join(folder, 'two') }), /is not a dev cluster/);
  });
});

describe('a stale pointer', () => {
  test('of an ended process leads nowhere', async () => {
    writeDevState(stateOf('dead', { pid: await deadPid() }));
    assert.deepEqual(runningDevClusters(), []);
    assert.throws(
      () => devClusterAt({}),
      (error) => isRemusterError(error, 'UNREACHABLE'),
    );
  });

  test('whose nonce or process differs from the state file leads nowhere', () => {
    const state = stateOf('changed');
    writeDevState(state);
    writeFileSync(join(state.root, 'dev.json'), JSON.stringify({ ...state, nonce: '0'.repeat(32) }));
    assert.deepEqual(runningDevClusters(), []);
  });

  test('is removed with its data once all its processes have ended, and not before', async () => {
    const pid = await deadPid();
    const node = { id: 'x', name: 'n', roles: [], dc: 'd', host: 'h', port: 1, httpPort: 2 };
    const orphaned = stateOf('orphaned', { pid, nodes: [{ ...node, pid: process.pid }] });
    const gone = stateOf('gone', { pid, nodes: [{ ...node, pid }] });
    const kept = stateOf('kept', { pid, temporary: false });
    for (const state of [orphaned, gone, kept]) writeDevState(state);
    removeDeadDevClusters();
    assert.deepEqual(
      [orphaned, gone, kept].map((state) => existsSync(state.root)),
      [true, false, true],
    );
  });
});
