/** Runs the conformance suite of the Registry port on a real etcd. */
import { after, before } from 'node:test';

import { type EtcdServer, startEtcd } from '../../../test/support/etcd/etcd-server.ts';
import { realWorld } from '../../../test/simulation/conformance/harness.ts';
import { describeRegistry } from '../../../test/simulation/conformance/registry.ts';
import { systemClock } from '../system/clock.ts';
import { etcdRegistry } from './etcd-registry.ts';

const clock = systemClock();
let server: EtcdServer;
let tests = 0;

/** `t.after` inside a hook runs at the end of that hook, so cleanups are collected here. */
const ends: (() => Promise<void>)[] = [];
after(() => Promise.all(ends.map((end) => end())));
before(async () => {
  [server] = (await startEtcd({ after: (end) => ends.push(end) }, { withoutFsync: true })) as [EtcdServer];
});

describeRegistry('etcd', (t) => {
  tests += 1;
  const options = { endpoints: [server.endpoint], namespace: `test${tests}/`, clock };
  const registry = etcdRegistry(options);
  const other = etcdRegistry(options);
  t.after(() => {
    server.resume();
    registry.close();
    other.close();
  });
  return {
    ...realWorld,
    clock,
    registry,
    other,
    compact: () => server.compact(),
    stopReplying: async (isStopped) => (isStopped ? server.stop() : server.resume()),
  };
});
